#include "sim/driver/launch.hpp"

#include <cstring>

#include "sim/driver/device_shape.hpp"
#include "sim/driver/entries.hpp"
#include "sim/driver/function.hpp"
#include "sim/driver/module.hpp"
#include "sim/driver/queue.hpp"

namespace nvfp4r::sim::driver {

namespace {

constexpr uint32_t kMostGridX = 0x7fffffff, kMostGridYZ = 65535, kMostBlockXY = 1024, kMostBlockZ = 64;

std::string text(const Dim3& d) {
    return fmt::format("{} x {} x {}", d.x, d.y, d.z);
}

void read_attribute(LaunchRequest& request, const CUlaunchAttribute& attribute) {
    const CUlaunchAttributeValue& value = attribute.value;
    switch (attribute.id) {
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
            request.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
            request.explicit_cluster = true;
            return;
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE: request.cooperative = value.cooperative != 0; return;
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
            request.programmatic = value.programmaticStreamSerializationAllowed != 0;
            return;
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
            if (value.clusterSchedulingPolicyPreference > CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING)
                refuse(CUDA_ERROR_INVALID_VALUE, "cluster scheduling policy {}",
                       static_cast<int>(value.clusterSchedulingPolicyPreference));
            return;
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
            if (value.sharedMemCarveout > 100)
                refuse(CUDA_ERROR_INVALID_VALUE, "carve-out {}: 0 to 100 per cent is expected",
                       value.sharedMemCarveout);
            return;
        // Hints about speed, or about memory that the simulator keeps coherent: any answer is right.
        case CU_LAUNCH_ATTRIBUTE_IGNORE:
        case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION: return;
        default:
            log_once(fmt::format("launch attribute {} is not simulated", static_cast<int>(attribute.id)));
            refuse(CUDA_ERROR_NOT_SUPPORTED, "launch attribute {} is not simulated", static_cast<int>(attribute.id));
    }
}

/// A cluster size that the kernel itself requires takes part whether or not it is asked for, and must agree.
void apply_required_cluster(const CUfunc_st& function, LaunchRequest& request) {
    const uint32_t* required = function.entry().required_cluster;
    if (required[0] != 0) {
        const Dim3 size = {required[0], std::max(1u, required[1]), std::max(1u, required[2])};
        if (request.explicit_cluster &&
            (size.x != request.cluster.x || size.y != request.cluster.y || size.z != request.cluster.z))
            refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, "cluster {}: kernel {} requires {}", text(request.cluster),
                   function.name, text(size));
        request.cluster = size;
        request.explicit_cluster = true;
    } else if (function.entry().explicit_cluster && !request.explicit_cluster) {
        refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, "kernel {} must be launched with a cluster size", function.name);
    }
}

void check_sizes(const CUfunc_st& function, const LaunchRequest& request) {
    const Dim3 &grid = request.grid, &block = request.block;
    if (grid.count() == 0 || grid.x > kMostGridX || grid.y > kMostGridYZ || grid.z > kMostGridYZ)
        refuse(CUDA_ERROR_INVALID_VALUE, "grid {}: 1 to {} x {} x {} is possible", text(grid), kMostGridX, kMostGridYZ,
               kMostGridYZ);
    if (block.count() == 0 || block.x > kMostBlockXY || block.y > kMostBlockXY || block.z > kMostBlockZ ||
        block.count() > kMostThreadsPerBlock)
        refuse(CUDA_ERROR_INVALID_VALUE, "block {}: at most {} x {} x {}, {} threads", text(block), kMostBlockXY,
               kMostBlockXY, kMostBlockZ, kMostThreadsPerBlock);
    const Function& entry = function.entry();
    const uint32_t* required = entry.required_threads;
    if (required[0] != 0 &&
        (block.x != required[0] || block.y != std::max(1u, required[1]) || block.z != std::max(1u, required[2])))
        refuse(CUDA_ERROR_INVALID_VALUE, "block {}: kernel {} has .reqntid {}, {}, {}", text(block), function.name,
               required[0], required[1], required[2]);
    if (block.count() > static_cast<uint64_t>(largest_block(function)))
        refuse(CUDA_ERROR_INVALID_VALUE, "block of {} threads: kernel {} is bounded to {}", block.count(),
               function.name, largest_block(function));
    if (request.dynamic_shared > static_cast<size_t>(function.max_dynamic_shared))
        refuse(CUDA_ERROR_INVALID_VALUE,
               "{} bytes of dynamic shared memory: kernel {} is set to {}; raise "
               "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES",
               request.dynamic_shared, function.name, function.max_dynamic_shared);
}

void check_cluster(const CUfunc_st& function, const LaunchRequest& request, const GpuConfig& config) {
    if (!request.explicit_cluster) return;
    const Dim3 &cluster = request.cluster, &grid = request.grid;
    const uint64_t size = cluster.count();
    const uint64_t most = function.non_portable_cluster ? config.max_cluster : kPortableCluster;
    if (size == 0 || size > most) {
        refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, "cluster {}: at most {} blocks{}", text(cluster), most,
               function.non_portable_cluster ? "" : " without CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED");
    }
    if (function.entry().max_cluster_rank != 0 && size > function.entry().max_cluster_rank)
        refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, "cluster of {} blocks: kernel {} has .maxclusterrank {}", size,
               function.name, function.entry().max_cluster_rank);
    if (grid.x % cluster.x != 0 || grid.y % cluster.y != 0 || grid.z % cluster.z != 0)
        refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, "grid {} is not a multiple of the cluster {}", text(grid),
               text(cluster));
}

