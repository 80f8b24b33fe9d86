// Scores, biases, groups and weights. Values come from the cases' texts and from the formulas, worked out by hand.
#include <cmath>

#include "contract/contract_case.hpp"

namespace contract {
namespace {

Case a37() {
    Case c = dial(NVFP4R_SCORE_SIGMOID, 2, {0, 0, 0, -2});
    c.bias = {0, 0, 0, 1};
    c.settings.use_bias = 1;
    c.ids = {3, 0};
    c.weights = {0.11920292f, 0.5f};
    return c;
}

Case a37_renormalised() {
    Case c = a37();
    c.settings.renormalise = 1;
    c.weights = {0.19251027f, 0.80748973f};
    return c;
}

Case a37_bias_not_used() {
    Case c = a37();
    c.settings.use_bias = 0;
    c.ids = {0, 1};
    c.weights = {0.5f, 0.5f};
    return c;
}

Case a38() {
    Case c = dial(NVFP4R_SCORE_SIGMOID, 2, {-18, -18, -18, -18, -17, -17, -17, -17});
    c.bias = same(8, 12.0f);
    c.settings.use_bias = 1;
    c.settings.renormalise = 1;
    c.ids = {0, 1};  // all eight biased scores are 12 in fp32
    c.weights = {0.5f, 0.5f};
    return c;
}

// The nearest multiples of 2^-10 to 2.1972 and 0.4055.
Case a40(nvfp4r_group_score rule) {
    const double high = 2250.0 / 1024, low = 415.0 / 1024;
    Case c = dial(NVFP4R_SCORE_SIGMOID, 2, {high, -high, -high, -high, low, low, -high, -high});
    c.settings.groups = 2;
    c.settings.groups_kept = 1;
    c.settings.group_score = rule;
    return c;
}

Case a40_top2() {
    Case c = a40(NVFP4R_GROUP_TOP2_SUM);
    c.ids = {4, 5};
    c.weights = {0.599954f, 0.599954f};
    return c;
}

Case a40_max() {
    Case c = a40(NVFP4R_GROUP_MAX);
    c.ids = {0, 1};
    c.weights = {0.900001f, 0.099999f};
    c.tolerance = 1e-5;
    return c;
}

Case equal_groups() {
    Case c = dial(NVFP4R_SCORE_SIGMOID, 3, {0, 0, 0, 0, 0, 0, 0, 0});
    c.settings.groups = 4;
    c.settings.groups_kept = 2;
    c.ids = {0, 1, 2};
    return c;
}

Case groups_with_nan() {
    // Group 0 has one number and a NaN, which counts as -Inf in its sum; group 1 has two small numbers.
    Case c = dial(NVFP4R_SCORE_SIGMOID, 2, {4, NAN, -4, -4, 1, 1});
    c.settings.groups = 3;
    c.settings.groups_kept = 2;
    c.ids = {4, 5};
    return c;
}

Case a43_large() {
    Case c = dial(NVFP4R_SCORE_SOFTMAX, 2, {200, 199, 0, 0, 0, 0, 0, 0});
    c.ids = {0, 1};
    c.weights = {0.73105858f, 0.26894142f};
    return c;
}

Case a43_small() {
    Case c = dial(NVFP4R_SCORE_SOFTMAX, 2, {-200, -201, -448, -448, -448, -448, -448, -448});
    c.ids = {0, 1};
    c.weights = {0.73105858f, 0.26894142f};
    return c;
}

template <uint32_t Tokens>
Case a44() {
    Case c = dial(NVFP4R_SCORE_SIGMOID, 2, {-104, 90, -104, -104});
    const std::vector<uint8_t> codes = c.x_codes, scales = c.x_scales;
    c.tokens = Tokens;
    for (uint32_t t = 1; t < Tokens; ++t) {
        c.x_codes.insert(c.x_codes.end(), codes.begin(), codes.end());
        c.x_scales.insert(c.x_scales.end(), scales.begin(), scales.end());
    }
    c.ids = {1, 0};
    c.weights = {1.0f, 0.0f};
    return c;
}

Case a46() {
    Case c = dial(NVFP4R_SCORE_SIGMOID, 2, {0, 1, 2, 3});
    c.settings.renormalise = 1;
    c.settings.routed_scaling = 2.5f;
    c.ids = {3, 2};
    c.weights = {2.5f * 0.51957515f, 2.5f * 0.48042485f};  // 0.952574 and 0.880797 over their sum
    return c;
}

Case a47() {
    Case c = dial(NVFP4R_SCORE_SIGMOID, 1, {0, 1, 2, 3});
    c.settings.renormalise = 1;
    c.settings.routed_scaling = 2.5f;
    c.ids = {3};
    c.weights = {2.5f};
    c.tolerance = 0.0;
    return c;
}

Case a49_default() {
    Case c = dial(NVFP4R_SCORE_SIGMOID, 2, {0, 1, 2, 3});
    c.settings = NVFP4R_SETTINGS_INIT;
    c.settings.hidden = 64;
    c.status = NVFP4R_INVALID_ARGUMENT;
    c.refusal = {"settings.score 0", "sqrtsoftplus (1)"};
    return c;
}

Case a49_unknown() {
    Case c = dial(NVFP4R_SCORE_SIGMOID, 2, {0, 1, 2, 3});
    c.settings.score = static_cast<nvfp4r_score>(7);
    c.status = NVFP4R_INVALID_ARGUMENT;
    c.refusal = {"settings.score 7"};
    return c;
}

Case a49_v41_shape() {
    Case c = columns(NVFP4R_SCORE_SQRTSOFTPLUS, 6, 384, 128, 8, 49);
    c.settings.renormalise = 1;
    c.settings.routed_scaling = 1.5f;
    std::vector<std::vector<double>> logits(8, std::vector<double>(384));
    for (size_t i = 0; i < c.logits.size(); ++i) logits[i / 384][i % 384] = static_cast<double>(c.logits[i]);
    for (uint32_t e = 0; e < 384; ++e) c.bias.push_back(8.0f + static_cast<float>(e % 7) / 64);
    c.settings.use_bias = 1;
    expect(c, logits);
    return c;
}

Case a50() {
    Case c = dial(NVFP4R_SCORE_SIGMOID, 1, {8, 0, 0, 0, 0, 8.03125, 0, 0});
    c.ids = {5};
    return c;
}

Case a52(bool renormalise) {
    Case c = dial(NVFP4R_SCORE_SOFTMAX, 8, std::vector<double>(256, 0.0));
    c.x_codes.assign(c.x_codes.size(), 0);
    c.settings.renormalise = renormalise;
    c.ids = first_ids(8);
    c.weights = same(8, renormalise ? 1.0f / 8 : 1.0f / 256);
    return c;
}

Case sqrtsoftplus_ends() {
    // sqrt(log1p(exp(-17))) = 2.0347e-4, where log(1 + exp(x)) has lost everything; sqrt(90) at the other end.
    Case c = dial(NVFP4R_SCORE_SQRTSOFTPLUS, 4, {-17, 90, 0, -104});
    c.ids = {1, 2, 0, 3};
    c.weights = {9.4868330f, 0.83255461f, 2.0346836e-4f, 2.6102790e-23f};  // the last is exp(-52)
    c.tolerance = 2e-7;
    return c;
}

}  // namespace

std::vector<Entry> score_cases() {
    return {
        {"A37 the bias selects and does not weigh", a37},
        {"A37 the bias selects and does not weigh, renormalised", a37_renormalised},
        {"A37 a bias that the settings do not use", a37_bias_not_used},
        {"A38 the weight is the saved score", a38},
        {"A40 group score of the two best", a40_top2},
        {"A40 group score of the best", a40_max},
        {"A40 equal groups: the lower ids", equal_groups},
        {"A40 NaN in a group's sum counts as -Inf", groups_with_nan},
        {"A43 softmax of large logits", a43_large},
        {"A43 softmax of small logits", a43_small},
        {"A44 sigmoid of -104 and 90, one token", a44<1>},
        {"A44 sigmoid of -104 and 90, two tokens", a44<2>},
        {"A46 scaling after renormalising, once", a46},
        {"A47 k = 1 with scaling is exact", a47},
        {"A49 default settings are refused", a49_default},
        {"A49 an unknown score is refused", a49_unknown},
        {"A49 the shape of DeepSeek-V4.1", a49_v41_shape},
        {"A50 scores are not rounded to bf16", a50},
        {"A52 all equal: ids 0 to 7", [] { return a52(false); }},
        {"A52 all equal: ids 0 to 7, renormalised", [] { return a52(true); }},
        {"sqrtsoftplus at both ends", sqrtsoftplus_ends},
    };
}

}  // namespace contract
