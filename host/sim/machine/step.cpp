// One instruction of one group of lanes: which lanes of a warp go next, and what becomes of them.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "sim/machine/cost.hpp"
#include "sim/machine/simulation.hpp"

namespace nvfp4r::sim {
namespace {

constexpr uint32_t kSpinPatience = 32;     // polls of one lane group before the others get a turn
constexpr uint32_t kGroupPatience = 8192;  // instructions of one lane group before the others get a turn
constexpr uint32_t kFavour = 256;          // instructions that the others then get

LaneMask lanes_at(const Warp& warp, LaneMask among, uint32_t pc) {
    LaneMask group = 0;
    for (LaneMask left = among; left; left &= left - 1) {
        const uint32_t lane = static_cast<uint32_t>(std::countr_zero(left));
        if (warp.pc[lane] == pc) group |= 1u << lane;
    }
    return group;
}

}  // namespace

/// Lanes at the lowest program counter: divergent lanes meet again at the merge point, which compilers place behind.
LaneMask Simulation::lowest_group(const Warp& warp, LaneMask among) const {
    uint32_t lowest = ~0u;
    for (LaneMask left = among; left; left &= left - 1)
        lowest = std::min(lowest, warp.pc[static_cast<uint32_t>(std::countr_zero(left))]);
    return lanes_at(warp, among, lowest);
}

LaneMask Simulation::choose(Warp& warp) {
    const LaneMask available = warp.live & ~warp.blocked_lanes;
    const std::vector<Instr>& code = warp.cta->grid->launch->program->code;
    LaneMask parked = 0;
    for (LaneMask left = available; left;) {
        const LaneMask preferred = left & warp.favoured;
        LaneMask group = lowest_group(warp, preferred ? preferred : left);
        const uint32_t pc = warp.pc[static_cast<uint32_t>(std::countr_zero(group))];
        if (preferred) group = lanes_at(warp, left, pc);
        if (pc >= code.size())
            throw Fault(FindingKind::illegal_instruction, "control runs past the end of the function");
        const Instr& instr = code[pc];
        if (!(instr.flags & (kAligned | kAlignedLive)) || group == warp.present) return group;
        if (instr.flags & kAlignedLive && group == warp.live) return group;
        if (instr.flags & kAligned && warp.live != warp.present) {
            report(FindingKind::divergence, fmt::format("lanes {:#010x} have exited", warp.present & ~warp.live), &warp,
                   group, &instr);
            return group;
        }
        // Compilers let divergent lanes meet in front of an aligned instruction; these wait for the others.
        parked |= group;
        left &= ~group;
    }
    if (!parked || warp.live != available) return 0;
    LaneMask group = lowest_group(warp, parked);
    const Instr& instr = code[warp.pc[static_cast<uint32_t>(std::countr_zero(group))]];
    report(FindingKind::divergence,
           fmt::format("only lanes {:#010x} of {:#010x} come to it; the others stand at other aligned instructions",
                       group, warp.live),
           &warp, group, &instr);
    return group;
}

void Simulation::wake(Warp& warp) {
    if (warp.polled == mark_) return;
    warp.polled = mark_;
    warp.blocked_lanes = 0;
    std::erase_if(warp.blocked, [&](const Warp::Blocked& blocked) {
        if (blocked.wait.ready()) return true;
        warp.blocked_lanes |= blocked.lanes;
        return false;
    });
}

void Simulation::retire(Warp& warp, LaneMask lanes) {
    Cta& cta = *warp.cta;
    if (checker_) {
        SyncClock& end = cta.grid->end_clock;
        if (lanes == warp.present) {
            // All at once: one lane that knows what the others did leaves it for all.
            checker_->warp_sync(warp.first_actor, lanes);
            checker_->release(warp.first_actor, end);
        } else {
            for (LaneMask left = lanes; left; left &= left - 1)
                checker_->release(warp.first_actor + static_cast<uint32_t>(std::countr_zero(left)), end);
        }
    }
    warp.live &= ~lanes;
    cta.live_threads -= static_cast<uint32_t>(std::popcount(lanes));
    // Barriers count live threads.
    progress();
    if (cta.live_threads == 0) exit_cta(cta);
}

void Simulation::watch_fairness(Warp& warp, LaneMask group, const Instr& instr) {
    if (instr.flags & kMaySpin) {
        if (warp.spin_mark != mark_) {
            warp.spin_mark = mark_;
            warp.spins = 0;
        }
        ++warp.spins;
    }
    if (group == warp.live) {
        warp.favoured = 0;
        warp.group_steps = 0;
        return;
    }
    ++warp.group_steps;
    if (warp.favoured) {
        if (warp.group_steps >= kFavour) warp.favoured = warp.group_steps = 0;
    } else if ((warp.spin_mark == mark_ && warp.spins >= kSpinPatience) || warp.group_steps >= kGroupPatience) {
        warp.favoured = warp.live & ~group;
        warp.group_steps = warp.spins = 0;
    }
}

/// False: no lane of the warp could run.
bool Simulation::step(Warp& warp) {
    if (!warp.blocked.empty()) wake(warp);
    const LaneMask group = choose(warp);
    if (group == 0) {
        warp.asleep = true;
        return false;
    }
    if (warp.asleep) {
        warp.asleep = false;
        warp.time = std::max(warp.time, last_event_);
    }
    GridRun& grid = *warp.cta->grid;
    const uint32_t pc = warp.pc[static_cast<uint32_t>(std::countr_zero(group))];
    const Instr& instr = grid.launch->program->code[pc];
    LaneMask lanes = group;
    if (instr.guarded) {
        LaneMask guard = warp.predicates[instr.guard];
        lanes &= instr.guard_negated ? ~guard : guard;
    }
    current_ = {&warp, &instr, lanes ? lanes : group, nullptr};
    if (lanes != group) {
        if (lanes != 0 && instr.flags & (kAligned | kAlignedLive))
            report(FindingKind::divergence,
                   fmt::format("its guard is true in lanes {:#010x} of {:#010x} only", lanes, group), &warp, lanes,
                   &instr);
        for (LaneMask left = group & ~lanes; left; left &= left - 1)
            warp.pc[static_cast<uint32_t>(std::countr_zero(left))] = pc + 1;
    }
    uint64_t& slots = sm_issue_[warp.cta->sm];
    slots = std::max(slots + 1, warp.time * cost::kIssuesPerCycle);
    now_ = slots / cost::kIssuesPerCycle;
    warp.time = now_ + cost::kArithmetic;
    ++idle_steps_;
    Step outcome = lanes ? instr.exec(warp, instr, lanes) : Step::next;
    if (outcome == Step::blocked) {
        if (trace_) trace_wait(warp, instr);
        return true;
    }
    // Blocked lanes may wait for these.
    warp.polled = 0;
    ++warp.instructions;
    ++grid.instructions;
    if (trace_) trace_instruction(warp, instr);
    if (outcome == Step::next) {
        for (LaneMask left = lanes; left; left &= left - 1)
            warp.pc[static_cast<uint32_t>(std::countr_zero(left))] = pc + 1;
    } else if (outcome == Step::exited) {
        retire(warp, lanes);
    }
    watch_fairness(warp, group, instr);
    return true;
}

}  // namespace nvfp4r::sim
