// What a grid that cannot go on is told: where every warp stands and what every barrier waits for.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "sim/instr/stale_wait.hpp"
#include "sim/machine/simulation.hpp"

namespace nvfp4r::sim {
namespace {

constexpr size_t kWarpsListed = 64;
constexpr size_t kBarriersListed = 64;

}  // namespace

std::string Simulation::standing(const Warp& warp) const {
    std::string text;
    const std::vector<Instr>& code = warp.cta->grid->launch->program->code;
    for (LaneMask left = warp.live; left;) {
        LaneMask group = lowest_group(warp, left);
        left &= ~group;
        uint32_t pc = warp.pc[static_cast<uint32_t>(std::countr_zero(group))];
        text += fmt::format("\n  CTA ({},{},{}) rank {} warp {} lanes {:#010x}: ", warp.cta->id.x, warp.cta->id.y,
                            warp.cta->id.z, warp.cta->rank, warp.index, group);
        if (pc < code.size())
            text += fmt::format("line {} `{}`", code[pc].statement->loc.ptx_line, code[pc].statement->text);
        bool blocked = false;
        for (const Warp::Blocked& entry : warp.blocked)
            if (entry.lanes & group) {
                text += fmt::format(", waits: {}", entry.wait.describe ? entry.wait.describe(warp) : "blocked");
                blocked = true;
                break;
            }
        if (!blocked && warp.asleep) text += ", waits for the other lanes of its warp";
        if (!blocked && !warp.asleep) text += ", polls";
    }
    return text;
}

void Simulation::deadlock(const char* why) {
    std::string text = why;
    size_t listed = 0;
    for (const Warp* warp : warps_) {
        if (warp->live == 0) continue;
        if (listed++ == kWarpsListed) {
            text += fmt::format("\n  ... {} warps in all", warps_.size());
            break;
        }
        text += standing(*warp);
    }
    listed = 0;
    for (const auto& cluster : clusters_)
        for (const auto& cta : cluster->ctas) {
            std::vector<uint32_t> offsets;
            for (const auto& entry : cta->mbarriers) offsets.push_back(entry.first);
            std::sort(offsets.begin(), offsets.end());
            for (uint32_t offset : offsets) {
                if (listed++ >= kBarriersListed) continue;
                const Mbarrier& barrier = cta->mbarriers.at(offset);
                text += fmt::format(
                    "\n  mbarrier at offset {:#x} of CTA ({},{},{}) rank {}: phase {}, pending {} of {} "
                    "arrivals, {} bytes of tx missing",
                    offset, cta->id.x, cta->id.y, cta->id.z, cta->rank, barrier.phase, barrier.pending,
                    barrier.expected, barrier.tx);
            }
        }
    for (const auto& queue : busy_)
        text += fmt::format("\n  in flight: {} of CTA ({},{},{})", queue->ops.front().what, queue->cta->id.x,
                            queue->cta->id.y, queue->cta->id.z);
    for (size_t i = 0; i < grids_.size(); ++i)
        if (!waiting_[i].empty())
            text += fmt::format("\n  grid {} `{}`: {} of {} CTAs have not started: no place is free", i,
                                grids_[i]->launch->name, grids_[i]->ctas - grids_[i]->started_ctas, grids_[i]->ctas);
    for (const Warp* warp : warps_)
        if (warp->live != 0) {
            current_ = {warp, nullptr, warp->live, nullptr};
            break;
        }
    const bool stale =
        std::any_of(warps_.begin(), warps_.end(), [](const Warp* w) { return waits_for_stale_phase(*w); });
    throw Fault(stale ? FindingKind::stale_phase : FindingKind::deadlock, text);
}

}  // namespace nvfp4r::sim
