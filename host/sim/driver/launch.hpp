// A launch as asked for, and as checked.
#pragma once

#include "sim/driver/state.hpp"

namespace nvfp4r::sim::driver {

struct LaunchRequest {
    Dim3 grid, block, cluster;
    bool explicit_cluster = false;
    bool cooperative = false;
    bool programmatic = false;
    size_t dynamic_shared = 0;
};

/// Reads a launch configuration with its attributes; refuses attributes that are not simulated.
LaunchRequest launch_request(const CUfunc_st& function, const CUlaunchConfig& config);

/// The configuration of a launch without attributes.
CUlaunchConfig plain_config(Dim3 grid, Dim3 block, unsigned dynamic_shared, CUstream stream);

/// Checks sizes, shared memory, cluster and residency as the driver does and copies the parameters.
KernelWork kernel_work(CUfunc_st& function, const LaunchRequest& request, void* const* parameters, void* const* extra);

}  // namespace nvfp4r::sim::driver
