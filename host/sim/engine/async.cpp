#include "sim/engine/async.hpp"

#include <fmt/format.h>

namespace nvfp4r::sim {

void check_shown(Machine& machine, const MbarrierRef& barrier, const Instr* instr) {
    if (machine.mbarrier(*barrier.owner, barrier.offset, instr).shown) return;
    machine.report(FindingKind::mbarrier_misuse,
                   fmt::format("the mbarrier at offset {:#x} of rank {} is signalled by an engine, but its initialiser "
                               "executed no fence.mbarrier_init",
                               barrier.offset, barrier.owner->rank),
                   nullptr, 0, instr);
}

void complete_tx(Machine& machine, ActorId actor, const MbarrierRef& barrier, uint64_t bytes, const Instr* instr) {
    Mbarrier& object = machine.mbarrier(*barrier.owner, barrier.offset, instr);
    check_shown(machine, barrier, instr);
    if (machine.checker()) machine.checker()->release(actor, object.arriving);
    object.complete_tx(static_cast<int64_t>(bytes));
    machine.progress();
}

void arrive_one(Machine& machine, ActorId actor, const MbarrierRef& barrier, const Instr* instr) {
    Mbarrier& object = machine.mbarrier(*barrier.owner, barrier.offset, instr);
    if (machine.checker()) machine.checker()->release(actor, object.arriving);
    object.arrive(1);
    machine.progress();
}

MbarrierRef barrier_at(Machine& machine, const Warp& warp, uint32_t lane, uint32_t address, bool cluster_form,
                       const Instr* instr) {
    constexpr uint32_t kMbarrierAlign = 8;
    if (address % kMbarrierAlign != 0)
        report_lane(warp, lane, FindingKind::misaligned,
                    fmt::format("mbarrier address {:#x} is not a multiple of {}", address, kMbarrierAlign), instr);
    MbarrierRef barrier;
    barrier.owner = &machine.shared_owner(*warp.cta, address, cluster_form, barrier.offset, instr);
    return barrier;
}

Machine::Place shared_place(Cta& cta, uint32_t offset, uint64_t bytes, uint32_t align, const Instr* instr) {
    return cta.machine().place(cta, StateSpace::shared, cta.shared_address(offset), bytes, align, instr);
}

bool in_cluster_launch(const Cta& cta) {
    const GridLaunch& launch = *cta.grid->launch;
    return launch.explicit_cluster || launch.cluster.count() > 1;
}

}  // namespace nvfp4r::sim
