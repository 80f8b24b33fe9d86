// GPUs that a plan can be made for without having one: limits, and the peak rates behind the floors.
#pragma once

#include <span>
#include <string_view>

#include "plan/plan.hpp"

namespace nvfp4r {

struct KnownGpu {
    std::string_view name;  // "h200"
    std::string_view arch;  // "90a"
    DeviceLimits limits;
    double clock_ghz;                 // sustained
    double memory_bytes_per_ns;       // nominal: GB/s
    double bf16_flops_per_clock_sm;   // dense
    double nvfp4_flops_per_clock_sm;  // dense, block scaled; 0: no such multiply
    double launch_ns;                 // an empty kernel inside a graph
};

std::span<const KnownGpu> known_gpus();
/// By name or by architecture. Throws INVALID_ARGUMENT with what is known.
const KnownGpu& known_gpu(std::string_view name_or_arch);

}  // namespace nvfp4r
