// Scales, codes and precisions of NVFP4.
#include <cmath>

#include "contract/contract_case.hpp"
#include "format/number.hpp"

namespace contract {
namespace {

Case b01() {
    Case c = dial(NVFP4R_SCORE_IDENTITY, 1, {0, 1, 0, 0});
    c.gx = 4.0f;
    c.ids = {1};
    c.weights = {4.0f};
    c.logits = {0, 4, 0, 0};
    return c;
}

Case b01_divides() {
    Case c = b01();
    c.gx = 1.0f;
    c.gw = 0.25f;
    c.scale_rule = NVFP4R_SCALE_DIVIDES;
    return c;
}

// bf16 tokens whose element 0 is `value`, and a gate whose expert 1 has a 1 there.
Case one_bf16(float value) {
    Case c = dial(NVFP4R_SCORE_IDENTITY, 1, {0, 1, 0, 0});
    c.x_codes.clear();
    c.x_scales.clear();
    c.hidden.assign(64, 0);
    c.hidden[0] = nvfp4r::f32_to_bf16(value);
    c.ids = {1};
    c.weights = {value};
    return c;
}

Case b04() {
    Case c = one_bf16(4096.0f);
    c.tolerance = 1e-6;  // amax / 2688 makes amax itself representable up to rounding
    return c;
}

Case b02_zero_tokens() {
    Case c = one_bf16(0.0f);
    c.ids = {0};
    c.logits = {0, 0, 0, 0};
    return c;
}

Case b14() {
    Case c = one_bf16(std::nanf(""));
    c.ids = {0};
    c.weights = {0};
    c.logits = same(4, std::nanf(""));
    return c;
}

Case b07() {
    Case c = dial(NVFP4R_SCORE_SOFTMAX, 2, {16, 0});
    c.gx = 0.5f;
    c.gw = 0.5f;
    c.ids = {0, 1};
    c.weights = {0.98201379f, 0.01798621f};
    return c;
}

Case b11_token() {
    Case c = columns(NVFP4R_SCORE_SIGMOID, 2, 8, 64, 3, 11);
    for (size_t i = 32; i < 64; ++i) c.x_codes[i] = 0;  // token 1
    for (size_t i = 4; i < 8; ++i) c.x_scales[i] = 0;
    for (size_t e = 8; e < 16; ++e) c.logits[e] = 0.0f;
    c.ids[2] = 0, c.ids[3] = 1;
    c.weights[2] = c.weights[3] = 0.5f;
    return c;
}

Case b11_expert() {
    Case c = dial(NVFP4R_SCORE_IDENTITY, 3, {-1, 0, 2});
    for (size_t i = 4; i < 8; ++i) c.w_scales[i] = 0;
    c.ids = {2, 1, 0};
    c.weights = {2, 0, -1};
    c.logits = {-1, 0, 2};
    return c;
}

Case b13() {
    Case c = dial(NVFP4R_SCORE_IDENTITY, 1, std::vector<double>(126, 1.0), 16);
    for (uint32_t e = 0; e < 126; ++e) {
        const uint32_t byte = e + 1;
        c.w_codes[e * 8] = 2;
        c.w_scales[e] = static_cast<uint8_t>(byte);
        const uint32_t field = byte >> 3;
        c.logits.push_back(field ? std::ldexp(8.0f + static_cast<float>(byte & 7), static_cast<int>(field) - 10)
                                 : std::ldexp(static_cast<float>(byte), -9));
    }
    c.ids = {125};
    c.weights = {448.0f};
    return c;
}

Case b19() {
    Case c = columns(NVFP4R_SCORE_IDENTITY, 2, 16, 64, 1, 19);
    c.x_codes.assign(c.x_codes.size(), 0);
    c.x_scales.assign(c.x_scales.size(), 0x7e);
    c.ids = {0, 1};
    c.weights = {0, 0};
    c.logits = same(16, 0.0f);
    return c;
}

Case b20() {
    Case c = b19();
    c.x_codes.assign(c.x_codes.size(), 0x88);
    return c;
}

// An f32 gate and bf16 tokens of quarters, exact in bf16; NVFP4 precisions come near by their number of terms.
Case exact_in(nvfp4r_precision precision) {
    Case c = dial(NVFP4R_SCORE_SIGMOID, 4, std::vector<double>(12, 0.0));
    c.settings.precision = precision;
    c.x_codes.clear();
    c.x_scales.clear();
    c.hidden.resize(3 * 64);
    c.tokens = 3;
    c.weight.resize(12 * 64);
    for (size_t i = 0; i < c.weight.size(); ++i)
        c.weight[i] = i % 64 == 63 ? 6.0f * 448 / 1024 : static_cast<float>((i * 7 + i / 64) % 13) * 0.25f - 1.5f;
    for (size_t i = 0; i < c.hidden.size(); ++i)
        c.hidden[i] =
            nvfp4r::f32_to_bf16(i % 64 == 63 ? 6.0f * 448 / 1024 : static_cast<float>((i * 5) % 9) * 0.25f - 1);
    std::vector<std::vector<double>> logits(3, std::vector<double>(12, 0.0));
    for (uint32_t t = 0; t < 3; ++t)
        for (uint32_t e = 0; e < 12; ++e)
            for (uint32_t k = 0; k < 64; ++k)
                logits[t][e] += static_cast<double>(nvfp4r::bf16_to_f32(c.hidden[t * 64 + k])) *
                                static_cast<double>(c.weight[e * 64 + k]);
    expect(c, logits);
    return c;
}

Case close_in(nvfp4r_precision precision, double tolerance) {
    Case c = exact_in(precision);
    c.ids.clear();  // near neighbours may change places
    c.weights.clear();
    c.logit_tolerance = tolerance;
    return c;
}

// Experts and weights of the bf16 gate; the logits of experts that were never in doubt are the filter's.
Case rescore() {
    Case c = exact_in(NVFP4R_PRECISION_RESCORE);
    c.logit_tolerance = 0.08;
    return c;
}

Case bf16_needs_a_gate() {
    Case c = dial(NVFP4R_SCORE_SIGMOID, 1, {0, 1});
    c.settings.precision = NVFP4R_PRECISION_BF16;
    c.status = NVFP4R_INVALID_ARGUMENT;
    c.refusal = {"settings.precision 7", "unquantised gate"};
    return c;
}

Case two_terms_needed() {
    Case c = dial(NVFP4R_SCORE_SIGMOID, 1, {0, 1});
    c.settings.precision = NVFP4R_PRECISION_NVFP4X2;
    c.status = NVFP4R_INVALID_ARGUMENT;
    c.refusal = {"settings.precision 2", "2 NVFP4 terms", "has 1"};
    return c;
}

}  // namespace

std::vector<Entry> nvfp4_cases() {
    return {
        {"B01 global scales multiply", b01},
        {"B01 a stored divisor divides", b01_divides},
        {"B02 tokens of zeros", b02_zero_tokens},
        {"B04 tokens above 2688 get a global scale", b04},
        {"B07 both global scales reach the logit", b07},
        {"B11 a token of zeros among others", b11_token},
        {"B11 an expert of zeros among others", b11_expert},
        {"B13 all 126 finite block scales", b13},
        {"B14 a NaN token value makes NaN logits, not 6", b14},
        {"B19 zero codes under a large scale give +0", b19},
        {"B20 codes of -0 give +0", b20},
        {"precision bf16", [] { return exact_in(NVFP4R_PRECISION_BF16); }},
        {"precision rescore", rescore},
        {"precision nvfp4", [] { return close_in(NVFP4R_PRECISION_NVFP4, 0.5); }},
        {"precision nvfp4-w", [] { return close_in(NVFP4R_PRECISION_NVFP4_W, 0.5); }},
        {"precision nvfp4x2", [] { return close_in(NVFP4R_PRECISION_NVFP4X2, 0.08); }},
        {"precision nvfp4x2-w", [] { return close_in(NVFP4R_PRECISION_NVFP4X2_W, 0.08); }},
        {"precision nvfp4x3", [] { return close_in(NVFP4R_PRECISION_NVFP4X3, 0.01); }},
        {"precision bf16 of a packed gate is refused", bf16_needs_a_gate},
        {"precision nvfp4x2 of a one-term gate is refused", two_terms_needed},
    };
}

}  // namespace contract
