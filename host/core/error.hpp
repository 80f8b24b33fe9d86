// The one exception type of the library. It never crosses the C API: host/api turns it into a status and a text.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "nvfp4router.h"

namespace nvfp4r {

class Error : public std::runtime_error {
  public:
    Error(nvfp4r_status status, const std::string& text) : std::runtime_error(text), status_(status) {}
    nvfp4r_status status() const noexcept { return status_; }

  private:
    nvfp4r_status status_;
};

/// Throws Error. The text names the call or file, the value and the remedy: "experts 2049: at most 2048 are supported".
template <class... Args>
[[noreturn]] void fail(nvfp4r_status status, fmt::format_string<Args...> text, Args&&... args) {
    throw Error(status, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace nvfp4r
