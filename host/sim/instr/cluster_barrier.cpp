// barrier.cluster (PTX ISA 9.7.13.4): all threads of the cluster that have not exited arrive, then wait.
#include <fmt/format.h>

#include <array>
#include <bit>

#include "sim/instr/families.hpp"
#include "sim/instr/memory_order.hpp"
#include "sim/instr/modifiers.hpp"
#include "sim/instr/state_keys.hpp"
#include "sim/machine/cost.hpp"
#include "sim/machine/machine.hpp"

namespace nvfp4r::sim {
namespace {

struct ClusterBarrierPhase {
    bool done = false;
    uint64_t arrived = 0;                           // threads, those that exited since included
    std::vector<std::vector<LaneMask>> arrived_of;  // by rank and warp
    SyncClock clock;
    std::vector<SyncClock> fenced;  // of relaxed arrivals: what a release fence before them showed
};

struct ClusterBarrier {
    std::shared_ptr<ClusterBarrierPhase> open;
};

struct ArrivedLanes {
    std::array<std::shared_ptr<ClusterBarrierPhase>, kLanes> phase;  // arrived and not yet waited
};

enum Detail : uint64_t { kArrive = 0, kArriveRelaxed = 1, kWait = 2 };

bool try_complete_cluster_barrier(Cluster& cluster, const std::shared_ptr<ClusterBarrierPhase>& phase) {
    if (phase->done) return true;
    uint64_t live = 0;
    for (const auto& cta : cluster.ctas) live += cta->live_threads;
    if (phase->arrived < live) return false;
    for (const auto& cta : cluster.ctas)
        for (const auto& warp : cta->warps)
            if (warp->live & ~phase->arrived_of[cta->rank][warp->index]) return false;
    phase->done = true;
    static_cast<ClusterBarrier*>(cluster.family_state[state_key::kCluster].get())->open = nullptr;
    cluster.grid->machine->progress();
    return true;
}

std::string describe_cluster_barrier(const Warp& warp) {
    auto state = warp.family_state.find(state_key::kCluster);
    if (state == warp.family_state.end()) return "the cluster barrier";
    for (const auto& phase : static_cast<const ArrivedLanes*>(state->second.get())->phase)
        if (phase && !phase->done) return fmt::format("the cluster barrier: {} threads have arrived", phase->arrived);
    return "the cluster barrier";
}

std::shared_ptr<ClusterBarrierPhase>& open_phase_cluster_barrier(Cluster& cluster) {
    auto& state = cluster.family_state[state_key::kCluster];
    if (!state) state = std::make_shared<ClusterBarrier>();
    std::shared_ptr<ClusterBarrierPhase>& open = static_cast<ClusterBarrier*>(state.get())->open;
    if (!open) {
        open = std::make_shared<ClusterBarrierPhase>();
        for (const auto& cta : cluster.ctas) open->arrived_of.emplace_back(cta->warps.size(), 0);
    }
    return open;
}

Step exec_cluster_barrier_arrive(Warp& warp, const Instr& instr, LaneMask lanes) {
    Cluster& cluster = *warp.cta->cluster;
    Machine& machine = warp.machine();
    ArrivedLanes& own = warp.state<ArrivedLanes>(state_key::kCluster);
    std::shared_ptr<ClusterBarrierPhase> phase = open_phase_cluster_barrier(cluster);
    for (LaneMask left = lanes; left; left &= left - 1) {
        std::shared_ptr<ClusterBarrierPhase>& arrived = own.phase[static_cast<uint32_t>(std::countr_zero(left))];
        if (arrived)
            machine.report(FindingKind::illegal_instruction, "barrier.cluster.arrive twice without a wait between",
                           &warp, lanes, &instr);
        arrived = phase;
    }
    phase->arrived_of[warp.cta->rank][warp.index] |= lanes;
    phase->arrived += static_cast<uint64_t>(std::popcount(lanes));
    if (Checker* checker = machine.checker()) {
        for (LaneMask left = lanes; left; left &= left - 1) {
            const uint32_t lane = static_cast<uint32_t>(std::countr_zero(left));
            if (instr.detail == kArrive)
                checker->release(warp.first_actor + lane, phase->clock);
            else if (const SyncClock fenced = fenced_clock(warp, lane, Scope::cluster); !fenced.empty())
                phase->fenced.push_back(fenced);
        }
    }
    machine.progress();
    try_complete_cluster_barrier(cluster, phase);
    return Step::next;
}

Step exec_cluster_barrier_wait(Warp& warp, const Instr&, LaneMask lanes) {
    Cluster& cluster = *warp.cta->cluster;
    Machine& machine = warp.machine();
    ArrivedLanes& own = warp.state<ArrivedLanes>(state_key::kCluster);
    const std::shared_ptr<ClusterBarrierPhase> phase = own.phase[static_cast<uint32_t>(std::countr_zero(lanes))];
    for (LaneMask left = lanes; left; left &= left - 1) {
        const uint32_t lane = static_cast<uint32_t>(std::countr_zero(left));
        if (!own.phase[lane])
            throw Fault(FindingKind::illegal_instruction, "barrier.cluster.wait without an arrive before it");
        if (own.phase[lane] != phase) lanes &= ~(1u << lane);
    }
    if (!try_complete_cluster_barrier(cluster, phase)) {
        machine.count("cluster barrier waits", 1);
        warp.block(
            lanes, [&cluster, phase] { return try_complete_cluster_barrier(cluster, phase); },
            describe_cluster_barrier);
        return Step::blocked;
    }
    if (Checker* checker = machine.checker()) {
        for (LaneMask left = lanes; left; left &= left - 1) {
            const ActorId actor = warp.first_actor + static_cast<uint32_t>(std::countr_zero(left));
            checker->acquire(actor, phase->clock);
            for (const SyncClock& fenced : phase->fenced) checker->acquire(actor, fenced);
        }
    }
    for (LaneMask left = lanes; left; left &= left - 1) {
        const uint32_t lane = static_cast<uint32_t>(std::countr_zero(left));
        own.phase[lane] = nullptr;
        ++warp.pc[lane];
    }
    warp.time += cost::kClusterBarrier;
    return Step::jumped;
}

Instr decode_cluster_barrier(Decoder& decoder) {
    Modifiers modifiers(decoder);
    modifiers.need("cluster");
    Instr instr;
    if (modifiers.need_any({"arrive", "wait"}) == "arrive") {
        instr.detail = modifiers.take("relaxed") ? kArriveRelaxed : kArrive;
        if (instr.detail == kArrive) modifiers.take("release");
        instr.exec = exec_cluster_barrier_arrive;
    } else {
        modifiers.take("acquire");
        instr.detail = kWait;
        instr.exec = exec_cluster_barrier_wait;
    }
    if (modifiers.take("aligned")) instr.flags = kAlignedLive;
    modifiers.done();
    return instr;
}

}  // namespace

const Family cluster_barrier_family = {"cluster_barrier", {"barrier.cluster"}, decode_cluster_barrier};

}  // namespace nvfp4r::sim
