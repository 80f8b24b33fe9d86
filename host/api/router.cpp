#include "api/handles.hpp"
#include "api/router_device.hpp"
#include "api/status.hpp"
#include "api/validate.hpp"
#include "api/versioned.hpp"

using namespace nvfp4r;

namespace {

uint32_t terms_to_make(nvfp4r_precision precision) {
    switch (precision) {
        case NVFP4R_PRECISION_NVFP4:
        case NVFP4R_PRECISION_NVFP4_W: return 1;
        case NVFP4R_PRECISION_NVFP4X2:
        case NVFP4R_PRECISION_NVFP4X2_W:
        case NVFP4R_PRECISION_RESCORE: return 2;
        case NVFP4R_PRECISION_NVFP4X3: return 3;
        default: return 0;
    }
}

RouterPlanInput plan_input(std::shared_ptr<const Gate> gate, nvfp4r_settings settings) {
    settings.precision = resolve_precision(settings, *gate);
    if (settings.activation_scale == 0.0f) settings.activation_scale = gate->input_scale;
    RouterPlanInput input{gate, settings, {}};
    const uint32_t terms = terms_to_make(settings.precision);
    if (!gate->terms.empty())
        input.terms.assign(gate->terms.begin(), gate->terms.begin() + terms);
    else if (terms > 0)
        input.terms = quantise_terms(gate->weight.data(), gate->experts, gate->hidden, gate->hidden, terms,
                                     settings.block_rule, gate->tensor.empty() ? "gate weight" : gate->tensor.c_str());
    return input;
}

std::unique_ptr<RouterDevice> make_device(RouterPlanInput input, const nvfp4r_router_options& options) {
    if (options.device == NVFP4R_DEVICE_CPU) return make_cpu_device(std::move(input), options);
    if (options.device != NVFP4R_DEVICE_AUTO) return make_gpu_device(std::move(input), options);
    try {
        return make_gpu_device(input, options);
    } catch (const Error& e) {
        // AUTO means "a GPU that a kernel fits, else the CPU"; any other failure of a GPU that is there is told.
        if (e.status() != NVFP4R_NO_DEVICE && e.status() != NVFP4R_UNSUPPORTED) throw;
    }
    return make_cpu_device(std::move(input), options);
}

}  // namespace

nvfp4r_status nvfp4r_router_create(const nvfp4r_gate* gate, const nvfp4r_settings* settings,
                                   const nvfp4r_router_options* options, nvfp4r_router** router) {
    return guarded("nvfp4r_router_create", [&] {
        if (!gate) fail(NVFP4R_INVALID_ARGUMENT, "gate: NULL");
        if (!router) fail(NVFP4R_INVALID_ARGUMENT, "router: NULL");
        const nvfp4r_router_options default_options = NVFP4R_ROUTER_OPTIONS_INIT;
        const auto s = read_struct<nvfp4r_settings>(settings, NVFP4R_SETTINGS_INIT, "settings");
        const auto o = options ? read_struct(options, default_options, "options") : default_options;
        validate_settings(s, *gate->gate);
        validate_options(o);
        auto handle = std::make_unique<nvfp4r_router>();
        RouterPlanInput input = plan_input(gate->gate, s);
        handle->gate = gate->gate;
        handle->settings = input.settings;
        handle->device = make_device(std::move(input), o);
        handle->description = handle->device->description();
        *router = handle.release();
    });
}

nvfp4r_status nvfp4r_router_prepare(nvfp4r_router* router, int64_t max_tokens) {
    return guarded("nvfp4r_router_prepare", [&] {
        if (!router) fail(NVFP4R_INVALID_ARGUMENT, "router: NULL");
        if (max_tokens < 0 || max_tokens > NVFP4R_MAX_TOKENS)
            fail(NVFP4R_INVALID_ARGUMENT, "max_tokens {}: must be 0 to {}", max_tokens, NVFP4R_MAX_TOKENS);
        router->device->prepare(max_tokens);
    });
}

void nvfp4r_router_destroy(nvfp4r_router* router) {
    delete router;
}

const char* nvfp4r_router_description(const nvfp4r_router* router) {
    return router ? router->description.c_str() : "";
}

nvfp4r_status nvfp4r_route(nvfp4r_router* router, const nvfp4r_call* call) {
    return guarded("nvfp4r_route", [&] {
        if (!router) fail(NVFP4R_INVALID_ARGUMENT, "router: NULL");
        auto complete = read_struct<nvfp4r_call>(call, NVFP4R_CALL_INIT, "call");
        if (complete.tokens < 0 || complete.tokens > NVFP4R_MAX_TOKENS)
            fail(NVFP4R_INVALID_ARGUMENT, "call.tokens {}: must be 0 to {}", complete.tokens, NVFP4R_MAX_TOKENS);
        if (complete.tokens == 0) return;
        complete_call(complete, router->settings, *router->gate);
        router->device->route(complete);
    });
}
