#include "cli/check_logits.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.hpp"
#include "format/number.hpp"

namespace nvfp4r::cli {
namespace {

constexpr uint8_t kMagnitude = 0x7f;  // block scales are unsigned to the multiply: it ignores the sign bit
constexpr double kF64Step = 0x1p-53;
constexpr double kMmaDepth = 16;  // the shortest K step of a tensor-core multiply (f16): one rounding each

struct Terms {
    uint32_t weight, token;
};

Terms terms_of(nvfp4r_precision precision) {
    switch (precision) {
        case NVFP4R_PRECISION_NVFP4: return {1, 1};
        case NVFP4R_PRECISION_NVFP4X2: return {2, 2};
        case NVFP4R_PRECISION_NVFP4X3: return {3, 3};
        case NVFP4R_PRECISION_NVFP4_W: return {1, 0};
        case NVFP4R_PRECISION_NVFP4X2_W: return {2, 0};
        case NVFP4R_PRECISION_RESCORE:  // gives exactly the bf16 gate's experts and weights
        case NVFP4R_PRECISION_BF16: return {0, 0};
        case NVFP4R_PRECISION_UNSET: break;
    }
    fail(NVFP4R_INTERNAL, "check: precision {} is not resolved", static_cast<int>(precision));
}

std::vector<float> expand(const Nvfp4Matrix& m) {
    std::vector<float> values(size_t{m.rows} * m.cols);
    for (size_t r = 0; r < m.rows; ++r)
        dequantise_row(&m.codes[r * m.cols / 2], &m.scales[r * m.cols / kBlock],
                       std::span(values).subspan(r * m.cols, m.cols));
    return values;
}

template <class T>
T element(const void* base, int64_t index) {
    T value;
    std::memcpy(&value, static_cast<const char*>(base) + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
}

std::vector<float> unquantised_row(const nvfp4r_call& call, int64_t row, uint32_t hidden) {
    const int64_t stride = call.hidden_stride ? call.hidden_stride : hidden;
    std::vector<float> x(hidden);
    for (uint32_t k = 0; k < hidden; ++k) {
        const int64_t i = row * stride + k;
        switch (call.hidden_type) {
            case NVFP4R_BF16: x[k] = bf16_to_f32(element<uint16_t>(call.hidden, i)); break;
            case NVFP4R_F16: x[k] = f16_to_f32(element<uint16_t>(call.hidden, i)); break;
            default: x[k] = element<float>(call.hidden, i); break;
        }
    }
    return x;
}

/// The values of a row that came as NVFP4, without its global scale.
std::vector<float> packed_row(const nvfp4r_call& call, int64_t row, uint32_t hidden) {
    const int64_t stride = call.hidden_stride ? call.hidden_stride : hidden;
    const uint32_t scale_cols = hidden / kBlock;
    std::vector<uint8_t> scales(scale_cols);
    for (uint32_t c = 0; c < scale_cols; ++c)
        scales[c] =
            kMagnitude &
            call.hidden_scales[scale_offset(static_cast<uint64_t>(row), c, scale_cols, call.hidden_scale_layout)];
    std::vector<float> x(hidden);
    dequantise_row(static_cast<const uint8_t*>(call.hidden) + row * stride / 2, scales.data(), x);
    return x;
}

/// A NaN or infinite value makes its block NaN, whatever the scale; it does not decide the others'.
float amax_of(std::span<const float> x) {
    float amax = 0.0f;
    for (const float v : x)
        if (std::isfinite(v)) amax = std::max(amax, std::fabs(v));
    return amax;
}

}  // namespace

Tolerance tolerance_of(uint32_t hidden, bool exact_sums) {
    if (exact_sums) return {hidden * kF64Step, 8 * kF32Step};
    return {(hidden / kMmaDepth + kMmaDepth) * kF32Step, 64 * kF32Step};
}

LogitCheck::LogitCheck(const Gate& gate, const nvfp4r_settings& settings, Tolerance tolerance)
    : gate_(gate), settings_(settings), tolerance_(tolerance) {
    const Terms terms = terms_of(settings.precision);
    token_terms_ = terms.token;
    if (terms.weight == 0) {
        // A bf16 gate whatever the file holds: f32 and f16 weights are rounded.
        std::vector<float> weight = gate.weight;
        for (float& w : weight) w = bf16_to_f32(f32_to_bf16(w));
        weights_.push_back(std::move(weight));
        return;
    }
    const std::vector<Nvfp4Matrix> made =
        gate.terms.empty() ? quantise_terms(gate.weight.data(), gate.experts, gate.hidden, gate.hidden, terms.weight,
                                            settings.block_rule, gate.tensor.c_str())
                           : gate.terms;
    for (size_t t = 0; t < terms.weight; ++t) weights_.push_back(expand(made.at(t)));
    weight_scale_ = made.front().global_scale;
}

LogitCheck::Operand LogitCheck::quantised(std::span<const float> x) const {
    float scale = settings_.activation_scale > 0 ? settings_.activation_scale : gate_.input_scale;
    if (scale <= 0) scale = global_scale_of(amax_of(x));
    std::vector<std::vector<float>> term(token_terms_, std::vector<float>(x.size()));
    std::vector<float> left(x.begin(), x.end());
    std::vector<uint8_t> codes(x.size() / 2), scales(x.size() / kBlock);
    for (std::vector<float>& values : term) {
        quantise_row(left, scale, NVFP4R_BLOCK_AMAX, codes.data(), scales.data());
        dequantise_row(codes.data(), scales.data(), values);
        residual_row(left, codes.data(), scales.data(), scale, left);
    }
    // Products of terms i and j (from 0) are taken while i + j is below the number of terms. The sums of terms are
    // exact in f32: they are multiples of 2^-10 below 2^13.
    Operand operand{{}, scale};
    for (size_t i = 0; i < weights_.size(); ++i) {
        std::vector<float> sum(x.size());
        for (size_t j = 0; i + j < token_terms_; ++j)
            for (size_t k = 0; k < x.size(); ++k) sum[k] += term[j][k];
        operand.by_term.push_back(std::move(sum));
    }
    return operand;
}

LogitCheck::Operand LogitCheck::operand(const nvfp4r_call& call, int64_t row) const {
    if (call.hidden_type == NVFP4R_E2M1) {
        const double scale = call.hidden_global_scales ? call.hidden_global_scales[row] : call.hidden_global_scale;
        return {std::vector(weights_.size(), packed_row(call, row, gate_.hidden)), scale};
    }
    const std::vector<float> x = unquantised_row(call, row, gate_.hidden);
    if (token_terms_ == 0) return {std::vector(weights_.size(), x), 1.0};
    return quantised(x);
}

Logits LogitCheck::row(const nvfp4r_call& call, int64_t row) const {
    const Operand x = operand(call, row);
    const double alpha = x.scale * weight_scale_;
    Logits logits{std::vector<double>(gate_.experts), std::vector<double>(gate_.experts)};
    for (size_t e = 0; e < gate_.experts; ++e) {
        double sum = 0, size = 0;
        for (size_t t = 0; t < weights_.size(); ++t) {
            const float* w = &weights_[t][e * gate_.hidden];
            const float* v = x.by_term[t].data();
            for (size_t k = 0; k < gate_.hidden; ++k) {
                const double product = static_cast<double>(w[k]) * static_cast<double>(v[k]);
                sum += product;
                size += std::fabs(product);
            }
        }
        double logit = alpha * sum;
        double margin = alpha * size * tolerance_.sum + 4 * kF32Step * std::fabs(logit);
        if (settings_.logit_soft_cap > 0) {
            const double cap = settings_.logit_soft_cap;
            logit = cap * std::tanh(logit / cap);
            margin += tolerance_.score * std::fabs(logit);
        }
        if (!gate_.linear_bias.empty()) {
            logit += static_cast<double>(gate_.linear_bias[e]);
            margin += kF32Step * std::fabs(logit);
        }
        logits.value[e] = logit;
        logits.margin[e] = margin;
    }
    return logits;
}

}  // namespace nvfp4r::cli
