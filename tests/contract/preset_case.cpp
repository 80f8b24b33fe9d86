// Every preset with its real shape on random NVFP4 bytes, against a plain computation in double.
#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "contract/contract_case.hpp"
#include "format/number.hpp"
#include "format/presets.hpp"

namespace contract {
namespace {

constexpr uint32_t kTokens = 2;

// Only the experts of the best groups by the sum of the two best rank values stay; written with sorting, for E / G > 1.
void drop_groups(const Case& c, std::vector<double>& logits, const std::vector<float>& acts) {
    const nvfp4r_settings& s = c.settings;
    if (s.groups <= 1) return;
    const uint32_t width = s.experts / s.groups;
    std::vector<std::pair<float, int>> groups;
    for (uint32_t g = 0; g < s.groups; ++g) {
        std::vector<float> rank;
        for (uint32_t e = g * width; e < (g + 1) * width; ++e)
            rank.push_back(acts[e] + (c.bias.empty() ? 0 : c.bias[e]));
        std::ranges::sort(rank, std::greater<>());
        groups.emplace_back(-(rank[0] + rank[1]), static_cast<int>(g));
    }
    std::ranges::sort(groups);
    for (uint32_t i = s.groups_kept; i < s.groups; ++i)
        for (uint32_t e = 0; e < width; ++e) logits[static_cast<uint32_t>(groups[i].second) * width + e] = -1e30;
}

}  // namespace

Case preset_case(uint32_t index) {
    const nvfp4r::Preset& preset = nvfp4r::presets()[index];
    nvfp4r_settings settings = preset.settings;
    Case c = columns(settings.score, settings.top_k, settings.experts, settings.hidden, kTokens, index);
    settings.precision = NVFP4R_PRECISION_NVFP4;
    c.settings = settings;
    std::mt19937 rng(index);
    for (uint8_t& byte : c.w_codes) byte = static_cast<uint8_t>(rng());
    for (uint8_t& byte : c.x_codes) byte = static_cast<uint8_t>(rng());
    for (uint8_t& byte : c.w_scales) byte = static_cast<uint8_t>(0x28 + rng() % 16);
    for (uint8_t& byte : c.x_scales) byte = static_cast<uint8_t>(0x30 + rng() % 16);
    c.gw = std::ldexp(1.0f, -6);  // brings the logits to a few units
    for (uint32_t e = 0; settings.use_bias && e < settings.experts; ++e)
        c.bias.push_back(preset.bias_centre + static_cast<float>(rng() % 1024) / 16384);
    std::vector<std::vector<double>> logits(kTokens, std::vector<double>(settings.experts, 0.0));
    const auto value = [&](const std::vector<uint8_t>& codes, const std::vector<uint8_t>& scales, size_t i) {
        const int code = (codes[i / 2] >> (i % 2 * 4)) & 15;
        return static_cast<double>(nvfp4r::e2m1_to_f32(static_cast<uint8_t>(code))) *
               static_cast<double>(nvfp4r::e4m3_to_f32(scales[i / 16]));
    };
    std::vector<double> x(size_t{kTokens} * settings.hidden);
    for (size_t i = 0; i < x.size(); ++i) x[i] = value(c.x_codes, c.x_scales, i);
    for (uint32_t e = 0; e < settings.experts; ++e) {
        for (uint32_t k = 0; k < settings.hidden; ++k) {
            const double w = value(c.w_codes, c.w_scales, size_t{e} * settings.hidden + k);
            for (uint32_t t = 0; t < kTokens; ++t) logits[t][e] += w * x[size_t{t} * settings.hidden + k];
        }
    }
    for (auto& row : logits)
        for (double& logit : row) logit = static_cast<double>(static_cast<float>(logit / 64));
    const Case shape = c;
    expect(c, logits);
    if (settings.groups > 1) {
        const std::vector<float> true_logits = c.logits;
        for (uint32_t t = 0; t < kTokens; ++t) {
            std::vector<float> acts;
            for (const double logit : logits[t]) acts.push_back(static_cast<float>(1.0 / (1.0 + std::exp(-logit))));
            drop_groups(shape, logits[t], acts);
        }
        expect(c, logits);  // a dropped expert has the score 0 there, and a bias near 8 must not bring it back
        c.logits = true_logits;
    }
    if (settings.weighting == NVFP4R_WEIGHT_SOFTMAX_AFTER || settings.weighting == NVFP4R_WEIGHT_SIGMOID_AFTER) {
        for (uint32_t t = 0; t < kTokens; ++t) {
            double sum = 0;
            float* weights = c.weights.data() + size_t{t} * settings.top_k;
            const int32_t* ids = c.ids.data() + size_t{t} * settings.top_k;
            for (uint32_t i = 0; i < settings.top_k; ++i) sum += std::exp(logits[t][ids[i]] - logits[t][ids[0]]);
            for (uint32_t i = 0; i < settings.top_k; ++i)
                weights[i] = settings.weighting == NVFP4R_WEIGHT_SIGMOID_AFTER
                                 ? static_cast<float>(1.0 / (1.0 + std::exp(-logits[t][ids[i]])))
                                 : static_cast<float>(std::exp(logits[t][ids[i]] - logits[t][ids[0]]) / sum);
        }
    }
    return c;
}

}  // namespace contract
