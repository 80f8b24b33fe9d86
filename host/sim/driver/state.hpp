// Everything the simulator's driver knows, behind one lock.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>

#include "core/error.hpp"
#include "sim/driver/objects.hpp"

namespace nvfp4r::sim::driver {

/// The driver version that the simulator reports, and the newest PTX it takes: those of CUDA 13.1, the manual it
/// follows.
inline constexpr int kSimDriverVersion = 13010;
inline constexpr unsigned kNewestPtxMajor = 9, kNewestPtxMinor = 1;

/// Live handles of one kind. A handle that is not among them is refused, as the driver refuses most stale ones.
template <class T>
class Registry {
  public:
    T& add(std::unique_ptr<T> object) {
        T* handle = object.get();
        objects_.emplace(handle, std::move(object));
        return *handle;
    }
    T* find(T* handle) const {
        const auto found = objects_.find(handle);
        return found != objects_.end() ? found->second.get() : nullptr;
    }
    void remove(T* handle) { objects_.erase(handle); }
    template <class Predicate>
    void remove_if(Predicate predicate) {
        std::erase_if(objects_, [&](const auto& entry) { return predicate(*entry.second); });
    }
    auto begin() const { return objects_.begin(); }
    auto end() const { return objects_.end(); }
    void clear() { objects_.clear(); }

  private:
    std::map<T*, std::unique_ptr<T>> objects_;
};

struct Device {
    int ordinal = 0;
    std::unique_ptr<Gpu> gpu;
    std::unique_ptr<CUctx_st> primary;
    std::deque<Op> queue;
    uint64_t memory_used = 0;
};

struct DriverState {
    std::mutex mutex;
    std::condition_variable queue_free;
    bool queue_busy = false;  // a host function of a stream runs, with the lock given up
    uint64_t generation = 0;  // raised by restart_driver; thread-local context stacks of older ones are void
    std::vector<std::unique_ptr<Device>> devices;  // empty until cuInit
    std::optional<std::vector<GpuConfig>> chosen;  // devices chosen by restart_driver
    Registry<CUctx_st> contexts;                   // made by cuCtxCreate; primary ones stand in their devices
    Registry<CUmod_st> modules;
    Registry<CUlib_st> libraries;
    Registry<CUstream_st> streams;
    Registry<CUevent_st> events;
    Registry<CUgraph_st> graphs;
    Registry<CUgraphExec_st> graph_execs;
    std::map<uint64_t, Allocation> memory;  // by address
    std::vector<std::weak_ptr<Capture>> captures;
    uint64_t next_id = 1;
    std::string last_report;
};
DriverState& state();

/// What a call throws to return an error other than success; `why` goes to nvfp4r_sim_last_report and, with
/// NVFP4R_SIM_LOG=1, to stderr.
struct Refused {
    CUresult result;
    std::string why;
};
template <class... Args>
[[noreturn]] void refuse(CUresult result, fmt::format_string<Args...> why, Args&&... args) {
    throw Refused{result, fmt::format(why, std::forward<Args>(args)...)};
}

/// A call in progress: it holds the lock, and (in_context) knows the current context.
struct Call {
    const char* name;
    std::unique_lock<std::mutex> lock;
    CUctx_st* context = nullptr;
    Device& device() const { return *state().devices[static_cast<size_t>(context->device)]; }
};

/// Contexts current to the calling thread, the top one last.
std::vector<CUcontext>& context_stack();
/// The context if it exists (a released primary context exists, but is not alive).
CUctx_st* find_context(CUcontext handle);
Device& device_of(CUdevice ordinal);
/// Set while the calling thread runs a stream's host function, which may not call the driver.
bool& inside_host_function();
/// Opens the devices (once).
void initialise_devices();
/// Frees everything that belongs to a context, after finishing its work.
void destroy_context_contents(Call& call, CUctx_st& context);

/// Prints one line, once for every `what`.
void log_once(const std::string& what);
/// Keeps the text for nvfp4r_sim_last_report; prints it when `print`.
void keep_report(const std::string& text, bool print);

/// Turns what a body throws into a result. Uses the lock of `call` only.
CUresult result_of_exception(const char* name);

/// Runs `body(call)` under the lock. Without cuInit: NOT_INITIALIZED.
template <class Body>
CUresult in_driver(const char* name, Body body) noexcept {
    try {
        Call call{name, std::unique_lock(state().mutex), nullptr};
        try {
            if (inside_host_function()) refuse(CUDA_ERROR_NOT_PERMITTED, "called from a host function of a stream");
            if (state().devices.empty()) refuse(CUDA_ERROR_NOT_INITIALIZED, "cuInit was not called");
            body(call);
            return CUDA_SUCCESS;
        } catch (...) {
            return result_of_exception(name);
        }
    } catch (...) {
        return CUDA_ERROR_UNKNOWN;  // the lock itself failed
    }
}

/// Sets call.context to the current context; refuses when there is none or a kernel's fault has ended it.
void require_context(Call& call);

template <class Body>
CUresult in_context(const char* name, Body body) noexcept {
    return in_driver(name, [&](Call& call) {
        require_context(call);
        body(call);
    });
}

/// The object behind a handle, or INVALID_HANDLE.
template <class T>
T& live(const Registry<T>& registry, T* handle, const char* what) {
    T* object = registry.find(handle);
    if (object == nullptr)
        refuse(CUDA_ERROR_INVALID_HANDLE, "{} {} does not exist", what, static_cast<const void*>(handle));
    return *object;
}

template <class T>
void require_pointer(T* pointer, const char* what) {
    if (pointer == nullptr) refuse(CUDA_ERROR_INVALID_VALUE, "{} is NULL", what);
}

}  // namespace nvfp4r::sim::driver
