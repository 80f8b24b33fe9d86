#include "api/status.hpp"

#include <cstdio>
#include <new>

#include "core/error.hpp"

namespace {

// Fixed room, so that even running out of memory can be told. NVRTC logs are the longest texts.
constexpr size_t kErrorBytes = 16384;
thread_local char last_error[kErrorBytes] = "";

}  // namespace

namespace nvfp4r {

nvfp4r_status set_last_error(nvfp4r_status status, const char* text) noexcept {
    std::snprintf(last_error, sizeof(last_error), "%s", text);
    return status;
}

nvfp4r_status status_of_current_exception(const char* call) noexcept {
    try {
        throw;
    } catch (const Error& e) {
        std::snprintf(last_error, sizeof(last_error), "%s: %s", call, e.what());
        return e.status();
    } catch (const std::bad_alloc&) {
        std::snprintf(last_error, sizeof(last_error), "%s: out of memory", call);
        return NVFP4R_OUT_OF_MEMORY;
    } catch (const std::exception& e) {
        std::snprintf(last_error, sizeof(last_error), "%s: internal error: %s", call, e.what());
        return NVFP4R_INTERNAL;
    } catch (...) {
        std::snprintf(last_error, sizeof(last_error), "%s: internal error", call);
        return NVFP4R_INTERNAL;
    }
}

}  // namespace nvfp4r

const char* nvfp4r_last_error(void) {
    return last_error;
}

const char* nvfp4r_status_name(nvfp4r_status status) {
    switch (static_cast<int>(status)) {
        case NVFP4R_OK: return "NVFP4R_OK";
        case NVFP4R_INVALID_ARGUMENT: return "NVFP4R_INVALID_ARGUMENT";
        case NVFP4R_UNSUPPORTED: return "NVFP4R_UNSUPPORTED";
        case NVFP4R_IO_ERROR: return "NVFP4R_IO_ERROR";
        case NVFP4R_BAD_FILE: return "NVFP4R_BAD_FILE";
        case NVFP4R_OUT_OF_MEMORY: return "NVFP4R_OUT_OF_MEMORY";
        case NVFP4R_NO_DEVICE: return "NVFP4R_NO_DEVICE";
        case NVFP4R_DRIVER_ERROR: return "NVFP4R_DRIVER_ERROR";
        case NVFP4R_COMPILE_ERROR: return "NVFP4R_COMPILE_ERROR";
        case NVFP4R_INTERNAL: return "NVFP4R_INTERNAL";
        default: return "unknown status";
    }
}

uint32_t nvfp4r_version(void) {
    return NVFP4R_VERSION_MAJOR << 16 | NVFP4R_VERSION_MINOR << 8 | NVFP4R_VERSION_PATCH;
}
