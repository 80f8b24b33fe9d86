// The multiply as tensor cores round it: what a Blackwell (or, for unquantised tokens, a Hopper) kernel with the same
// order of steps gives bit for bit.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "arith/fda.hpp"
#include "arith/mxf4nvf4.hpp"
#include "format/nvfp4.hpp"

namespace nvfp4r {

/// How K is cut. Steps of 64 (or 16) run in ascending k. `steps_per_slice` steps make a slice with its own accumulator that
/// starts at 0; the slices' results are added in slice order in fp32, rounded to nearest. 0: one slice. A slice runs stage
/// by stage of `steps_per_stage` steps (0: one stage); within a stage the products of terms follow one another as in
/// term_products, each over all steps of the stage.
struct HardwareOrder {
    uint32_t steps_per_slice = 0;
    uint32_t steps_per_stage = 0;
};

/// (weight term, token term).
using TermProducts = std::vector<std::pair<uint32_t, uint32_t>>;

/// Every product of at most `terms` terms together, in the order of accumulation: W1X1; W2X1, W1X2; W3X1, W2X2, W1X3.
TermProducts term_products(uint32_t weight_terms, uint32_t token_terms, uint32_t terms);

/// Rows of NVFP4 terms decoded for block-scaled steps; K is padded to 64 with zeros.
class Mxf4Operand {
  public:
    Mxf4Operand(uint32_t terms, uint32_t rows, uint32_t hidden);
    /// codes [K/2] and linear scales [K/16] of one row.
    void set_row(uint32_t term, uint32_t row, const uint8_t* codes, const uint8_t* scales);

    uint32_t terms() const { return terms_; }
    uint32_t rows() const { return rows_; }
    uint32_t steps() const { return steps_; }
    std::span<const arith::Mxf4Row> step(uint32_t term, uint32_t index, uint32_t count) const {
        return {rows_of_step_.data() + (uint64_t{term} * steps_ + index) * rows_, count};
    }

  private:
    uint32_t terms_, rows_, hidden_, steps_;
    std::vector<arith::Mxf4Row> rows_of_step_;  // [term, step, row]
};

/// out[row * E + e]: fp32 accumulators before the global scales, for the first `rows` rows of x. `accumulator` is
/// scratch of at least rows * E.
void multiply_mxf4(const Mxf4Operand& x, uint32_t rows, const Mxf4Operand& w, const TermProducts& products,
                   HardwareOrder order, std::span<uint32_t> accumulator, std::span<float> out);

/// The same for bf16 tokens and one or more bf16 weight terms [E, K] in fused dot-add steps of K = 16.
void multiply_fda(std::span<const arith::FdaValue> x, uint32_t rows, std::span<const std::vector<arith::FdaValue>> w,
                  uint32_t experts, uint32_t hidden, HardwareOrder order, std::span<float> out);

/// Accumulators [M, E] of whole matrices, for comparing kernels with.
std::vector<float> logits_hardware(std::span<const Nvfp4Matrix> x, std::span<const Nvfp4Matrix> w, HardwareOrder order);

}  // namespace nvfp4r
