#include "cpu/weigh.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "cpu/score.hpp"

namespace nvfp4r {
namespace {

using Slots = std::array<float, NVFP4R_MAX_TOP_K>;

// What each slot's weight is made from; 0 for NaN and for slots without an expert.
void base_weights(const nvfp4r_settings& settings, std::span<const int32_t> chosen, std::span<const float> logits,
                  std::span<const float> acts, std::span<float> base) {
    Slots chosen_logits{};
    for (size_t i = 0; i < chosen.size(); ++i) {
        const int32_t e = chosen[i];
        chosen_logits[i] = e < 0 ? std::nanf("") : logits[e];
        base[i] = e < 0 ? 0.0f : acts[e];
    }
    const std::span<const float> used(chosen_logits.data(), chosen.size());
    if (settings.weighting == NVFP4R_WEIGHT_SOFTMAX_AFTER) score_row(NVFP4R_SCORE_SOFTMAX, used, base);
    if (settings.weighting == NVFP4R_WEIGHT_SIGMOID_AFTER) score_row(NVFP4R_SCORE_SIGMOID, used, base);
    for (float& value : base)
        if (std::isnan(value)) value = 0.0f;
}

}  // namespace

void weigh_row(const nvfp4r_settings& settings, std::span<const int32_t> chosen, std::span<const float> logits,
               std::span<const float> acts, std::span<const float> factor, std::span<float> weights) {
    Slots slots{};
    const std::span<float> base(slots.data(), chosen.size());
    base_weights(settings, chosen, logits, acts, base);
    double sum = 0.0;
    for (const float value : base) sum += static_cast<double>(value);
    const auto infinite = std::count_if(base.begin(), base.end(), [](float v) { return std::isinf(v); });
    const double divisor = sum + static_cast<double>(settings.renormalise_eps);
    for (size_t i = 0; i < chosen.size(); ++i) {
        double weight = static_cast<double>(base[i]);
        if (settings.renormalise && infinite > 0)
            weight = std::isinf(weight) ? 1.0 / static_cast<double>(infinite) : 0.0;
        else if (settings.renormalise)
            weight = sum == 0.0 || divisor == 0.0 ? 0.0 : weight / divisor;
        weight *= static_cast<double>(settings.routed_scaling);
        if (!factor.empty() && chosen[i] >= 0) weight *= static_cast<double>(factor[chosen[i]]);
        weights[i] = std::isnan(weight) ? 0.0f : static_cast<float>(weight);
    }
}

}  // namespace nvfp4r
