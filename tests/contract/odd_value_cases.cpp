// NaN, infinities and rows that give nothing to choose from.
#include <cmath>
#include <limits>

#include "contract/contract_case.hpp"

namespace contract {
namespace {

const float kNan = std::numeric_limits<float>::quiet_NaN();
const float kInf = std::numeric_limits<float>::infinity();

std::vector<double> ramp(uint32_t experts) {  // distinct logits, best last
    std::vector<double> logits(experts);
    for (uint32_t e = 0; e < experts; ++e) logits[e] = e * 0.0625 - 1.0;
    return logits;
}

Case nan_row(uint32_t experts, uint32_t top_k, nvfp4r_score score) {
    Case c = dial(score, top_k, std::vector<double>(experts, 1.0));
    make_token_nan(c, 0);
    c.ids = first_ids(top_k);
    c.weights = same(top_k, 0.0f);
    return c;
}

Case a04() {
    Case c = dial(NVFP4R_SCORE_SOFTMAX, 2, {1, 2, NAN, 4, 0, 0, 0, 0});
    c.settings.renormalise = 1;
    c.ids = {3, 1};
    c.weights = {0.88079708f, 0.11920292f};
    c.logits = {1, 2, kNan, 4, 0, 0, 0, 0};
    return c;
}

Case a05() {
    Case c = dial(NVFP4R_SCORE_SIGMOID, 8, ramp(40));
    c.bias = same(40, 0.0f);
    c.bias[7] = kInf;
    c.bias[3] = kNan;
    c.settings.use_bias = 1;
    c.ids = {7, 39, 38, 37, 36, 35, 34, 33};
    c.weights = {0.3629692f};  // sigmoid(7/16 - 1)
    for (int e = 39; e > 32; --e) c.weights.push_back(1.0f / (1.0f + std::exp(1.0f - static_cast<float>(e) / 16)));
    return c;
}

Case a08() {
    Case c = dial(NVFP4R_SCORE_SIGMOID, 4, ramp(32));
    c.bias = same(32, 0.0f);
    c.bias[3] = c.bias[9] = kInf;
    c.settings.use_bias = 1;
    c.ids = {3, 9, 31, 30};
    return c;
}

Case a10() {
    std::vector<double> logits = ramp(33);
    logits[32] = NAN;
    logits[5] = 3.0;
    Case c = dial(NVFP4R_SCORE_SIGMOID, 8, logits);
    c.ids = {5, 31, 30, 29, 28, 27, 26, 25};
    return c;
}

Case nan_only_when_numbers_run_out() {
    Case c = dial(NVFP4R_SCORE_SIGMOID, 4, {NAN, 0, NAN, 2, NAN});
    c.settings.renormalise = 1;
    c.ids = {3, 1, 0, 2};
    c.weights = {0.63789031f, 0.36210969f, 0, 0};  // 0.880797, 0.5 over their sum
    return c;
}

Case a11() {
    Case c = dial(NVFP4R_SCORE_SIGMOID, 2, {0, 1, 2, 3, 4, 5, 6, 7});
    c.bias = same(8, -5.0f);
    c.settings.use_bias = 1;
    c.ids = {7, 6};
    c.weights = {0.99908895f, 0.99752738f};
    return c;
}

Case a13_infinite_scale() {
    Case c = dial(NVFP4R_SCORE_SOFTMAX, 2, {0, 1, 2, 3, 4, 5, 6, 7});
    c.gx = kInf;
    c.status = NVFP4R_INVALID_ARGUMENT;
    c.refusal = {"hidden_global_scale", "inf", "finite and positive"};
    return c;
}

template <int Which>
Case a13_bad_gate_scale() {
    const float bad[] = {kNan, 0.0f, -1.0f};
    Case c = dial(NVFP4R_SCORE_SOFTMAX, 2, {0, 1, 2, 3});
    c.gw = bad[Which];
    c.status = NVFP4R_INVALID_ARGUMENT;
    c.refusal = {"global_scale", "finite and positive"};
    return c;
}

Case a13_infinite_logit() {
    Case c = dial(NVFP4R_SCORE_SOFTMAX, 2, {0, 1, 0, 448, 0, 0, 0, 0});
    c.gx = 1e38f;
    c.ids = {3, 0};
    c.weights = {1.0f, 0.0f};
    c.logits = {0, 1e38f, 0, kInf, 0, 0, 0, 0};
    return c;
}

Case a41() {
    Case c = dial(NVFP4R_SCORE_SIGMOID, 2, std::vector<double>(8, -104.0));
    c.settings.renormalise = 1;
    c.ids = {0, 1};
    c.weights = {0, 0};
    return c;
}

Case a41_without_eps() {
    Case c = a41();
    c.settings.renormalise_eps = 0.0f;
    return c;
}

Case a53() {
    Case c = dial(NVFP4R_SCORE_SIGMOID, 4, std::vector<double>(8, -104.0));
    for (int e = 0; e < 8; ++e) c.bias.push_back(e % 2 ? 0.0f : -0.0f);
    c.settings.use_bias = 1;
    c.ids = {0, 1, 2, 3};
    c.weights = {0, 0, 0, 0};
    return c;
}

}  // namespace

std::vector<Entry> odd_value_cases() {
    return {
        {"A01 a row of NaN: ids 0 and 1, weights 0", [] { return nan_row(8, 2, NVFP4R_SCORE_SOFTMAX); }},
        {"A02 a row of NaN among 256 experts", [] { return nan_row(256, 8, NVFP4R_SCORE_SOFTMAX); }},
        {"A04 one NaN expert leaves the softmax of the others", a04},
        {"A05 bias of +Inf first, bias of NaN never", a05},
        {"A07 a row of NaN at the largest E", [] { return nan_row(2048, 16, NVFP4R_SCORE_SQRTSOFTPLUS); }},
        {"A08 two biases of +Inf in the order of their ids", a08},
        {"A10 one NaN expert does not disturb the order", a10},
        {"A10 NaN experts only when numbers run out, in the order of their ids", nan_only_when_numbers_run_out},
        {"A11 biased scores below -1 still win", a11},
        {"A13 an infinite global scale is refused", a13_infinite_scale},
        {"A13 a NaN gate scale is refused", a13_bad_gate_scale<0>},
        {"A13 a gate scale of 0 is refused", a13_bad_gate_scale<1>},
        {"A13 a negative gate scale is refused", a13_bad_gate_scale<2>},
        {"A13 an overflowing logit takes the whole softmax", a13_infinite_logit},
        {"A41 scores that underflow give weights 0", a41},
        {"A41 scores that underflow give weights 0 without eps too", a41_without_eps},
        {"A53 -0 and +0 are a tie", a53},
    };
}

}  // namespace contract
