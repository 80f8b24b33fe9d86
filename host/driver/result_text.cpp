// Driver results as texts and statuses.
#include "driver/driver_api.hpp"

namespace nvfp4r {

namespace {

/// What the user can do, for the errors whose own text does not say it.
std::string remedy(const DriverApi& api, CUresult result) {
    switch (result) {
        case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
            return fmt::format("; the PTX is newer than this driver (CUDA {}): update the driver or load a cubin",
                               version_text(api.version));
        case CUDA_ERROR_NO_BINARY_FOR_GPU: return "; the cubin was built for another architecture than this GPU's";
        case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
            return "; libcuda and the kernel module differ: reboot or reload the module after a driver update";
        case CUDA_ERROR_DEVICE_UNAVAILABLE: return "; another process holds the GPU in exclusive mode";
        case CUDA_ERROR_SYSTEM_NOT_READY: return "; on an NVSwitch machine, check that the fabric manager runs";
        default: return "";
    }
}

}  // namespace

std::string version_text(int driver_version) {
    return fmt::format("{}.{}", driver_version / 1000, driver_version % 1000 / 10);
}

std::string result_text(const DriverApi& api, CUresult result) {
    const char* name = nullptr;
    const char* text = nullptr;
    // An error code newer than the driver library has neither name nor text.
    if (api.cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) name = "unknown CUresult";
    if (api.cuGetErrorString(result, &text) != CUDA_SUCCESS || text == nullptr) text = "no description";
    return fmt::format("{} ({}): {}{}", name, static_cast<int>(result), text, remedy(api, result));
}

nvfp4r_status result_status(CUresult result) {
    switch (result) {
        case CUDA_ERROR_OUT_OF_MEMORY: return NVFP4R_OUT_OF_MEMORY;
        case CUDA_ERROR_NO_DEVICE:
        case CUDA_ERROR_INVALID_DEVICE:
        case CUDA_ERROR_STUB_LIBRARY:
        case CUDA_ERROR_DEVICE_UNAVAILABLE: return NVFP4R_NO_DEVICE;
        default: return NVFP4R_DRIVER_ERROR;
    }
}

}  // namespace nvfp4r
