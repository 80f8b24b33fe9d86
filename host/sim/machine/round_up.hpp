// Sizes in whole units of allocation.
#pragma once

#include <cstdint>

namespace nvfp4r::sim {

constexpr uint64_t round_up(uint64_t value, uint64_t to) {
    return (value + to - 1) / to * to;
}

}  // namespace nvfp4r::sim
