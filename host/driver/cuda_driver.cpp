// Opens the driver's own library at run time, so that nothing here links against a library that only a GPU machine has.
#include <dlfcn.h>

#include <cstdlib>
#include <mutex>
#include <optional>

#include "driver/driver_api.hpp"

namespace nvfp4r {

namespace {

constexpr const char* kDriverLibrary = "libcuda.so.1";

template <class Function>
Function plain_symbol(const std::function<void*(const char*)>& symbol, const char* name, const std::string& origin) {
    void* address = symbol(name);
    if (address == nullptr) {
        fail(NVFP4R_NO_DEVICE,
             "{}: {} is missing: not a CUDA driver, or one older than CUDA {}; install a current NVIDIA driver", origin,
             name, version_text(kOldestDriverVersion));
    }
    return reinterpret_cast<Function>(address);
}

[[noreturn]] void fail_init(const DriverApi& api, CUresult result) {
    if (result == CUDA_ERROR_STUB_LIBRARY) {
        fail(NVFP4R_NO_DEVICE,
             "{}: cuInit: CUDA_ERROR_STUB_LIBRARY (34): this is the toolkit's link-time stub, not the driver; take the "
             "stubs folder "
             "out of LD_LIBRARY_PATH and install the NVIDIA driver",
             api.origin);
    }
    if (result == CUDA_ERROR_NO_DEVICE) {
        fail(NVFP4R_NO_DEVICE, "{}: cuInit: {}; check nvidia-smi and CUDA_VISIBLE_DEVICES", api.origin,
             result_text(api, result));
    }
    fail(result_status(result), "{}: cuInit: {}", api.origin, result_text(api, result));
}

constexpr int kCreateContextVersion = 12050;  // cuCtxCreate_v4

void* versioned_symbol(decltype(&::cuGetProcAddress) get_proc_address, const char* name, const DriverApi& api) {
    void* address = nullptr;
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
    const CUresult result = get_proc_address(name, &address, kOldestDriverVersion, CU_GET_PROC_ADDRESS_DEFAULT, &found);
    if (result != CUDA_SUCCESS || address == nullptr) {
        fail(NVFP4R_NO_DEVICE,
             "{}: cuGetProcAddress({}, {}): {}, query result {}: the driver (CUDA {}) does not have it; install a "
             "newer one",
             api.origin, name, kOldestDriverVersion, result_text(api, result), static_cast<int>(found),
             version_text(api.version));
    }
    return address;
}

}  // namespace

DriverApi bind_driver(const std::function<void*(const char*)>& symbol, const std::string& origin) {
    DriverApi api;
    api.origin = origin;
    api.simulated = symbol("nvfp4r_sim_last_report") != nullptr;
    // These exist under their plain names in every driver; the error texts are needed before anything can fail.
    api.cuGetErrorName = plain_symbol<decltype(api.cuGetErrorName)>(symbol, "cuGetErrorName", origin);
    api.cuGetErrorString = plain_symbol<decltype(api.cuGetErrorString)>(symbol, "cuGetErrorString", origin);
    api.cuInit = plain_symbol<decltype(api.cuInit)>(symbol, "cuInit", origin);
    api.cuDriverGetVersion = plain_symbol<decltype(api.cuDriverGetVersion)>(symbol, "cuDriverGetVersion", origin);

    if (const CUresult result = api.cuInit(0); result != CUDA_SUCCESS) fail_init(api, result);
    check(api, api.cuDriverGetVersion(&api.version), "cuDriverGetVersion");
    if (api.version < kOldestDriverVersion) {
        fail(NVFP4R_NO_DEVICE, "{}: the driver supports CUDA {}; {} or newer is needed: update the NVIDIA driver",
             origin, version_text(api.version), version_text(kOldestDriverVersion));
    }

    // The version asked for decides which form of a function comes back, so an entry can never be an older form than
    // its type.
    const auto get_proc_address = plain_symbol<decltype(&::cuGetProcAddress)>(symbol, "cuGetProcAddress_v2", origin);
#define NVFP4R_BIND(name) \
    api.name = reinterpret_cast<decltype(api.name)>(versioned_symbol(get_proc_address, #name, api));
    NVFP4R_DRIVER_ENTRIES(NVFP4R_BIND)
#undef NVFP4R_BIND
    void* create = nullptr;
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
    if (get_proc_address("cuCtxCreate", &create, kCreateContextVersion, CU_GET_PROC_ADDRESS_DEFAULT, &found) ==
        CUDA_SUCCESS)
        api.create_context = reinterpret_cast<decltype(api.create_context)>(create);
    return api;
}

DriverApi open_driver(const std::string& path) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        const char* reason = dlerror();
        fail(NVFP4R_NO_DEVICE, "{}: no CUDA driver here ({}); install the NVIDIA driver, or use the cpu or sim device",
             path, reason != nullptr ? reason : "dlopen failed");
    }
    return bind_driver([library](const char* name) { return dlsym(library, name); }, path);
}

const DriverApi& cuda_driver() {
    static std::mutex mutex;
    static std::optional<DriverApi> api;
    const std::lock_guard lock(mutex);
    if (!api) {
        const char* chosen = std::getenv("NVFP4R_LIBCUDA");
        api = open_driver(chosen != nullptr && *chosen != '\0' ? chosen : kDriverLibrary);
    }
    return *api;
}

}  // namespace nvfp4r
