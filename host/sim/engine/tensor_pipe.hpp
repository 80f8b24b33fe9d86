// A thread's tensor pipe: tcgen05.mma, cp and commit run in the order they were issued, at an arbitrary later time.
//
// What PTX orders (9.7.16.6) is told to the checker, no more: cp -> mma, mma -> mma on the same accumulator and shape,
// everything -> commit. Two operations run in order here and still race when nothing orders them.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "sim/engine/tma.hpp"

namespace nvfp4r::sim {

/// An actor that collects operations: others are ordered after all of them.
struct PipeOrder {
    ActorId actor = kNoActor;
};

struct TensorPipe {
    PipeOrder everything, copies, multiplies;
    std::map<uint64_t, PipeOrder> accumulators;  // by D address and shape
    std::vector<uint8_t> collector;              // A as collector::a::fill left it; empty: nothing to use
};

/// The pipe of the issuing thread.
std::shared_ptr<TensorPipe> tensor_pipe(const Issuer& issuer);

/// Queues `task`. `peer`: the other CTA of the pair that the operation uses as well, or nullptr.
using PipeTask = std::function<void(AsyncOp&, TensorPipe&)>;
void issue_to_pipe(const Issuer& issuer, const char* what, uint32_t latency, uint64_t bytes, Cta* peer, PipeTask task);

/// `op` comes after all that `order` collected.
void follow(Machine& machine, ActorId op, const PipeOrder& order);
/// `order` collects `op`; it is begun when first used.
void collect(Machine& machine, ActorId op, PipeOrder& order);

}  // namespace nvfp4r::sim
