// The tensor memory accelerator: tile-mode loads, stores and reductions as asynchronous operations.
#pragma once

#include <vector>

#include "sim/engine/async.hpp"
#include "sim/engine/bulk_groups.hpp"
#include "sim/engine/reduce.hpp"
#include "sim/engine/tensor_box.hpp"

namespace nvfp4r::sim {

/// Who issues an operation, for the checker, reports and the trace.
struct Issuer {
    Warp* warp = nullptr;
    uint32_t lane = 0;
    const Instr* instr = nullptr;

    Cta& cta() const { return *warp->cta; }
    Machine& machine() const { return warp->cta->machine(); }
    ActorId actor() const { return warp->first_actor == kNoActor ? kNoActor : warp->first_actor + lane; }
    void report(FindingKind kind, const std::string& text) const { report_lane(*warp, lane, kind, text, instr); }
};

/// An operation with its issuer filled in and an actor of its own.
AsyncOp new_operation(const Issuer& issuer, const char* what, uint64_t bytes, bool tcgen05 = false);

/// One CTA's copy of a load: where the image goes and which mbarrier counts it.
struct LoadTarget {
    Cta* cta = nullptr;
    uint32_t offset = 0;  // window offset of the image
    MbarrierRef barrier;
};

/// Other CTAs whose shared memory or mbarrier an operation uses may not exit before release_targets. An issuer that is
/// no target is free to go.
void hold_targets(AsyncOp& op, const std::vector<LoadTarget>& targets);
void release_targets(const AsyncOp& op, const std::vector<LoadTarget>& targets);

/// Reads the map behind a generic address. Reports one that this simulator did not make, or that asks for what it does
/// not model (interleaved images, the FLIP_8B swizzle).
TensorMap load_tensor_map(const Issuer& issuer, uint64_t address);

/// Reports what hardware faults on: coordinate 0 times the element size must be a multiple of 16 bytes, the shared
/// address a multiple of 128, and a store starts at no negative coordinate.
void check_tensor_access(const Issuer& issuer, const TensorMap& map, const TensorCoords& coords, uint32_t shared_offset,
                         bool store);

/// Loads the box into every target, in several parts, each counted on the target's mbarrier.
void issue_tensor_load(const Issuer& issuer, const TensorMap& map, const TensorCoords& coords,
                       std::vector<LoadTarget> targets);

/// Stores the image at window offset `from` of the issuer's CTA; `reduce` combines instead. Joins the open bulk group.
struct TensorReduce {
    bool active = false;
    ReduceOp op = ReduceOp::add;
};
void issue_tensor_store(const Issuer& issuer, const TensorMap& map, const TensorCoords& coords, uint32_t from,
                        const TensorReduce& reduce);

/// The type that a reduction on this map adds in; nothing when the map's type has no such operation.
std::optional<ReduceType> tensor_reduce_type(TensorType type, ReduceOp op);

}  // namespace nvfp4r::sim
