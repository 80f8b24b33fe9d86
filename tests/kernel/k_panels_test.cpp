// One panel of K (a 128-byte swizzled row of operands) against several, in memory and in a stage: what lies in the others
// is zero, so the logits are the same bits. A stride that is right only for one panel gives others.
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "api/open_router.hpp"
#include "sim/driver/sim_driver.hpp"

using namespace nvfp4r;
using namespace nvfp4r::test;
using Catch::Matchers::Contains;

namespace {

constexpr uint32_t kExperts = 24, kTopK = 4, kTokens = 5;
constexpr uint32_t kPanel = 256;     // 128 bytes of e2m1: a stage of the Blackwell kernel
constexpr uint32_t kValues = 64;     // those that are not zero; a K step of the Hopper kernels holds as many or more
constexpr float kUntouched = 12345;  // no logit has it

void play(uint32_t sm) {
    sim::driver::restart_driver({sim::GpuConfig::for_sm(sm)});
}

/// Row r of `rows` has the same kValues values for every `hidden`, at the front or behind `zeros` zeros.
std::vector<float> padded_rows(uint32_t rows, uint32_t hidden, uint32_t zeros, uint32_t seed) {
    std::mt19937 rng(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(size_t{rows} * hidden);
    for (uint32_t row = 0; row < rows; ++row)
        for (uint32_t k = 0; k < kValues; ++k) values[size_t{row} * hidden + zeros + k] = normal(rng);
    return values;
}

/// Null when it cannot be made.
Router panel_router(uint32_t hidden, uint32_t zeros, nvfp4r_precision precision, uint32_t k_tile = 0) {
    const std::vector<float> weight = padded_rows(kExperts, hidden, zeros, 1);
    nvfp4r_settings settings = NVFP4R_SETTINGS_INIT;
    settings.experts = kExperts;
    settings.hidden = hidden;
    settings.top_k = kTopK;
    settings.score = NVFP4R_SCORE_SIGMOID;
    settings.precision = precision;
    nvfp4r_router_options options = NVFP4R_ROUTER_OPTIONS_INIT;
    options.device = NVFP4R_DEVICE_SIM;
    options.k_tile = k_tile;
    return try_router(f32_gate(settings, weight), settings, options);
}

std::vector<float> logits_of(uint32_t hidden, uint32_t zeros, nvfp4r_precision precision, uint32_t k_tile = 0) {
    const Router router = panel_router(hidden, zeros, precision, k_tile);
    INFO(nvfp4r_last_error());
    REQUIRE(router);
    const std::vector<float> x = padded_rows(kTokens, hidden, zeros, 2);
    std::vector<float> weights(kTokens * kTopK), logits(kTokens * kExperts, kUntouched);
    std::vector<int32_t> ids(weights.size());
    nvfp4r_call call = NVFP4R_CALL_INIT;
    call.tokens = kTokens;
    call.hidden = x.data();
    call.hidden_type = NVFP4R_F32;
    call.weights = weights.data();
    call.ids = ids.data();
    call.logits = logits.data();
    const nvfp4r_status routed = nvfp4r_route(router.get(), &call);
    INFO(nvfp4r_last_error() << "\n" << sim::driver::last_report());
    REQUIRE(routed == NVFP4R_OK);
    return logits;
}

void require_same_logits_on(uint32_t sm, const std::vector<nvfp4r_precision>& precisions) {
    play(sm);
    for (const nvfp4r_precision precision : precisions) {
        const std::vector<float> one = logits_of(kPanel, 0, precision);
        REQUIRE(std::count(one.begin(), one.end(), kUntouched) == 0);
        for (const uint32_t panels : {2u, 4u})
            for (uint32_t panel = 0; panel < panels; ++panel) {
                INFO("sm " << sm << ", precision " << precision << ", panel " << panel << " of " << panels);
                CHECK(logits_of(panels * kPanel, panel * kPanel, precision) == one);
            }
    }
}

}  // namespace

TEST_CASE("C14 values give the same logits in every panel of K", "[kernel][sim]") {
    require_same_logits_on(90, {NVFP4R_PRECISION_NVFP4, NVFP4R_PRECISION_NVFP4_W, NVFP4R_PRECISION_BF16});
    require_same_logits_on(100, {NVFP4R_PRECISION_NVFP4, NVFP4R_PRECISION_BF16});
}

TEST_CASE("C14 a K tile of one, two and four swizzled rows gives the same logits", "[kernel][sim]") {
    play(100);
    for (const uint32_t panel : {0u, 1u, 3u}) {
        const std::vector<float> one = logits_of(4 * kPanel, panel * kPanel, NVFP4R_PRECISION_NVFP4, kPanel);
        for (const uint32_t rows : {2u, 4u}) {
            INFO("values in panel " << panel << ", tile of " << rows << " rows");
            CHECK(logits_of(4 * kPanel, panel * kPanel, NVFP4R_PRECISION_NVFP4, rows * kPanel) == one);
        }
    }
    for (const uint32_t wrong : {kPanel / 2, 8 * kPanel}) {
        CHECK(!panel_router(8 * kPanel, 0, NVFP4R_PRECISION_NVFP4, wrong));
        CHECK_THAT(nvfp4r_last_error(), Contains("k_tile " + std::to_string(wrong)));
    }
}

TEST_CASE("C22 no tokens make no tensor map and no launch", "[kernel][sim]") {
    for (const uint32_t sm : {90u, 100u}) {
        play(sm);
        const Router router = panel_router(kPanel, 0, NVFP4R_PRECISION_NVFP4);
        REQUIRE(router);
        nvfp4r_call call = NVFP4R_CALL_INIT;
        call.tokens = 0;
        call.hidden_type = NVFP4R_BF16;
        INFO("sm " << sm << ": " << nvfp4r_last_error());
        CHECK(nvfp4r_route(router.get(), &call) == NVFP4R_OK);
        CHECK(sim::driver::last_report() == "");
    }
}