void check_residency(const CUfunc_st& function, const LaunchRequest& request, const GpuConfig& config) {
    const int blocks = blocks_per_sm(function, static_cast<int>(request.block.count()), request.dynamic_shared);
    if (blocks == 0)
        refuse(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "no block of kernel {} fits an SM: {} threads of {} registers",
               function.name, request.block.count(), declared_registers(function));
    if (request.explicit_cluster && active_clusters(function, request) == 0)
        refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, "no cluster of {} blocks fits this GPU of {} SMs",
               request.cluster.count(), config.sms);
    if (request.cooperative && request.grid.count() > static_cast<uint64_t>(blocks) * config.sms)
        refuse(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "a cooperative grid of {} blocks: {} fit at once",
               request.grid.count(), static_cast<uint64_t>(blocks) * config.sms);
}

std::vector<uint8_t> parameter_block(const CUfunc_st& function, void* const* parameters, void* const* extra) {
    const Function& entry = function.entry();
    std::vector<uint8_t> block(entry.param_bytes);
    if (parameters != nullptr && extra != nullptr)
        refuse(CUDA_ERROR_INVALID_VALUE, "kernelParams and extra are both given");
    if (entry.params.empty()) return block;
    if (parameters != nullptr) {
        for (size_t i = 0; i < entry.params.size(); ++i) {
            require_pointer(parameters[i], "a kernel parameter");
            std::memcpy(block.data() + entry.params[i].offset, parameters[i], entry.params[i].size);
        }
        return block;
    }
    if (extra == nullptr)
        refuse(CUDA_ERROR_INVALID_VALUE, "kernel {} takes {} parameters, none is given", function.name,
               entry.params.size());
    const void* buffer = nullptr;
    size_t bytes = 0;
    for (size_t i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
            buffer = extra[i + 1];
        } else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) {
            std::memcpy(&bytes, extra[i + 1], sizeof bytes);
        } else {
            refuse(CUDA_ERROR_INVALID_VALUE, "extra[{}] is not a CU_LAUNCH_PARAM value", i);
        }
    }
    if (buffer == nullptr || bytes < entry.param_bytes)
        refuse(CUDA_ERROR_INVALID_VALUE, "a parameter buffer of {} bytes: kernel {} takes {}", bytes, function.name,
               entry.param_bytes);
    std::memcpy(block.data(), buffer, entry.param_bytes);
    return block;
}

}  // namespace

LaunchRequest launch_request(const CUfunc_st& function, const CUlaunchConfig& config) {
    LaunchRequest request;
    request.grid = {config.gridDimX, config.gridDimY, config.gridDimZ};
    request.block = {config.blockDimX, config.blockDimY, config.blockDimZ};
    request.dynamic_shared = config.sharedMemBytes;
    if (config.numAttrs != 0) require_pointer(config.attrs, "attrs");
    for (unsigned i = 0; i < config.numAttrs; ++i) read_attribute(request, config.attrs[i]);
    apply_required_cluster(function, request);
    return request;
}

CUlaunchConfig plain_config(Dim3 grid, Dim3 block, unsigned dynamic_shared, CUstream stream) {
    return {grid.x, grid.y, grid.z, block.x, block.y, block.z, dynamic_shared, stream, nullptr, 0};
}

KernelWork kernel_work(CUfunc_st& function, const LaunchRequest& request, void* const* parameters, void* const* extra) {
    const GpuConfig& config = device_of(function.module->context->device).gpu->config();
    check_sizes(function, request);
    check_cluster(function, request, config);
    check_residency(function, request, config);
    KernelWork work;
    work.function = &function;
    work.module = function.module->loaded;
    work.launch.program = function.program;
    work.launch.grid = request.grid;
    work.launch.block = request.block;
    work.launch.cluster = request.cluster;
    work.launch.explicit_cluster = request.explicit_cluster;
    work.launch.dynamic_shared = static_cast<uint32_t>(request.dynamic_shared);
    work.launch.params = parameter_block(function, parameters, extra);
    work.launch.name = function.name;
    return work;
}

namespace cu {

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction handle, void** parameters, void** extra) {
    return in_context("cuLaunchKernelEx", [&](Call& call) {
        require_pointer(config, "config");
        CUfunc_st& function = function_of(call, handle);
        const LaunchRequest request = launch_request(function, *config);
        enqueue(call, stream_of(call, config->hStream), kernel_work(function, request, parameters, extra),
                request.programmatic);
    });
}

CUresult cuLaunchKernel(CUfunction handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned dynamic_shared, CUstream stream, void** parameters,
                        void** extra) {
    const CUlaunchConfig config =
        plain_config({grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, dynamic_shared, stream);
    return cu::cuLaunchKernelEx(&config, handle, parameters, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction handle, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned dynamic_shared,
                                   CUstream stream, void** parameters) {
    CUlaunchAttribute attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attribute.value.cooperative = 1;
    CUlaunchConfig config = plain_config({grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, dynamic_shared, stream);
    config.attrs = &attribute;
    config.numAttrs = 1;
    return cu::cuLaunchKernelEx(&config, handle, parameters, nullptr);
}

}  // namespace cu

}  // namespace nvfp4r::sim::driver
