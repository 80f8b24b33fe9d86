#include "sim/instr/gather.hpp"

#include <fmt/format.h>

namespace nvfp4r::sim {
namespace {

bool all_here(const Warp& warp, LaneMask mask, uint32_t pc) {
    for (LaneMask left = mask & warp.live; left; left &= left - 1)
        if (warp.pc[static_cast<uint32_t>(std::countr_zero(left))] != pc) return false;
    return true;
}

std::string describe_gather(const Warp&) {
    return "lanes that its member mask names and that have not come";
}

}  // namespace

LaneMask gather(Warp& warp, const Instr& instr, LaneMask lanes, const uint64_t* masks) {
    const uint32_t pc = warp.pc[static_cast<uint32_t>(std::countr_zero(lanes))];
    LaneMask ready = 0;
    for_each_mask(lanes, masks, [&](LaneMask group) {
        const LaneMask named = static_cast<LaneMask>(masks[std::countr_zero(group)]);
        if (group & ~named)
            warp.machine().report(
                FindingKind::divergence,
                fmt::format("lanes {:#010x} execute it with member mask {:#010x}, which does not name "
                            "them",
                            group & ~named, named),
                &warp, group, &instr);
        // All named lanes that live must be in this group, with the same mask.
        if ((named & warp.live & ~group) == 0) {
            ready |= group;
            return;
        }
        if (all_here(warp, named, pc))
            warp.machine().report(FindingKind::divergence,
                                  fmt::format("the lanes of member mask {:#010x} do not all execute it, or name other "
                                              "masks",
                                              named),
                                  &warp, group, &instr);
        warp.block(
            group, [&warp, named, pc] { return all_here(warp, named, pc); }, describe_gather);
    });
    return ready;
}

Step after_gather(Warp& warp, LaneMask lanes, LaneMask done) {
    if (done == lanes) return Step::next;
    if (done == 0) return Step::blocked;
    for (LaneMask left = done; left; left &= left - 1) ++warp.pc[static_cast<uint32_t>(std::countr_zero(left))];
    return Step::jumped;
}

}  // namespace nvfp4r::sim
