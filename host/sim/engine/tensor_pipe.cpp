#include "sim/engine/tensor_pipe.hpp"

namespace nvfp4r::sim {
namespace {

using WarpPipes = std::array<std::shared_ptr<TensorPipe>, kLanes>;

}  // namespace

std::shared_ptr<TensorPipe> tensor_pipe(const Issuer& issuer) {
    std::shared_ptr<TensorPipe>& pipe = issuer.warp->state<WarpPipes>(kTensorPipeState)[issuer.lane];
    if (!pipe) pipe = std::make_shared<TensorPipe>();
    return pipe;
}

void follow(Machine& machine, ActorId op, const PipeOrder& order) {
    if (machine.checker() && order.actor != kNoActor) machine.checker()->order(order.actor, op);
}

void collect(Machine& machine, ActorId op, PipeOrder& order) {
    if (!machine.checker()) return;
    if (order.actor == kNoActor) order.actor = machine.checker()->begin_async(op, true);
    machine.checker()->order(op, order.actor);
}

void issue_to_pipe(const Issuer& issuer, const char* what, uint32_t latency, uint64_t bytes, Cta* peer, PipeTask task) {
    Machine& machine = issuer.machine();
    AsyncOp op = new_operation(issuer, what, bytes, true);
    op.latency = latency;
    if (peer) ++peer->in_flight;
    op.run = [pipe = tensor_pipe(issuer), task = std::move(task), peer](AsyncOp& self) {
        Machine& m = self.cta->machine();
        task(self, *pipe);
        collect(m, self.actor, pipe->everything);
        end_async(m, self.actor);
        if (peer) --peer->in_flight;
        return true;
    };
    const uint64_t key = queue_key(Engine::tensor_pipe, issuer.warp->index, issuer.lane);
    machine.issue(machine.queue(issuer.cta(), key, "tensor pipe"), std::move(op));
}

}  // namespace nvfp4r::sim
