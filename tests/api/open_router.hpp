// A router over a gate in memory, for the tests of every room.
#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "nvfp4router.h"

namespace nvfp4r::test {

struct RouterDeleter {
    void operator()(nvfp4r_router* router) const { nvfp4r_router_destroy(router); }
};
using Router = std::unique_ptr<nvfp4r_router, RouterDeleter>;

/// A gate of f32 weights [experts, hidden], which must outlive the making of the router.
inline nvfp4r_gate_desc f32_gate(const nvfp4r_settings& settings, const std::vector<float>& weight) {
    nvfp4r_gate_desc desc = NVFP4R_GATE_DESC_INIT;
    desc.experts = settings.experts;
    desc.hidden = settings.hidden;
    desc.weight = weight.data();
    desc.weight_type = NVFP4R_F32;
    return desc;
}

/// Null when the router cannot be made; nvfp4r_last_error() has the reason. Fails the test when the gate cannot.
inline Router try_router(const nvfp4r_gate_desc& desc, const nvfp4r_settings& settings,
                         const nvfp4r_router_options& options) {
    nvfp4r_gate* gate = nullptr;
    if (nvfp4r_gate_create(&desc, &gate) != NVFP4R_OK) FAIL(nvfp4r_last_error());
    nvfp4r_router* router = nullptr;
    nvfp4r_router_create(gate, &settings, &options, &router);
    nvfp4r_gate_destroy(gate);
    return Router(router);
}

/// The same, and fails the test when the router cannot be made.
inline Router open_router(const nvfp4r_gate_desc& desc, const nvfp4r_settings& settings,
                          const nvfp4r_router_options& options) {
    Router router = try_router(desc, settings, options);
    if (!router) FAIL(nvfp4r_last_error());
    return router;
}

}  // namespace nvfp4r::test
