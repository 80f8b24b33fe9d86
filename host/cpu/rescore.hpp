// Which experts the two-term logits leave in doubt, and their logits again from the bf16 gate.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "api/router_device.hpp"
#include "cpu/tokens.hpp"

namespace nvfp4r {

/// The CPU's bound is proven, so the chosen experts are exactly those of the bf16 gate. With W = W1 + W2 + R and
/// X = X1 + X2 + Q, the exact logit differs from W1 X1 + W2 X1 + W1 X2 by R X + (W1 + W2) Q + W2 X2, and Cauchy-Schwarz
/// bounds each dot product by the norms. It is loose (rounding errors hardly ever line up), so most experts are in
/// doubt, and the bf16 logits of a block are all computed; a kernel may use a bound that counts on the errors'
/// independence.
class Rescorer {
  public:
    explicit Rescorer(const RouterPlanInput& input);

    /// Norms of one token: ||X||, ||X2|| and ||Q||.
    struct TokenNorms {
        double whole, second, left;
    };
    static TokenNorms norms_of(TokenBlock& block, uint32_t row, uint32_t terms);

    /// Replaces the logits of the experts in doubt by `full`, those of the bf16 gate (both after cap and linear bias). `bias`
    /// is the row's selection bias, or empty. `fixed` holds ids that are chosen whatever the logits are, or is empty. Softmax
    /// weights need every logit, and groups every group's best, so there all experts count as in doubt.
    void rescore_row(TokenBlock& block, uint32_t row, uint32_t terms, std::span<const float> bias,
                     std::span<const int32_t> fixed, std::span<const float> full, std::span<float> logits,
                     std::span<float> scratch) const;

  private:
    double bound(uint32_t expert, const TokenNorms& token, float logit) const;

    std::shared_ptr<const Gate> gate_;
    nvfp4r_settings settings_;
    std::vector<double> norm_left_, norm_sum_, norm_second_;  // [E]: ||R||, ||W1 + W2||, ||W2||
    double rounding_;                                         // share of ||W|| ||X|| that accumulation may lose
};

}  // namespace nvfp4r
