#include "sim/driver/function.hpp"

#include <algorithm>

#include "sim/driver/device_shape.hpp"
#include "sim/driver/entries.hpp"
#include "sim/driver/module.hpp"
#include "sim/machine/residency.hpp"

namespace nvfp4r::sim::driver {

const GpuConfig& config_of(const CUfunc_st& function) {
    return device_of(function.module->context->device).gpu->config();
}

namespace {

int declared_threads(const CUfunc_st& function) {
    const Function& entry = function.entry();
    const uint32_t* bounds = entry.required_threads[0] != 0 ? entry.required_threads : entry.max_threads;
    if (bounds[0] == 0) return 0;
    return static_cast<int>(bounds[0] * std::max(1u, bounds[1]) * std::max(1u, bounds[2]));
}

int constant_bytes(const CUfunc_st& function) {
    uint64_t bytes = 0;
    for (const Variable& variable : function.module->loaded->module().globals) {
        if (variable.space == StateSpace::constant) bytes += variable.size;
    }
    return static_cast<int>(bytes);
}

}  // namespace

int largest_block(const CUfunc_st& function) {
    const int declared = declared_threads(function);
    return declared != 0 ? std::min(declared, kMostThreadsPerBlock) : kMostThreadsPerBlock;
}

int declared_registers(const CUfunc_st& function) {
    GridLaunch one_warp;
    one_warp.program = function.program;
    one_warp.block = {kLanes, 1, 1};
    return static_cast<int>(needs_of(config_of(function), one_warp).registers / kLanes);
}

int function_attribute(const CUfunc_st& function, CUfunction_attribute attribute) {
    const Function& entry = function.entry();
    const Module& module = function.module->loaded->module();
    switch (attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return largest_block(function);
        case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: return static_cast<int>(function.program->static_shared);
        case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: return constant_bytes(function);
        case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: return static_cast<int>(function.program->local_bytes);
        case CU_FUNC_ATTRIBUTE_NUM_REGS: return declared_registers(function);
        case CU_FUNC_ATTRIBUTE_PTX_VERSION: return static_cast<int>(module.version_major * 10 + module.version_minor);
        case CU_FUNC_ATTRIBUTE_BINARY_VERSION: return static_cast<int>(config_of(function).sm);
        case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA: return 0;
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: return function.max_dynamic_shared;
        case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: return function.carveout;
        case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
            return entry.explicit_cluster && entry.required_cluster[0] == 0 ? 1 : 0;
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH: return static_cast<int>(entry.required_cluster[0]);
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT: return static_cast<int>(entry.required_cluster[1]);
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: return static_cast<int>(entry.required_cluster[2]);
        case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: return function.non_portable_cluster ? 1 : 0;
        case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: return function.cluster_policy;
        default: refuse(CUDA_ERROR_INVALID_VALUE, "function attribute {} does not exist", static_cast<int>(attribute));
    }
}

void set_function_attribute(CUfunc_st& function, CUfunction_attribute attribute, int value) {
    switch (attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
            const int room = static_cast<int>(config_of(function).shared_per_block_optin) -
                             static_cast<int>(function.program->static_shared);
            if (value < 0 || value > room)
                refuse(CUDA_ERROR_INVALID_VALUE, "{} bytes of dynamic shared memory: kernel {} may have {}", value,
                       function.name, room);
            function.max_dynamic_shared = value;
            return;
        }
        case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
            if (value < -1 || value > 100)
                refuse(CUDA_ERROR_INVALID_VALUE, "carve-out {}: -1 to 100 per cent is expected", value);
            function.carveout = value;
            return;
        case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: function.non_portable_cluster = value != 0; return;
        case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
            if (value < CU_CLUSTER_SCHEDULING_POLICY_DEFAULT || value > CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING)
                refuse(CUDA_ERROR_INVALID_VALUE, "cluster scheduling policy {}", value);
            function.cluster_policy = value;
            return;
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
            refuse(CUDA_ERROR_NOT_SUPPORTED,
                   "a required cluster size set at run time is not simulated; use a launch attribute");
        default: refuse(CUDA_ERROR_INVALID_VALUE, "function attribute {} cannot be set", static_cast<int>(attribute));
    }
}

namespace cu {

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction handle) {
    return in_context("cuFuncGetAttribute", [&](Call& call) {
        require_pointer(value, "pi");
        *value = function_attribute(function_of(call, handle), attribute);
    });
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value) {
    return in_context("cuFuncSetAttribute",
                      [&](Call& call) { set_function_attribute(function_of(call, handle), attribute, value); });
}

CUresult cuFuncGetName(const char** name, CUfunction handle) {
    return in_context("cuFuncGetName", [&](Call& call) {
        require_pointer(name, "name");
        *name = function_of(call, handle).name.c_str();
    });
}

CUresult cuFuncGetModule(CUmodule* module, CUfunction handle) {
    return in_context("cuFuncGetModule", [&](Call& call) {
        require_pointer(module, "hmod");
        *module = function_of(call, handle).module;
    });
}

CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t* offset, size_t* size) {
    return in_context("cuFuncGetParamInfo", [&](Call& call) {
        require_pointer(offset, "paramOffset");
        const auto& parameters = function_of(call, handle).entry().params;
        if (index >= parameters.size())
            refuse(CUDA_ERROR_INVALID_VALUE, "parameter {}: there are {}", index, parameters.size());
        *offset = parameters[index].offset;
        if (size != nullptr) *size = parameters[index].size;
    });
}

// Every kernel is loaded with its module, and there is no cache to configure.
CUresult cuFuncLoad(CUfunction handle) {
    return in_context("cuFuncLoad", [&](Call& call) { function_of(call, handle); });
}

CUresult cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache) {
    return in_context("cuFuncSetCacheConfig", [&](Call& call) { function_of(call, handle); });
}

}  // namespace cu

}  // namespace nvfp4r::sim::driver
