// The border between exceptions and status codes.
#pragma once

#include <string>

#include "nvfp4router.h"

namespace nvfp4r {

/// Keeps `text` for nvfp4r_last_error of this thread and returns `status`.
nvfp4r_status set_last_error(nvfp4r_status status, const char* text) noexcept;
/// Turns the exception in flight into a status and a text: `call: text`.
nvfp4r_status status_of_current_exception(const char* call) noexcept;

/// Runs `body` and lets no exception out.
template <class Body>
nvfp4r_status guarded(const char* call, Body&& body) noexcept {
    try {
        body();
        return NVFP4R_OK;
    } catch (...) {
        return status_of_current_exception(call);
    }
}

}  // namespace nvfp4r
