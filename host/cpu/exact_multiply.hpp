// The oracle's multiply: products and sums in double, k ascending.
#pragma once

#include <cstdint>
#include <vector>

namespace nvfp4r {

/// A [E, K] f32 matrix laid out in panels of experts for multiply_exact.
class ExactMatrix {
  public:
    ExactMatrix(const std::vector<float>& values, uint32_t experts, uint32_t hidden);

    uint32_t experts() const { return experts_; }
    uint32_t hidden() const { return hidden_; }
    uint32_t padded_experts() const { return panels_ * kPanel; }
    const float* panel(uint32_t index, uint32_t k) const {
        return values_.data() + (uint64_t{index} * hidden_ + k) * kPanel;
    }
    uint32_t panels() const { return panels_; }

    static constexpr uint32_t kPanel = 8;  // experts side by side: two vectors of four doubles

  private:
    uint32_t experts_, hidden_, panels_;
    std::vector<float> values_;  // [panel, K, 8], zero past E
};

/// Row width of sums: E in whole panels.
inline uint32_t padded_experts(uint32_t experts) {
    return (experts + ExactMatrix::kPanel - 1) / ExactMatrix::kPanel * ExactMatrix::kPanel;
}

/// Buffers of one worker.
struct ExactScratch {
    explicit ExactScratch(uint32_t max_rows);
    std::vector<double> x, w;
};

/// sums[row * padded_experts + e] += sum over k of x[row * K + k] * w[e, k], in double, k ascending, for `rows` rows.
/// A product of two f32 values is exact in double, and NVFP4 values are whole multiples of 2^-10, so for NVFP4 terms
/// every partial sum is exact too as long as it stays below 2^33; for bf16 and f32 the sum is off by at most K * 2^-53
/// of the sum of magnitudes. The bits depend neither on the number of rows nor on the processor.
void multiply_exact(const float* x, uint32_t rows, const ExactMatrix& w, ExactScratch& scratch, double* sums);

}  // namespace nvfp4r
