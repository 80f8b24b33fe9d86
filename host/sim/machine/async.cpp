// Asynchronous operations: queues of the engines, and when their parts are performed.
#include <algorithm>

#include "sim/machine/simulation.hpp"

namespace nvfp4r::sim {
namespace {

uint64_t due(const AsyncQueue& queue) {
    const AsyncOp& op = queue.ops.front();
    return std::max(op.issued, queue.busy_until) + op.latency;
}

}  // namespace

AsyncQueue& Simulation::queue(Cta& cta, uint64_t key, const char* name) {
    std::shared_ptr<AsyncQueue>& queue = cta.queues[key];
    if (!queue) {
        queue = std::make_shared<AsyncQueue>();
        queue->cta = &cta;
        queue->name = name;
    }
    return *queue;
}

void Simulation::issue(AsyncQueue& queue, AsyncOp op) {
    Cta& cta = *queue.cta;
    if (!op.cta) op.cta = &cta;
    if (!op.instr) op.instr = current_.instr;
    op.issued = now_;
    if (op.actor != kNoActor) {
        const Warp& warp = *op.cta->warps[op.warp];
        operation_of_actor_[op.actor] = {op.what, op.instr, warp.first_actor + op.lane, cta.grid->index};
    }
    if (op.holds_cta) ++op.cta->in_flight;
    ++op.cta->operations;
    ++op.cta->grid->operations;
    if (queue.idle()) {
        // Find the owner: the queue lives in its CTA, or is one of issue_free's.
        for (auto& entry : cta.queues)
            if (entry.second.get() == &queue) busy_.push_back(entry.second);
    }
    queue.ops.push_back(std::move(op));
    progress();
}

void Simulation::issue_free(Cta& cta, AsyncOp op) {
    auto queue = std::make_shared<AsyncQueue>();
    queue->cta = &cta;
    queue->name = op.what;
    issue(*queue, std::move(op));
    busy_.push_back(std::move(queue));
}

/// Performs the next part of the operation at the front. True when something was done.
bool Simulation::fire(AsyncQueue& queue) {
    AsyncOp& op = queue.ops.front();
    Cta& cta = *op.cta;
    const bool held = op.holds_cta;
    const uint64_t mark = mark_;
    const uint64_t before = now_;
    now_ = std::max(due(queue), op.issued);
    const Current outer = current_;
    current_ = {cta.warps[op.warp].get(), op.instr, 1u << op.lane, &op};
    ++idle_fires_;
    const bool done = op.run(op);
    if (held && (done || !op.holds_cta)) --cta.in_flight;
    if (done) {
        if (op.bytes) counters_[std::string("bytes of ") + op.what] += op.bytes;
        ++counters_[std::string("operations of ") + op.what];
        if (trace_) trace_operation(op);
        queue.busy_until = now_;
        --cta.operations;
        --cta.grid->operations;
        ctas_left_ |= cta.exited && cta.operations == 0;
        queue.ops.pop_front();
        progress();
        if (queue.idle()) std::erase_if(busy_, [&](const auto& entry) { return entry.get() == &queue; });
    }
    current_ = outer;
    // Engines run beside the warps: their time only moves on through the events that others wait for.
    if (config_.policy != Policy::round_robin) now_ = before;
    return mark != mark_;
}

/// Everything due by `horizon`, earliest first.
bool Simulation::fire_due(uint64_t horizon) {
    bool any = false;
    for (size_t tries = busy_.size(); tries > 0 && !busy_.empty(); --tries) {
        auto first = std::min_element(busy_.begin(), busy_.end(),
                                      [](const auto& a, const auto& b) { return due(*a) < due(*b); });
        if (due(**first) > horizon) break;
        std::shared_ptr<AsyncQueue> keep = *first;
        any |= fire(*keep);
    }
    return any;
}

bool Simulation::fire_earliest() {
    auto first =
        std::min_element(busy_.begin(), busy_.end(), [](const auto& a, const auto& b) { return due(*a) < due(*b); });
    std::shared_ptr<AsyncQueue> keep = *first;
    return fire(*keep);
}

bool Simulation::fire_any() {
    std::shared_ptr<AsyncQueue> keep = busy_[random_.below(busy_.size())];
    return fire(*keep);
}

/// Until nothing is in flight, or what is waits for something.
bool Simulation::fire_all() {
    bool any = false;
    for (bool fired = true; fired && !busy_.empty();) {
        fired = false;
        const auto queues = busy_;
        for (const auto& queue : queues)
            if (!queue->idle()) fired |= fire(*queue);
        any |= fired;
    }
    return any;
}

}  // namespace nvfp4r::sim
