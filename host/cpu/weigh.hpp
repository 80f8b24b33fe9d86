// Weights of the chosen experts.
#pragma once

#include <cstdint>
#include <span>

#include "nvfp4router.h"

namespace nvfp4r {

/// weights[i] for chosen[i], which is an expert or -1 (weight 0, no part in any sum). Computed in double from the fp32
/// logits and acts, in rank order, and rounded once: act / (sum + eps), * routed_scaling, * factor[expert] (`factor`
/// may be empty). A NaN act counts as 0. A sum of 0 gives weights 0; with an infinite sum the infinite acts share 1
/// equally.
void weigh_row(const nvfp4r_settings& settings, std::span<const int32_t> chosen, std::span<const float> logits,
               std::span<const float> acts, std::span<const float> factor, std::span<float> weights);

}  // namespace nvfp4r
