// Contexts: one primary context a device, retained and released; made ones; and the stack of each thread.
#include "sim/driver/capture.hpp"
#include "sim/driver/entries.hpp"
#include "sim/driver/queue.hpp"

namespace nvfp4r::sim::driver::cu {

namespace {

CUctx_st& existing_context(CUcontext handle) {
    CUctx_st* context = find_context(handle);
    if (context == nullptr) refuse(CUDA_ERROR_INVALID_CONTEXT, "context {} does not exist", static_cast<void*>(handle));
    return *context;
}

void require_current(Call& call) {
    if (context_stack().empty()) refuse(CUDA_ERROR_INVALID_CONTEXT, "no context is current to this thread");
    call.context = find_context(context_stack().back());
    if (call.context == nullptr) refuse(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the current context was destroyed");
}

}  // namespace

CUresult cuDevicePrimaryCtxRetain(CUcontext* handle, CUdevice device) {
    return in_driver("cuDevicePrimaryCtxRetain", [&](Call&) {
        require_pointer(handle, "pctx");
        CUctx_st& primary = *device_of(device).primary;
        ++primary.retained;
        primary.alive = true;
        *handle = &primary;
    });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
    return in_driver("cuDevicePrimaryCtxRelease", [&](Call& call) {
        CUctx_st& primary = *device_of(device).primary;
        if (primary.retained == 0)
            refuse(CUDA_ERROR_INVALID_CONTEXT, "the primary context of device {} is not retained", device);
        if (--primary.retained > 0) return;
        destroy_context_contents(call, primary);
        primary.alive = false;
    });
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
    return in_driver("cuDevicePrimaryCtxReset",
                     [&](Call& call) { destroy_context_contents(call, *device_of(device).primary); });
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
    return in_driver("cuDevicePrimaryCtxGetState", [&](Call&) {
        const CUctx_st& primary = *device_of(device).primary;
        require_pointer(flags, "flags");
        require_pointer(active, "active");
        *flags = primary.flags;
        *active = primary.alive ? 1 : 0;
    });
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {
    return in_driver("cuDevicePrimaryCtxSetFlags", [&](Call&) {
        if ((flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) != 0)
            refuse(CUDA_ERROR_INVALID_VALUE, "context flags {:#x}", flags);
        device_of(device).primary->flags = flags;
    });
}

CUresult create_context(CUcontext* handle, unsigned flags, CUdevice device) {
    return in_driver("cuCtxCreate", [&](Call&) {
        require_pointer(handle, "pctx");
        if ((flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) != 0)
            refuse(CUDA_ERROR_INVALID_VALUE, "context flags {:#x}", flags);
        auto context = std::make_unique<CUctx_st>();
        context->device = device_of(device).ordinal;
        context->flags = flags;
        context->alive = true;
        *handle = &state().contexts.add(std::move(context));
        context_stack().push_back(*handle);
    });
}

CUresult create_context_v4(CUcontext* handle, CUctxCreateParams* params, unsigned flags, CUdevice device) {
    if (params == nullptr || (params->execAffinityParams == nullptr && params->cigParams == nullptr))
        return create_context(handle, flags, device);
    return in_driver("cuCtxCreate", [](Call&) {
        refuse(CUDA_ERROR_NOT_SUPPORTED, "contexts of a part of the GPU, and shared with graphics, are not simulated");
    });
}

CUresult cuCtxDestroy(CUcontext handle) {
    return in_driver("cuCtxDestroy", [&](Call& call) {
        CUctx_st& context = existing_context(handle);
        if (context.primary) refuse(CUDA_ERROR_INVALID_CONTEXT, "a primary context is released, not destroyed");
        destroy_context_contents(call, context);
        if (!context_stack().empty() && context_stack().back() == handle) context_stack().pop_back();
        state().contexts.remove(&context);
    });
}

CUresult cuCtxGetCurrent(CUcontext* handle) {
    return in_driver("cuCtxGetCurrent", [&](Call&) {
        require_pointer(handle, "pctx");
        *handle = context_stack().empty() ? nullptr : context_stack().back();
    });
}

CUresult cuCtxSetCurrent(CUcontext handle) {
    return in_driver("cuCtxSetCurrent", [&](Call&) {
        auto& stack = context_stack();
        if (handle != nullptr) existing_context(handle);
        if (!stack.empty()) stack.pop_back();
        if (handle != nullptr) stack.push_back(handle);
    });
}

CUresult cuCtxPushCurrent(CUcontext handle) {
    return in_driver("cuCtxPushCurrent", [&](Call&) { context_stack().push_back(&existing_context(handle)); });
}

CUresult cuCtxPopCurrent(CUcontext* handle) {
    return in_driver("cuCtxPopCurrent", [&](Call&) {
        auto& stack = context_stack();
        if (stack.empty()) refuse(CUDA_ERROR_INVALID_CONTEXT, "no context is current to this thread");
        if (handle != nullptr) *handle = stack.back();
        stack.pop_back();
    });
}

CUresult cuCtxGetDevice(CUdevice* device) {
    return in_driver("cuCtxGetDevice", [&](Call& call) {
        require_pointer(device, "device");
        require_current(call);
        *device = call.context->device;
    });
}

CUresult cuCtxGetFlags(unsigned* flags) {
    return in_driver("cuCtxGetFlags", [&](Call& call) {
        require_pointer(flags, "flags");
        require_current(call);
        *flags = call.context->flags;
    });
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned* version) {
    return in_driver("cuCtxGetApiVersion", [&](Call& call) {
        require_pointer(version, "version");
        if (handle != nullptr) {
            existing_context(handle);
        } else {
            require_current(call);
        }
        // The version of the context interface, which cuCtxCreate_v2 gave this number.
        constexpr unsigned kContextInterface = 3020;
        *version = kContextInterface;
    });
}

CUresult cuCtxSynchronize() {
    return in_context("cuCtxSynchronize", [&](Call& call) {
        for (const auto& [handle, stream] : state().streams) {
            if (stream->context == call.context) refuse_captured_stream(*stream);
        }
        synchronise(call);
    });
}

// Limits and cache preferences change nothing in the simulator; programs set them and go on.
CUresult cuCtxSetLimit(CUlimit limit, size_t) {
    return in_context("cuCtxSetLimit", [&](Call&) {
        if (limit >= CU_LIMIT_MAX) refuse(CUDA_ERROR_INVALID_VALUE, "limit {}", static_cast<int>(limit));
    });
}

CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
    return in_context("cuCtxGetLimit", [&](Call&) {
        require_pointer(value, "pvalue");
        if (limit >= CU_LIMIT_MAX) refuse(CUDA_ERROR_INVALID_VALUE, "limit {}", static_cast<int>(limit));
        *value = 0;
    });
}

CUresult cuCtxSetCacheConfig(CUfunc_cache) {
    return in_context("cuCtxSetCacheConfig", [](Call&) {});
}

CUresult cuCtxGetCacheConfig(CUfunc_cache* config) {
    return in_context("cuCtxGetCacheConfig", [&](Call&) {
        require_pointer(config, "pconfig");
        *config = CU_FUNC_CACHE_PREFER_NONE;
    });
}

}  // namespace nvfp4r::sim::driver::cu
