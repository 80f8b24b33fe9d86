// How many blocks an SM holds, and how many clusters a GPU.
#include <algorithm>
#include <array>

#include "sim/driver/device_shape.hpp"
#include "sim/driver/entries.hpp"
#include "sim/driver/function.hpp"
#include "sim/driver/launch.hpp"
#include "sim/driver/module.hpp"
#include "sim/machine/residency.hpp"

namespace nvfp4r::sim::driver {

namespace {

constexpr uint32_t kSharedGranularity = 128;

// cuOccupancyMaxActiveClusters measured on an H200 of 132 SMs with eight blocks an SM, by cluster size 1..16. The machine's GPCs
// are fitted to the figures for one block an SM and hold somewhat more than this.
constexpr uint32_t kMeasuredSms = 132;
constexpr int kMeasuredBlocks = 8;
constexpr std::array<int, 16> kEightBlocks = {1056, 528, 327, 248, 193, 163, 139, 124, 102, 88, 81, 74, 67, 65, 58, 58};

GridLaunch one_cluster(const CUfunc_st& function, const LaunchRequest& request) {
    GridLaunch launch;
    launch.program = function.program;
    launch.grid = launch.cluster = request.cluster;
    launch.block = request.block;
    launch.explicit_cluster = request.explicit_cluster;
    launch.dynamic_shared = static_cast<uint32_t>(request.dynamic_shared);
    launch.params.resize(function.entry().param_bytes);
    return launch;
}

}  // namespace

int blocks_per_sm(const CUfunc_st& function, int threads, size_t dynamic_shared) {
    if (threads > largest_block(function) || dynamic_shared > static_cast<size_t>(function.max_dynamic_shared))
        return 0;
    const GpuConfig& config = config_of(function);
    LaunchRequest request;
    request.block.x = static_cast<uint32_t>(threads);
    request.dynamic_shared = dynamic_shared;
    const CtaNeeds needs = needs_of(config, one_cluster(function, request));
    // The machine cuts a block's registers to what an SM has; the driver refuses such a block.
    if (static_cast<uint32_t>(declared_registers(function)) * needs.threads > config.registers_per_sm) return 0;
    return static_cast<int>(
        std::min<uint64_t>({config.threads_per_sm / needs.threads, config.registers_per_sm / needs.registers,
                            config.shared_per_sm / needs.shared, config.ctas_per_sm}));
}

int active_clusters(const CUfunc_st& function, const LaunchRequest& request) {
    const GpuConfig& config = config_of(function);
    const auto held = static_cast<int>(max_active_clusters(config, one_cluster(function, request)));
    const uint64_t size = request.cluster.count();
    const int blocks = blocks_per_sm(function, static_cast<int>(request.block.count()), request.dynamic_shared);
    if (config.sm != 90 || config.sms != kMeasuredSms || blocks <= 1 || size > kEightBlocks.size()) return held;
    return std::min(held, kEightBlocks[size - 1] * blocks / kMeasuredBlocks);
}

namespace cu {

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction handle, int threads,
                                                              size_t dynamic_shared, unsigned flags) {
    return in_context("cuOccupancyMaxActiveBlocksPerMultiprocessor", [&](Call& call) {
        require_pointer(blocks, "numBlocks");
        if (threads <= 0) refuse(CUDA_ERROR_INVALID_VALUE, "block of {} threads", threads);
        if (flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) refuse(CUDA_ERROR_INVALID_VALUE, "flags {:#x}", flags);
        *blocks = blocks_per_sm(function_of(call, handle), threads, dynamic_shared);
    });
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction handle, int threads,
                                                     size_t dynamic_shared) {
    return cu::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, handle, threads, dynamic_shared,
                                                                    CU_OCCUPANCY_DEFAULT);
}

CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction handle, const CUlaunchConfig* config) {
    return in_context("cuOccupancyMaxActiveClusters", [&](Call& call) {
        require_pointer(clusters, "numClusters");
        require_pointer(config, "config");
        CUfunc_st& function = function_of(call, handle);
        const LaunchRequest request = launch_request(function, *config);
        *clusters = active_clusters(function, request);
    });
}

CUresult cuOccupancyMaxPotentialClusterSize(int* size, CUfunction handle, const CUlaunchConfig* config) {
    return in_context("cuOccupancyMaxPotentialClusterSize", [&](Call& call) {
        require_pointer(size, "clusterSize");
        require_pointer(config, "config");
        CUfunc_st& function = function_of(call, handle);
        LaunchRequest request = launch_request(function, *config);
        uint32_t largest = function.non_portable_cluster ? call.device().gpu->config().max_cluster : kPortableCluster;
        for (request.cluster = {largest, 1, 1}; largest > 0 && active_clusters(function, request) == 0;)
            request.cluster.x = --largest;
        *size = static_cast<int>(largest);
    });
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction handle, int blocks, int threads) {
    return in_context("cuOccupancyAvailableDynamicSMemPerBlock", [&](Call& call) {
        require_pointer(bytes, "dynamicSmemSize");
        const CUfunc_st& function = function_of(call, handle);
        if (blocks <= 0 || threads <= 0) refuse(CUDA_ERROR_INVALID_VALUE, "{} blocks of {} threads", blocks, threads);
        const GpuConfig& config = call.device().gpu->config();
        const uint32_t share =
            config.shared_per_sm / static_cast<uint32_t>(blocks) / kSharedGranularity * kSharedGranularity;
        const uint64_t taken = function.program->static_shared + kSystemSharedBytes;
        *bytes = share > taken ? std::min<uint64_t>(share - taken,
                                                    config.shared_per_block_optin - function.program->static_shared)
                               : 0;
    });
}

CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction handle, CUoccupancyB2DSize shared_of_block,
                                          size_t shared, int limit) {
    return in_context("cuOccupancyMaxPotentialBlockSize", [&](Call& call) {
        require_pointer(grid, "minGridSize");
        require_pointer(block, "blockSize");
        const CUfunc_st& function = function_of(call, handle);
        const int largest = limit > 0 ? std::min(limit, largest_block(function)) : largest_block(function);
        int best_threads = 0;
        *grid = *block = 0;
        for (int threads = largest; threads > 0;
             threads = (threads - 1) / static_cast<int>(kLanes) * static_cast<int>(kLanes)) {
            const size_t dynamic = shared_of_block != nullptr ? shared_of_block(threads) : shared;
            const int blocks = blocks_per_sm(function, threads, dynamic);
            if (blocks * threads <= best_threads) continue;
            best_threads = blocks * threads;
            *block = threads;
            *grid = blocks * static_cast<int>(call.device().gpu->config().sms);
        }
    });
}

}  // namespace cu

}  // namespace nvfp4r::sim::driver
