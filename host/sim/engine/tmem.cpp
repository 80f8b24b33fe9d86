#include "sim/engine/tmem.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace nvfp4r::sim {

bool Tmem::free(uint32_t base, uint32_t columns) const {
    return std::none_of(allocations.begin(), allocations.end(),
                        [&](const TmemAllocation& a) { return a.base < base + columns && base < a.base + a.columns; });
}

const TmemAllocation* Tmem::find(uint32_t column) const {
    for (const TmemAllocation& a : allocations)
        if (column >= a.base && column < a.base + a.columns) return &a;
    return nullptr;
}

Tmem& tmem_of(Cta& cta) {
    Machine& machine = cta.machine();
    std::shared_ptr<void>& slot = machine.sm_state(cta.sm);
    if (!slot) {
        auto made = std::make_shared<Tmem>();
        if (machine.checker())
            made->shadow = machine.checker()->new_shadow(fmt::format("TMEM of SM {}", cta.sm),
                                                         kTmemLanes * kTmemColumns * sizeof(uint32_t), false);
        slot = made;
    }
    return *static_cast<Tmem*>(slot.get());
}

Cta& pair_peer(Cta& cta, const char* what) {
    const uint32_t rank = cta.rank ^ 1u;
    if (rank >= cta.cluster->ctas.size())
        throw Fault(FindingKind::illegal_instruction,
                    fmt::format("{} with cta_group::2: CTA rank {} has no pair in a cluster of {}", what, cta.rank,
                                cta.cluster->ctas.size()));
    return *cta.cluster->ctas[rank];
}

Cta& pair_member(Cta& cta, uint32_t member) {
    return *cta.cluster->ctas[(cta.rank & ~1u) | member];
}

void check_cells(const TmemAccess& access, TmemAddress at, uint32_t lanes, uint32_t columns) {
    if (at.lane + lanes > kTmemLanes || at.column + columns > kTmemColumns)
        throw Fault(FindingKind::tmem_bounds,
                    fmt::format("lanes {} to {}, columns {} to {}: TMEM has 128 lanes and 512 columns", at.lane,
                                at.lane + lanes - 1, at.column, at.column + columns - 1));
    const Tmem& tmem = tmem_of(*access.cta);
    for (uint32_t column = at.column; column < at.column + columns;) {
        const TmemAllocation* holder = tmem.find(column);
        if (!holder || holder->owner != access.cta) {
            access.cta->machine().report(
                FindingKind::tmem_unallocated,
                fmt::format("column {} of an access to columns {} to {} {}", column, at.column, at.column + columns - 1,
                            holder ? "belongs to another CTA of the SM" : "is not allocated"),
                nullptr, 0, access.instr);
            return;
        }
        const Checker* checker = access.cta->machine().checker();
        if (checker && holder->by != kNoActor && !checker->is_before(holder->by, holder->epoch, access.actor))
            access.cta->machine().report(
                FindingKind::race,
                fmt::format("an access to columns {} to {} is not ordered after the tcgen05.alloc of columns {} to {}",
                            at.column, at.column + columns - 1, holder->base, holder->base + holder->columns - 1),
                nullptr, 0, access.instr);
        column = holder->base + holder->columns;
    }
}

void touch_cells(const TmemAccess& access, uint32_t lane, uint32_t column, uint32_t columns, Access kind) {
    Checker* checker = access.cta->machine().checker();
    if (!checker) return;
    checker->tmem_access(access.actor, *tmem_of(*access.cta).shadow, lane, column, columns,
                         {kind, Proxy::async, Order::weak, access.instr});
}

void require_cta_group(const Warp& warp, LaneMask lanes, uint32_t group, const Instr* instr) {
    std::shared_ptr<void>& slot = warp.cta->family_state[kCtaGroupState];
    if (!slot) slot = std::make_shared<uint32_t>(group);
    const uint32_t first = *static_cast<uint32_t*>(slot.get());
    if (first != group)
        warp.cta->machine().report(FindingKind::illegal_instruction,
                                   fmt::format("cta_group::{} in a kernel that has used cta_group::{}: every tcgen05 "
                                               "instruction of a kernel uses the same one",
                                               group, first),
                                   &warp, lanes, instr);
}

}  // namespace nvfp4r::sim
