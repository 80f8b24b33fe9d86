// Attributes of kernels, and how many of their blocks and clusters a GPU holds.
#pragma once

#include "sim/driver/launch.hpp"
#include "sim/driver/state.hpp"

namespace nvfp4r::sim::driver {

/// The GPU that the function was loaded for.
const GpuConfig& config_of(const CUfunc_st& function);

int function_attribute(const CUfunc_st& function, CUfunction_attribute attribute);
void set_function_attribute(CUfunc_st& function, CUfunction_attribute attribute, int value);

/// Registers of a thread. ptxas decides them and PTX only bounds them, so this is what the machine counts with: the bounds that
/// the kernel declares, or an assumption (host/sim/machine/residency.cpp).
int declared_registers(const CUfunc_st& function);
/// The largest block the kernel may be launched with.
int largest_block(const CUfunc_st& function);

/// Blocks that one SM holds at once; 0 when a block does not fit.
int blocks_per_sm(const CUfunc_st& function, int threads, size_t dynamic_shared);

/// Clusters of this launch's size that the GPU holds at once.
int active_clusters(const CUfunc_st& function, const LaunchRequest& request);

}  // namespace nvfp4r::sim::driver
