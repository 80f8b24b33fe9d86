// What every engine does: begin and end an asynchronous actor, touch memory through a proxy, signal an mbarrier.
#pragma once

#include <span>

#include "sim/machine/machine.hpp"

namespace nvfp4r::sim {

/// Family keys of Warp::state, Cta::family_state and Cluster::family_state that the engines use.
enum EngineState : uint32_t {
    kCpAsyncState = 0x100,
    kBulkGroupState,
    kWgmmaState,
    kWgmmaFenceState,
    kTmemAccessState,
    kTmemPairState,
    kCtaGroupState,
    kTensorPipeState,
    kTmemTransferState,
};

/// Keys of Machine::queue: an engine and the warp and lane that own the queue.
enum class Engine : uint8_t { cp_async = 1, wgmma, tmem_load, tmem_store, tensor_pipe };
inline uint64_t queue_key(Engine engine, uint32_t warp, uint32_t lane = 0) {
    return uint64_t{static_cast<uint8_t>(engine)} << 32 | warp * kLanes | lane;
}

inline ActorId begin_async(Machine& machine, ActorId issuer, bool tcgen05 = false) {
    return machine.checker() ? machine.checker()->begin_async(issuer, tcgen05) : kNoActor;
}
inline void end_async(Machine& machine, ActorId actor) {
    if (machine.checker()) machine.checker()->end_async(actor);
}

/// Tells the checker of one access; nothing when unchecked.
inline void touch(Machine& machine, ActorId actor, const Machine::Place& place, uint64_t bytes,
                  const AccessInfo& info) {
    if (machine.checker() && place.shadow) machine.checker()->access(actor, *place.shadow, place.offset, bytes, info);
}

inline AccessInfo reads(Proxy proxy, const Instr* instr) {
    return {Access::read, proxy, Order::weak, instr};
}
inline AccessInfo writes(Proxy proxy, const Instr* instr) {
    return {Access::write, proxy, Order::weak, instr};
}

/// An mbarrier by its owner and window offset.
struct MbarrierRef {
    Cta* owner = nullptr;
    uint32_t offset = 0;
};

/// Reports an mbarrier whose initialisation nothing has made visible beyond its CTA and the generic proxy.
void check_shown(Machine& machine, const MbarrierRef& barrier, const Instr* instr);
/// complete_tx of `bytes`: what the operation did is released to those who see the phase complete.
void complete_tx(Machine& machine, ActorId actor, const MbarrierRef& barrier, uint64_t bytes, const Instr* instr);
/// One arrival, released alike (tcgen05.commit, cp.async.mbarrier.arrive).
void arrive_one(Machine& machine, ActorId actor, const MbarrierRef& barrier, const Instr* instr);

/// The mbarrier at a shared address; reports an address that is not a multiple of 8.
MbarrierRef barrier_at(Machine& machine, const Warp& warp, uint32_t lane, uint32_t address, bool cluster_form,
                       const Instr* instr);

/// Place of [offset, offset + bytes) in a CTA's shared memory.
Machine::Place shared_place(Cta& cta, uint32_t offset, uint64_t bytes, uint32_t align, const Instr* instr);

/// Was the kernel launched with a cluster attribute or a cluster directive?
bool in_cluster_launch(const Cta& cta);

/// Reports a finding for one lane.
inline void report_lane(const Warp& warp, uint32_t lane, FindingKind kind, const std::string& text,
                        const Instr* instr) {
    warp.cta->machine().report(kind, text, &warp, LaneMask{1} << lane, instr);
}

}  // namespace nvfp4r::sim
