// The C API's handles for the CLI: freed at the end of a scope, failures thrown with the library's own text.
#pragma once

#include <memory>

#include "core/error.hpp"
#include "nvfp4router.h"

namespace nvfp4r::cli {

inline void must(nvfp4r_status status) {
    if (status != NVFP4R_OK) throw Error(status, nvfp4r_last_error());
}

using GateHandle = std::unique_ptr<nvfp4r_gate, decltype(&nvfp4r_gate_destroy)>;
using RouterHandle = std::unique_ptr<nvfp4r_router, decltype(&nvfp4r_router_destroy)>;

inline GateHandle open_gate(const char* path, int32_t layer, const nvfp4r_gate_options* options) {
    nvfp4r_gate* gate = nullptr;
    must(nvfp4r_gate_load(path, layer, options, &gate));
    return {gate, nvfp4r_gate_destroy};
}

inline RouterHandle open_router(const nvfp4r_gate* gate, const nvfp4r_settings& settings,
                                const nvfp4r_router_options& options) {
    nvfp4r_router* router = nullptr;
    must(nvfp4r_router_create(gate, &settings, &options, &router));
    return {router, nvfp4r_router_destroy};
}

}  // namespace nvfp4r::cli
