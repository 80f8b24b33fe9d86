#include "cpu/rescore.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "cpu/gate_forms.hpp"
#include "cpu/score.hpp"

namespace nvfp4r {
namespace {

constexpr double kF32Rounding = 0x1p-23;
// Logits pass four fp32 roundings: global scale, product with it, soft cap, linear bias.
constexpr double kLogitRoundings = 4;
constexpr double kProducts = 3;  // W1X1, W2X1, W1X2

double norm(std::span<const float> values, double scale) {
    double sum = 0.0;
    for (const float v : values) sum += static_cast<double>(v) * static_cast<double>(v);
    return std::sqrt(sum) * scale;
}

}  // namespace

Rescorer::Rescorer(const RouterPlanInput& input)
    : gate_(input.gate),
      settings_(input.settings),
      norm_left_(gate_->experts),
      norm_sum_(gate_->experts),
      norm_second_(gate_->experts),
      // Every 64-wide step of every product may cut one unit in the last place of its partial sum.
      rounding_(kProducts * (gate_->hidden / arith::kStepK + 1) * kF32Rounding) {
    const double global = input.terms[0].global_scale;
    const std::vector<float> weight = bf16_weight(*gate_);
    const std::vector<float> sum = sum_of_terms(input.terms, 2);
    const std::vector<float> second = sum_of_terms({input.terms[1]}, 1);
    const uint32_t hidden = gate_->hidden;
    for (uint32_t e = 0; e < gate_->experts; ++e) {
        const uint64_t first = uint64_t{e} * hidden;
        norm_sum_[e] = norm({sum.data() + first, hidden}, global);
        norm_second_[e] = norm({second.data() + first, hidden}, global);
        double left = 0.0;
        for (uint64_t i = first; i < first + hidden; ++i) {
            const double r = static_cast<double>(weight[i]) - static_cast<double>(sum[i]) * global;
            left += r * r;
        }
        norm_left_[e] = std::sqrt(left);
    }
}

Rescorer::TokenNorms Rescorer::norms_of(TokenBlock& block, uint32_t row, uint32_t terms) {
    const std::span<const float> x(block.x_row(row), block.hidden);
    const double x_global = block.x_global[row];
    const double term_global = block.term_global[row];
    double left = 0.0;
    for (uint32_t k = 0; k < block.hidden; ++k) {
        double sum = 0.0;
        for (uint32_t t = 0; t < terms; ++t) sum += static_cast<double>(block.term_row(t, row)[k]);
        const double q = static_cast<double>(x[k]) * x_global - sum * term_global;
        left += q * q;
    }
    return {norm(x, x_global), terms > 1 ? norm(block.term_row(1, row), term_global) : 0.0, std::sqrt(left)};
}

double Rescorer::bound(uint32_t expert, const TokenNorms& token, float logit) const {
    const double terms =
        norm_left_[expert] * token.whole + norm_sum_[expert] * token.left + norm_second_[expert] * token.second;
    const double accumulation =
        rounding_ * (norm_sum_[expert] + norm_left_[expert]) * (token.whole + token.left + token.second);
    const double linear = gate_->linear_bias.empty() ? 0.0 : std::fabs(static_cast<double>(gate_->linear_bias[expert]));
    return terms + accumulation + kLogitRoundings * kF32Rounding * (std::fabs(static_cast<double>(logit)) + linear);
}

void Rescorer::rescore_row(TokenBlock& block, uint32_t row, uint32_t terms, std::span<const float> bias,
                           std::span<const int32_t> fixed, std::span<const float> full, std::span<float> logits,
                           std::span<float> scratch) const {
    const auto experts = static_cast<uint32_t>(logits.size());
    if (settings_.score == NVFP4R_SCORE_SOFTMAX || settings_.groups > 1) {
        std::ranges::copy(full, logits.begin());
        return;
    }
    if (!fixed.empty()) {
        for (const int32_t e : fixed)
            if (e >= 0) logits[e] = full[e];
        return;
    }
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const TokenNorms token = norms_of(block, row, terms);
    // Score functions and fp32 roundings never reverse an order, so the ends of a logit's range give those of its rank.
    // What cannot be bounded is in doubt.
    const auto rank_at = [&](uint32_t e, double side) {
        const double b = bound(e, token, logits[e]);
        const double end = static_cast<double>(logits[e]) + side * b;
        const auto rounded = std::nextafter(static_cast<float>(end), side < 0 ? -kInfinity : kInfinity);
        const float rank = score_of(settings_.score, rounded) + (bias.empty() ? 0.0f : bias[e]);
        return std::isfinite(end) && std::isfinite(rank) ? rank : static_cast<float>(side) * kInfinity;
    };
    for (uint32_t e = 0; e < experts; ++e) scratch[e] = rank_at(e, -1.0);
    std::nth_element(scratch.begin(), scratch.begin() + (settings_.top_k - 1), scratch.end(), std::greater<float>());
    const float surely_reached = scratch[settings_.top_k - 1];
    for (uint32_t e = 0; e < experts; ++e)
        if (rank_at(e, 1.0) >= surely_reached) logits[e] = full[e];
}

}  // namespace nvfp4r
