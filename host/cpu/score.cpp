#include "cpu/score.hpp"

#include <cmath>
#include <limits>

namespace nvfp4r {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

double sigmoid(double x) {
    // exp of a positive number could overflow, so each side uses the form that decays.
    if (x >= 0.0) return 1.0 / (1.0 + std::exp(-x));
    const double e = std::exp(x);
    return e / (1.0 + e);
}

double softplus(double x) {
    return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
}

}  // namespace

float correct_logit(float logit, float soft_cap, float linear_bias) {
    if (soft_cap != 0.0f) {
        const double cap = soft_cap;
        logit = static_cast<float>(cap * std::tanh(static_cast<double>(logit) / cap));
    }
    return logit + linear_bias;
}

float score_of(nvfp4r_score score, float logit) {
    if (std::isnan(logit)) return logit;
    const double x = logit;
    if (score == NVFP4R_SCORE_SQRTSOFTPLUS) return static_cast<float>(std::sqrt(softplus(x)));
    if (score == NVFP4R_SCORE_SIGMOID) return static_cast<float>(sigmoid(x));
    return logit;
}

void score_row(nvfp4r_score score, std::span<const float> logits, std::span<float> acts) {
    if (score != NVFP4R_SCORE_SOFTMAX) {
        for (size_t e = 0; e < logits.size(); ++e) acts[e] = score_of(score, logits[e]);
        return;
    }
    float largest = -kInfinity;
    for (const float logit : logits)
        if (logit > largest) largest = logit;
    // exp(logit - largest), or which logits are +Inf when the largest is.
    const auto share = [&](float logit) {
        if (largest == kInfinity) return logit == kInfinity ? 1.0 : 0.0;
        if (!(logit > -kInfinity)) return 0.0;  // NaN too
        return std::exp(static_cast<double>(logit) - static_cast<double>(largest));
    };
    double sum = 0.0;
    for (const float logit : logits) sum += share(logit);
    for (size_t e = 0; e < logits.size(); ++e) {
        if (std::isnan(logits[e]))
            acts[e] = logits[e];
        else
            acts[e] = sum > 0.0 ? static_cast<float>(share(logits[e]) / sum) : 0.0f;
    }
}

}  // namespace nvfp4r
