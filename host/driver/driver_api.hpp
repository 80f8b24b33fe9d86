// The CUDA driver API as one table of functions. Everything that talks to a GPU is written against this table, so that
// the same code runs on the driver's libcuda.so.1 and on the simulator.
#pragma once

#include <cuda.h>

#include <functional>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "driver/driver_entries.hpp"

namespace nvfp4r {

/// Members carry the driver's own names: `api.cuMemAlloc(&address, bytes)`. cuda.h renames some of them by macro
/// (cuMemAlloc is cuMemAlloc_v2); definition and use go through the same macro, so the member always has the type of
/// the current version.
struct DriverApi {
#define NVFP4R_MEMBER(name) decltype(&::name) name = nullptr;
    NVFP4R_DRIVER_ENTRIES(NVFP4R_MEMBER)
#undef NVFP4R_MEMBER
    /// cuCtxCreate with CUctxCreateParams, which came with CUDA 12.5 and is the current form from 13.0 on; nullptr where the
    /// driver is older. Headers before 13.0 give the name to another form.
    CUresult (*create_context)(CUcontext*, CUctxCreateParams*, unsigned, CUdevice) = nullptr;
    std::string origin;      // file name of the library, or "simulator"
    int version = 0;         // of the driver: 1000 * major + 10 * minor
    bool simulated = false;  // the simulator, in this library or as libcuda_sim.so: it runs PTX and no cubin
};

/// The oldest driver with everything the table asks for: clusters, kernels of libraries and tensor maps came with
/// CUDA 12.0.
inline constexpr int kOldestDriverVersion = 12000;

/// The table of libcuda.so.1 (or of the file that NVFP4R_LIBCUDA names), opened and initialised by the first call. It
/// is never closed. Throws NO_DEVICE or DRIVER_ERROR, every time anew after a failure, with a text of its own for: no
/// library, the stub library of the toolkit, a driver older than CUDA 12.0, no GPU, any other error of cuInit. Thread
/// safe.
const DriverApi& cuda_driver();

/// The table of the simulator. It needs no GPU and never fails. Thread safe.
const DriverApi& sim_driver();

/// Opens the driver library `path` without caching it; what cuda_driver() does once.
DriverApi open_driver(const std::string& path);

/// Fills the table from a loaded library and calls cuInit. `symbol` finds an exported function by its plain name,
/// nullptr when there is none. `origin` is used in messages.
DriverApi bind_driver(const std::function<void*(const char*)>& symbol, const std::string& origin);

/// "13.0" from 13000.
std::string version_text(int driver_version);

/// "CUDA_ERROR_INVALID_VALUE (1): invalid argument", and for the errors that have one, what to do about it.
std::string result_text(const DriverApi& api, CUresult result);

/// The status that a failed driver call becomes in the C API.
nvfp4r_status result_status(CUresult result);

/// Throws unless `result` is CUDA_SUCCESS: "cuMemAlloc (4096 bytes): CUDA_ERROR_OUT_OF_MEMORY (2): out of memory".
inline void check(const DriverApi& api, CUresult result, const char* call) {
    if (result != CUDA_SUCCESS) fail(result_status(result), "{}: {}", call, result_text(api, result));
}

template <class... Args>
void check(const DriverApi& api, CUresult result, const char* call, fmt::format_string<Args...> detail,
           Args&&... args) {
    if (result == CUDA_SUCCESS) return;
    fail(result_status(result), "{} ({}): {}", call, fmt::format(detail, std::forward<Args>(args)...),
         result_text(api, result));
}

}  // namespace nvfp4r
