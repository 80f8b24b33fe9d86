// Keys of the family_state maps of warps, CTAs, clusters and runs that this room's families use for themselves.
#pragma once

#include <cstdint>

namespace nvfp4r::sim::state_key {

inline constexpr uint32_t kMemoryOrder = 0x4d4f;  // "MO": release clocks of locations and threads
inline constexpr uint32_t kBarrier = 0x4241;      // "BA": the 16 barriers of a CTA, what a warp's lanes wait for
inline constexpr uint32_t kCluster = 0x434c;      // "CL": the cluster barrier
inline constexpr uint32_t kMbarrier = 0x4d42;     // "MB": phases that the lanes have seen
inline constexpr uint32_t kCarry = 0x4343;        // "CC": the carry flags of a warp's lanes

}  // namespace nvfp4r::sim::state_key
