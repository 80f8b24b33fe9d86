// A warp's addresses as few runs of consecutive lanes at consecutive addresses: each run is one bounds check and one
// checker call.
#pragma once

#include <bit>

#include "sim/machine/machine.hpp"

namespace nvfp4r::sim {

inline Machine::Place advanced(Machine::Place place, uint64_t bytes) {
    place.bytes += bytes;
    place.offset += bytes;
    place.room -= bytes;
    return place;
}

/// Calls body(first lane, lanes, place of the first) for each run. `bytes` is the size and the alignment of one lane's
/// access.
template <class Body>
void for_each_run(Warp& warp, const Instr& instr, LaneMask lanes, const Lanes& addresses, StateSpace space,
                  uint32_t bytes, Body body) {
    Machine& machine = warp.machine();
    Machine::Place place;
    uint64_t placed = 0;
    bool have_place = false;
    for (LaneMask left = lanes; left;) {
        const uint32_t first = static_cast<uint32_t>(std::countr_zero(left));
        uint32_t count = 1;
        // Local memory of two lanes never lies side by side, and a generic address may be local.
        const bool may_join =
            space != StateSpace::local && space != StateSpace::param &&
            !(space == StateSpace::generic && addresses[first] >= kLocalWindow && addresses[first] < kParamWindow);
        while (may_join && first + count < kLanes && left >> (first + count) & 1 &&
               addresses[first + count] == addresses[first] + uint64_t{count} * bytes)
            ++count;
        left &= first + count == kLanes ? 0 : ~0u << (first + count);
        const bool again = have_place && may_join && count == 1 && addresses[first] == placed;
        if (!again) {
            try {
                place = machine.place(warp, first, space, addresses[first], uint64_t{count} * bytes, bytes, &instr);
            } catch (const Fault&) {
                // Name the lane at fault, not the run.
                for (uint32_t i = 0; i < count && count > 1; ++i)
                    machine.place(warp, first + i, space, addresses[first + i], bytes, bytes, &instr);
                throw;
            }
        }
        have_place = true;
        placed = addresses[first];
        body(first, count, place);
    }
}

}  // namespace nvfp4r::sim
