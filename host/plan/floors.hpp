// What no kernel for a problem can be faster than: bytes over bandwidth, products over the tensor cores' rate, a launch.
#pragma once

#include <cstdint>

#include "plan/known_gpus.hpp"

namespace nvfp4r {

struct Floors {
    uint64_t gate_bytes = 0, token_bytes = 0, output_bytes = 0;  // each read or written once
    double flops = 0;                                            // of all products, padding left out
    double bytes_ns = 0, flops_ns = 0, launch_ns = 0;

    /// Bytes and products may overlap; the launch comes before both.
    double total_ns() const { return launch_ns + (bytes_ns > flops_ns ? bytes_ns : flops_ns); }
};

/// Outputs are f32 weights and 32-bit ids. The gate comes from memory, not from a cache.
Floors floors_of(const KernelPlan& kernel, int64_t tokens, const KnownGpu& gpu);

}  // namespace nvfp4r
