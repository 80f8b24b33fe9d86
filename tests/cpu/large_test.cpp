// Offsets past 2^31 elements.
#include <catch2/catch.hpp>
#include <vector>

#include "api/open_router.hpp"

using namespace nvfp4r::test;

TEST_CASE("A26 the last of more than 2^31 elements is the right one", "[cpu][.long]") {
    constexpr uint32_t kHidden = 192, kExperts = 8;
    constexpr int64_t kTokens = (int64_t{1} << 31) / kHidden + 2;
    static_assert(kTokens * kHidden > (int64_t{1} << 31) && kTokens <= NVFP4R_MAX_TOKENS,
                  "past 32 bits, within the limit");
    std::vector<float> weight(kExperts * kHidden);
    weight[5 * kHidden] = 1.0f;
    std::vector<uint8_t> codes(static_cast<size_t>(kTokens) * kHidden / 2);
    const std::vector<uint8_t> scales(static_cast<size_t>(kTokens) * kHidden / 16, 0x38);
    codes[static_cast<size_t>(kTokens - 1) * kHidden / 2] = 2;  // 1.0 in the last token only

    nvfp4r_settings settings = NVFP4R_SETTINGS_INIT;
    settings.experts = kExperts;
    settings.hidden = kHidden;
    settings.top_k = 1;
    settings.score = NVFP4R_SCORE_SIGMOID;
    nvfp4r_router_options options = NVFP4R_ROUTER_OPTIONS_INIT;
    options.device = NVFP4R_DEVICE_CPU;
    const Router router = open_router(f32_gate(settings, weight), settings, options);

    std::vector<float> weights(static_cast<size_t>(kTokens));
    std::vector<int32_t> ids(weights.size(), -7);
    nvfp4r_call call = NVFP4R_CALL_INIT;
    call.tokens = kTokens;
    call.hidden = codes.data();
    call.hidden_type = NVFP4R_E2M1;
    call.hidden_scales = scales.data();
    call.hidden_global_scale = 1.0f;
    call.weights = weights.data();
    call.ids = ids.data();
    CHECK(nvfp4r_route(router.get(), &call) == NVFP4R_OK);
    CHECK(ids.back() == 5);
    CHECK(ids[ids.size() - 2] == 0);
    CHECK(weights.back() == Approx(0.7310586));
    size_t wrong = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) wrong += ids[i] != 0 || weights[i] != 0.5f;
    CHECK(wrong == 0);
}
