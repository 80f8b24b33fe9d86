#include "sim/driver/state.hpp"

#include <cstdio>
#include <cstdlib>
#include <set>

#include "sim/driver/queue.hpp"
#include "sim/driver/sim_driver.hpp"

namespace nvfp4r::sim::driver {

namespace {

constexpr unsigned long kMostDevices = 16;

std::vector<GpuConfig> configured_devices() {
    if (state().chosen) return *state().chosen;
    unsigned long count = 1;
    if (const char* text = std::getenv("NVFP4R_SIM_DEVICES")) {
        char* end = nullptr;
        count = std::strtoul(text, &end, 10);
        if (end == text || *end != '\0' || count > kMostDevices)
            fail(NVFP4R_INVALID_ARGUMENT, "NVFP4R_SIM_DEVICES={}: 0 to {} is expected", text, kMostDevices);
    }
    return std::vector<GpuConfig>(count, GpuConfig::from_environment());
}

struct ContextStack {
    uint64_t generation = 0;
    std::vector<CUcontext> contexts;
};

CUresult error_result(const Error& error) {
    switch (error.status()) {
        case NVFP4R_COMPILE_ERROR: return CUDA_ERROR_INVALID_PTX;
        case NVFP4R_UNSUPPORTED: return CUDA_ERROR_NOT_SUPPORTED;
        case NVFP4R_OUT_OF_MEMORY: return CUDA_ERROR_OUT_OF_MEMORY;
        case NVFP4R_INVALID_ARGUMENT: return CUDA_ERROR_INVALID_VALUE;
        default: return CUDA_ERROR_UNKNOWN;
    }
}

bool logging() {
    const char* value = std::getenv("NVFP4R_SIM_LOG");
    return value != nullptr && *value == '1';
}

}  // namespace

DriverState& state() {
    // Never destroyed: threads and exit handlers of the program may still call the driver at its end.
    static auto* the_state = new DriverState;
    return *the_state;
}

void initialise_devices() {
    if (!state().devices.empty()) return;
    std::vector<std::unique_ptr<Device>> devices;
    for (const GpuConfig& config : configured_devices()) {
        auto device = std::make_unique<Device>();
        device->ordinal = static_cast<int>(devices.size());
        device->gpu = Gpu::create(config);
        device->primary = std::make_unique<CUctx_st>();
        device->primary->device = device->ordinal;
        device->primary->primary = true;
        devices.push_back(std::move(device));
    }
    if (devices.empty()) refuse(CUDA_ERROR_NO_DEVICE, "NVFP4R_SIM_DEVICES=0: a machine without a GPU");
    state().devices = std::move(devices);
}

void restart_driver(std::vector<GpuConfig> gpus) {
    const std::lock_guard lock(state().mutex);
    DriverState& s = state();
    s.graph_execs.clear();
    s.graphs.clear();
    s.events.clear();
    s.streams.clear();
    s.libraries.clear();
    s.modules.clear();
    s.contexts.clear();
    for (const auto& [address, allocation] : s.memory) {
        if (allocation.kind == MemoryKind::pinned) std::free(reinterpret_cast<void*>(address));
    }
    s.memory.clear();
    s.captures.clear();
    s.devices.clear();
    s.chosen = std::move(gpus);
    s.last_report.clear();
    ++s.generation;
}

std::vector<CUcontext>& context_stack() {
    thread_local ContextStack stack;
    if (stack.generation != state().generation) {
        stack.contexts.clear();
        stack.generation = state().generation;
    }
    return stack.contexts;
}

bool& inside_host_function() {
    thread_local bool inside = false;
    return inside;
}

CUctx_st* find_context(CUcontext handle) {
    for (const auto& device : state().devices) {
        if (device->primary.get() == handle) return handle;
    }
    return state().contexts.find(handle);
}

Device& device_of(CUdevice ordinal) {
    if (ordinal < 0 || static_cast<size_t>(ordinal) >= state().devices.size())
        refuse(CUDA_ERROR_INVALID_DEVICE, "device {}: there are {}", ordinal, state().devices.size());
    return *state().devices[static_cast<size_t>(ordinal)];
}

void require_context(Call& call) {
    if (context_stack().empty()) refuse(CUDA_ERROR_INVALID_CONTEXT, "no context is current to this thread");
    call.context = find_context(context_stack().back());
    if (call.context == nullptr || !call.context->alive)
        refuse(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the current context was destroyed or released");
    if (call.context->sticky != CUDA_SUCCESS)
        refuse(call.context->sticky, "an earlier kernel faulted: {}", state().last_report);
}

void destroy_context_contents(Call& call, CUctx_st& context) {
    drain(call, context.device);
    DriverState& s = state();
    Gpu& gpu = *device_of(context.device).gpu;
    s.graph_execs.remove_if([&](const CUgraphExec_st& exec) { return exec.context == &context; });
    s.events.remove_if([&](const CUevent_st& event) { return event.context == &context; });
    s.streams.remove_if([&](const CUstream_st& stream) { return stream.context == &context; });
    for (const auto& [handle, library] : s.libraries) library->modules.erase(&context);
    s.modules.remove_if([&](const CUmod_st& module) { return module.context == &context; });
    std::erase_if(s.memory, [&](const auto& entry) {
        const Allocation& allocation = entry.second;
        if (allocation.context != &context) return false;
        if (allocation.kind == MemoryKind::device || allocation.kind == MemoryKind::managed) {
            gpu.release(allocation.address);
            device_of(context.device).memory_used -= allocation.bytes;
        } else if (allocation.kind != MemoryKind::variable) {  // variables end with their module
            for (const auto& device : s.devices)
                device->gpu->unregister_host(reinterpret_cast<void*>(allocation.address));
            if (allocation.kind == MemoryKind::pinned) std::free(reinterpret_cast<void*>(allocation.address));
        }
        return true;
    });
    context.legacy_stream.reset();
    context.thread_streams.clear();
    context.sticky = CUDA_SUCCESS;
}

void log_once(const std::string& what) {
    static std::mutex mutex;
    static std::set<std::string> seen;
    const std::lock_guard lock(mutex);
    if (seen.insert(what).second) fmt::print(stderr, "nvfp4r sim: {}\n", what);
}

void keep_report(const std::string& text, bool print) {
    state().last_report = text;
    if (print) fmt::print(stderr, "nvfp4r sim: {}\n", text);
}

CUresult result_of_exception(const char* name) {
    try {
        throw;
    } catch (const Refused& refused) {
        // The sticky error repeats the report that is already kept.
        if (!refused.why.empty() && !refused.why.starts_with("an earlier kernel faulted"))
            keep_report(fmt::format("{}: {}", name, refused.why), logging());
        return refused.result;
    } catch (const Error& error) {
        keep_report(fmt::format("{}: {}", name, error.what()), true);
        return error_result(error);
    } catch (const std::bad_alloc&) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    } catch (const std::exception& error) {
        keep_report(fmt::format("{}: {}", name, error.what()), true);
        return CUDA_ERROR_UNKNOWN;
    }
}

std::string last_report() {
    const std::lock_guard lock(state().mutex);
    return state().last_report;
}

}  // namespace nvfp4r::sim::driver
