// What `route --check` must notice: a right result made wrong in one place at a time.
#include "cli/check.hpp"

#include <catch2/catch.hpp>
#include <random>

#include "cli/capi.hpp"

using namespace nvfp4r;

namespace {

constexpr uint32_t kExperts = 32, kHidden = 64, kTopK = 4;
constexpr int64_t kTokens = 6;

struct Routed {
    Gate gate;
    nvfp4r_settings settings = NVFP4R_SETTINGS_INIT;
    nvfp4r_call call = NVFP4R_CALL_INIT;
    std::vector<float> hidden, weights;
    std::vector<int32_t> ids;

    Routed() : hidden(kTokens * kHidden), weights(kTokens * kTopK), ids(kTokens * kTopK) {
        std::mt19937 random(7);
        std::normal_distribution<float> normal;
        gate.experts = settings.experts = kExperts;
        gate.hidden = settings.hidden = kHidden;
        gate.weight_type = NVFP4R_F32;
        gate.weight.resize(kExperts * kHidden);
        gate.bias.resize(kExperts);
        for (float& w : gate.weight) w = normal(random);
        for (float& b : gate.bias) b = normal(random);
        for (float& x : hidden) x = normal(random);
        settings.top_k = kTopK;
        settings.score = NVFP4R_SCORE_SIGMOID;
        settings.use_bias = 1;
        settings.renormalise = 1;
        settings.precision = NVFP4R_PRECISION_NVFP4X2;

        nvfp4r_gate_desc desc = NVFP4R_GATE_DESC_INIT;
        desc.experts = kExperts;
        desc.hidden = kHidden;
        desc.weight = gate.weight.data();
        desc.weight_type = NVFP4R_F32;
        desc.bias = gate.bias.data();
        nvfp4r_gate* made = nullptr;
        cli::must(nvfp4r_gate_create(&desc, &made));
        const cli::GateHandle owner(made, nvfp4r_gate_destroy);
        call.tokens = kTokens;
        call.hidden = hidden.data();
        call.hidden_type = NVFP4R_F32;
        call.weights = weights.data();
        call.ids = ids.data();
        nvfp4r_router_options options = NVFP4R_ROUTER_OPTIONS_INIT;
        options.device = NVFP4R_DEVICE_CPU;
        cli::must(nvfp4r_route(cli::open_router(made, settings, options).get(), &call));
        call.logical_ids = ids.data();
    }
    Routed(const Routed&) = delete;
    Routed& operator=(const Routed&) = delete;

    cli::CheckReport check() const { return cli::check_routing(gate, settings, call, true, 1); }
};

}  // namespace

TEST_CASE("a right result passes the check", "[cli]") {
    const cli::CheckReport report = Routed().check();
    INFO(report.first_wrong);
    CHECK(report.ok());
    CHECK(report.rows == kTokens);
    CHECK(report.rows_form_only == 0);
}

TEST_CASE("the check notices what is wrong, and in which row", "[cli]") {
    Routed routed;
    SECTION("two experts in the wrong order") {
        std::swap(routed.ids[2 * kTopK], routed.ids[2 * kTopK + 1]);
        std::swap(routed.weights[2 * kTopK], routed.weights[2 * kTopK + 1]);
    }
    SECTION("an expert that is not among the best") {
        int32_t other = 0;
        while (std::find(&routed.ids[2 * kTopK], &routed.ids[3 * kTopK], other) != &routed.ids[3 * kTopK]) ++other;
        routed.ids[3 * kTopK - 1] = other;
    }
    SECTION("an expert twice") {
        routed.ids[2 * kTopK + 1] = routed.ids[2 * kTopK];
    }
    SECTION("an id that is no expert") {
        routed.ids[2 * kTopK] = static_cast<int32_t>(kExperts);
    }
    SECTION("a row left unwritten") {
        routed.ids[2 * kTopK + 3] = -1;
    }
    SECTION("a weight one part in ten thousand off") {
        routed.weights[2 * kTopK + 2] *= 1.0001f;
    }
    SECTION("a weight that is NaN") {
        routed.weights[2 * kTopK] = std::numeric_limits<float>::quiet_NaN();
    }
    const cli::CheckReport report = routed.check();
    CHECK(report.rows_wrong == 1);
    CHECK(report.first_wrong.starts_with("row 2:"));
}

TEST_CASE("the check knows another bias, mask and precision from the right ones", "[cli]") {
    Routed routed;
    std::vector<uint8_t> mask(kTokens, 1);
    SECTION("bias") {
        for (float& b : routed.gate.bias) b = -b;
    }
    SECTION("padding") {
        mask[5] = 0;
        routed.call.mask = mask.data();
    }
    SECTION("one NVFP4 term instead of two") {
        routed.settings.precision = NVFP4R_PRECISION_NVFP4;
    }
    SECTION("scaling") {
        routed.settings.routed_scaling = 2.5f;
    }
    CHECK(routed.check().rows_wrong > 0);
}
