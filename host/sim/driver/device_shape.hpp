// What the simulator says about the GPU it plays beyond the machine's own configuration: nominal figures of the
// product.
#pragma once

#include <cuda.h>

#include <optional>

#include "sim/machine/config.hpp"

namespace nvfp4r::sim::driver {

struct DeviceShape {
    const char* name;
    int major, minor;
    double clock_khz;
    int memory_clock_khz, bus_bits;
    uint64_t memory_bytes;
    int l2_bytes;
};
const DeviceShape& device_shape(const GpuConfig& config);

/// Value of an attribute; features that are not simulated answer 0. Empty: no such attribute.
std::optional<int> device_attribute(const GpuConfig& config, int ordinal, CUdevice_attribute attribute);

inline constexpr int kMostThreadsPerBlock = 1024;
inline constexpr int kPortableCluster = 8;
inline constexpr uint32_t kSystemSharedBytes = 1024;        // of each block, taken by the system
inline constexpr uint32_t kDefaultSharedBytes = 48 * 1024;  // static and dynamic together, without opting in

}  // namespace nvfp4r::sim::driver
