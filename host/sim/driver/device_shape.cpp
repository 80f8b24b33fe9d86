#include "sim/driver/device_shape.hpp"

#include "core/error.hpp"

namespace nvfp4r::sim::driver {

namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr int kMiB = 1 << 20;

constexpr DeviceShape kH200 = {
    "NVFP4 simulator: H200 (sm_90a)", 9, 0, 1'980'000, 3'201'000, 6144, 140 * kGiB, 60 * kMiB};
constexpr DeviceShape kB200 = {
    "NVFP4 simulator: B200 (sm_100a)", 10, 0, 1'965'000, 3'996'000, 8192, 178 * kGiB, 126 * kMiB};
constexpr DeviceShape kB300 = {
    "NVFP4 simulator: B300 (sm_103a)", 10, 3, 1'920'000, 3'996'000, 8192, 268 * kGiB, 126 * kMiB};
constexpr DeviceShape kThor = {
    "NVFP4 simulator: Thor (sm_110a)", 11, 0, 1'575'000, 4'266'000, 256, 122 * kGiB, 32 * kMiB};

}  // namespace

const DeviceShape& device_shape(const GpuConfig& config) {
    switch (config.sm) {
        case 90: return kH200;
        case 100: return kB200;
        case 103: return kB300;
        case 110: return kThor;
        default: fail(NVFP4R_INTERNAL, "sm {}: no device of that architecture is simulated", config.sm);
    }
}

std::optional<int> device_attribute(const GpuConfig& config, int ordinal, CUdevice_attribute attribute) {
    const DeviceShape& shape = device_shape(config);
    switch (attribute) {
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: return kMostThreadsPerBlock;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: return 64;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: return 0x7fffffff;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: return 65535;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: return static_cast<int>(kDefaultSharedBytes);
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
            return static_cast<int>(config.shared_per_block_optin);
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: return static_cast<int>(config.shared_per_sm);
        case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: return static_cast<int>(kSystemSharedBytes);
        case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: return 65536;
        case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return 32;
        case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
        case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: return static_cast<int>(config.registers_per_sm);
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return static_cast<int>(config.threads_per_sm);
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: return static_cast<int>(config.ctas_per_sm);
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return static_cast<int>(config.sms);
        case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: return static_cast<int>(shape.clock_khz);
        case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: return shape.memory_clock_khz;
        case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: return shape.bus_bits;
        case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: return shape.l2_bytes;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return shape.major;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return shape.minor;
        case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT: return 512;
        case CU_DEVICE_ATTRIBUTE_MAX_PITCH: return 0x7fffffff;
        case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID: return ordinal;
        case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: return 1;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE: return CU_COMPUTEMODE_DEFAULT;
        case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
        case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
        case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
        case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
        case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
        case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
        case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
        case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
        case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
        case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED: return 1;
        default: break;
    }
    if (attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) return std::nullopt;
    return 0;
}

}  // namespace nvfp4r::sim::driver
