// Warp instructions with a member mask: the named lanes meet at the instruction, wherever they come from.
#pragma once

#include <bit>

#include "sim/machine/machine.hpp"

namespace nvfp4r::sim {

/// Lanes of `lanes` whose whole mask (exited lanes are not waited for) stands at this instruction; the others are
/// blocked until it does. A lane that is not in its own mask is reported.
LaneMask gather(Warp& warp, const Instr& instr, LaneMask lanes, const uint64_t* masks);

/// What exec returns after it executed `done` of `lanes`.
Step after_gather(Warp& warp, LaneMask lanes, LaneMask done);

/// Calls body(mask) for each distinct member mask of `lanes`, as far as its lanes are in `lanes`.
template <class Body>
void for_each_mask(LaneMask lanes, const uint64_t* masks, Body body) {
    while (lanes) {
        const uint64_t named = masks[std::countr_zero(lanes)];
        LaneMask group = 0;
        for (LaneMask left = lanes; left; left &= left - 1) {
            const int lane = std::countr_zero(left);
            if (masks[lane] == named) group |= 1u << lane;
        }
        lanes &= ~group;
        body(group);
    }
}

}  // namespace nvfp4r::sim
