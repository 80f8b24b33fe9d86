// The logits of `route --check`: plain double-precision sums straight from the dequantised gate and the contract's
// sections 2 and 4, sharing nothing with the devices but the number formats.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "format/gate.hpp"
#include "nvfp4router.h"

namespace nvfp4r::cli {

inline constexpr double kF32Step = 0x1p-24;  // relative error of one rounding to f32

/// How far a right device may be from the exact sum.
struct Tolerance {
    double sum;    // of a logit, relative to the sum of |x w|: what accumulating in fp32 may lose
    double score;  // of a score, relative: the device's exp and log
};

/// `exact_sums`: the device adds in double and rounds once (the CPU's exact arithmetic).
Tolerance tolerance_of(uint32_t hidden, bool exact_sums);

struct Logits {
    std::vector<double> value;   // [E]
    std::vector<double> margin;  // [E] how far the device's may lie from it
};

class LogitCheck {
  public:
    /// `settings.precision` must not be UNSET. The gate must live as long as this.
    LogitCheck(const Gate& gate, const nvfp4r_settings& settings, Tolerance tolerance);
    /// The logits of row `row` of the call, after soft cap and linear bias.
    Logits row(const nvfp4r_call& call, int64_t row) const;

  private:
    /// One row of tokens as the multiply sees it: for each weight term the sum of the token terms that meet it.
    struct Operand {
        std::vector<std::vector<float>> by_term;
        double scale = 1.0;
    };
    Operand operand(const nvfp4r_call& call, int64_t row) const;
    Operand quantised(std::span<const float> x) const;

    const Gate& gate_;
    nvfp4r_settings settings_;
    Tolerance tolerance_;
    std::vector<std::vector<float>> weights_;  // [term][E * K], without the global scale
    double weight_scale_ = 1.0;
    uint32_t token_terms_ = 0;  // 0: tokens enter unquantised
};

}  // namespace nvfp4r::cli
