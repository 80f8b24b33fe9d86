// Score functions and logit corrections. The rule of the contract: a function of fp32 values is computed in double and
// rounded once to fp32, so a kernel with approximate functions is compared with a margin of a few units in the last
// place.
#pragma once

#include <span>

#include "nvfp4router.h"

namespace nvfp4r {

/// c * tanh(logit / c) where c is not 0, then + linear bias (an fp32 addition).
float correct_logit(float logit, float soft_cap, float linear_bias);

/// acts[e] = score(logits[e]). A NaN logit has a NaN act. Softmax subtracts the largest logit and counts NaN as -Inf;
/// with +Inf among the logits those share the whole sum equally; when every logit is -Inf or NaN, the acts of numbers
/// are 0.
void score_row(nvfp4r_score score, std::span<const float> logits, std::span<float> acts);

/// One expert's score, for every function but softmax.
float score_of(nvfp4r_score score, float logit);

}  // namespace nvfp4r
