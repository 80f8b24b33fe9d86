// Rescoring gives exactly the experts and weights of the bf16 gate.
#include <catch2/catch.hpp>
#include <memory>
#include <random>
#include <vector>

#include "api/open_router.hpp"
#include "format/number.hpp"

using namespace nvfp4r::test;

namespace {

constexpr uint32_t kRescoreExperts = 96, kRescoreHidden = 1024, kRescoreTopK = 6;
constexpr int64_t kTokens = 48;

struct Routed {
    std::vector<int32_t> ids = std::vector<int32_t>(kTokens * kRescoreTopK);
    std::vector<float> weights = std::vector<float>(kTokens * kRescoreTopK);
};

struct Gate {
    std::vector<uint16_t> weight, hidden;
    std::vector<float> bias, linear_bias;
};

// Outlier channels and near-equal experts, where a two-term filter alone goes wrong.
Gate make_gate() {
    Gate g;
    std::mt19937 rng(80);
    std::normal_distribution<float> normal;
    for (uint32_t i = 0; i < kRescoreExperts * kRescoreHidden; ++i)
        g.weight.push_back(nvfp4r::f32_to_bf16(normal(rng) * 0.03f));
    for (uint32_t i = 0; i < kTokens * kRescoreHidden; ++i)
        g.hidden.push_back(nvfp4r::f32_to_bf16(normal(rng) * (i % 97 == 0 ? 20.0f : 1.0f)));
    for (uint32_t e = 0; e < kRescoreExperts; ++e) {
        g.bias.push_back(8.0f + normal(rng) * 0.01f);
        g.linear_bias.push_back(normal(rng) * 0.1f);
    }
    return g;
}

Routed route_rescore(const Gate& g, nvfp4r_settings settings, nvfp4r_precision precision,
                     nvfp4r_cpu_arithmetic arithmetic) {
    nvfp4r_gate_desc desc = NVFP4R_GATE_DESC_INIT;
    desc.experts = kRescoreExperts;
    desc.hidden = kRescoreHidden;
    desc.weight = g.weight.data();
    desc.weight_type = NVFP4R_BF16;
    desc.bias = g.bias.data();
    desc.linear_bias = g.linear_bias.data();
    settings.experts = kRescoreExperts;
    settings.hidden = kRescoreHidden;
    settings.top_k = kRescoreTopK;
    settings.precision = precision;
    nvfp4r_router_options options = NVFP4R_ROUTER_OPTIONS_INIT;
    options.device = NVFP4R_DEVICE_CPU;
    options.cpu_arithmetic = arithmetic;
    const Router router = open_router(desc, settings, options);
    Routed routed;
    nvfp4r_call call = NVFP4R_CALL_INIT;
    call.tokens = kTokens;
    call.hidden = g.hidden.data();
    call.hidden_type = NVFP4R_BF16;
    call.weights = routed.weights.data();
    call.ids = routed.ids.data();
    CHECK(nvfp4r_route(router.get(), &call) == NVFP4R_OK);
    return routed;
}

}  // namespace

TEST_CASE("rescore gives the experts and weights of the bf16 gate", "[cpu]") {
    const Gate gate = make_gate();
    for (const nvfp4r_score score : {NVFP4R_SCORE_SIGMOID, NVFP4R_SCORE_SQRTSOFTPLUS, NVFP4R_SCORE_SOFTMAX}) {
        for (const uint32_t groups : {0u, 8u}) {
            nvfp4r_settings settings = NVFP4R_SETTINGS_INIT;
            settings.score = score;
            settings.groups = groups;
            settings.groups_kept = groups / 2;
            settings.renormalise = 1;
            settings.use_bias = score != NVFP4R_SCORE_SOFTMAX;
            settings.logit_soft_cap = 30.0f;
            const Routed bf16 = route_rescore(gate, settings, NVFP4R_PRECISION_BF16, NVFP4R_CPU_EXACT);
            const Routed two = route_rescore(gate, settings, NVFP4R_PRECISION_NVFP4X2, NVFP4R_CPU_EXACT);
            CHECK(two.ids != bf16.ids);  // the filter alone does not get there
            for (const nvfp4r_cpu_arithmetic arithmetic : {NVFP4R_CPU_EXACT, NVFP4R_CPU_HARDWARE}) {
                const Routed rescored = route_rescore(gate, settings, NVFP4R_PRECISION_RESCORE, arithmetic);
                CHECK(rescored.ids == bf16.ids);
                CHECK(rescored.weights == bf16.weights);
            }
        }
    }
}
