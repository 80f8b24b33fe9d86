#include "cpu/hardware_multiply.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace nvfp4r {
namespace {

constexpr uint32_t kFdaK = 16;  // k values of a 16-bit step

using arith::kStepK;

/// Calls visit(first step, end step) for every stage of [first, end).
template <class Visit>
void for_each_stage(HardwareOrder order, uint32_t first, uint32_t end, const Visit& visit) {
    const uint32_t length = order.steps_per_stage ? order.steps_per_stage : end - first;
    for (uint32_t s = first; s < end; s += length) visit(s, std::min(s + length, end));
}

uint32_t slice_length(HardwareOrder order, uint32_t steps) {
    return order.steps_per_slice ? order.steps_per_slice : steps;
}

}  // namespace

TermProducts term_products(uint32_t weight_terms, uint32_t token_terms, uint32_t terms) {
    TermProducts products;
    for (uint32_t order = 0; order < terms; ++order)
        for (uint32_t x = 0; x <= order; ++x)
            if (order - x < weight_terms && x < token_terms) products.emplace_back(order - x, x);
    return products;
}

Mxf4Operand::Mxf4Operand(uint32_t terms, uint32_t rows, uint32_t hidden)
    : terms_(terms),
      rows_(rows),
      hidden_(hidden),
      steps_((hidden + kStepK - 1) / kStepK),
      rows_of_step_(uint64_t{terms} * steps_ * rows) {}

void Mxf4Operand::set_row(uint32_t term, uint32_t row, const uint8_t* codes, const uint8_t* scales) {
    for (uint32_t s = 0; s < steps_; ++s) {
        std::array<uint8_t, kStepK / 2> step_codes{};
        std::array<uint8_t, arith::kStepBlocks> step_scales{};
        const uint32_t count = std::min<uint32_t>(kStepK, hidden_ - s * kStepK);
        std::copy_n(codes + s * kStepK / 2, count / 2, step_codes.begin());
        std::copy_n(scales + s * arith::kStepBlocks, count / kBlock, step_scales.begin());
        rows_of_step_[(uint64_t{term} * steps_ + s) * rows_ + row] =
            arith::mxf4_decode(step_codes.data(), step_scales.data());
    }
}

void multiply_mxf4(const Mxf4Operand& x, uint32_t rows, const Mxf4Operand& w, const TermProducts& products,
                   HardwareOrder order, std::span<uint32_t> accumulator, std::span<float> out) {
    const uint32_t experts = w.rows();
    const uint32_t length = slice_length(order, w.steps());
    const std::span<uint32_t> sums = accumulator.first(uint64_t{rows} * experts);
    for (uint32_t first = 0; first < w.steps(); first += length) {
        std::fill(sums.begin(), sums.end(), 0u);
        for_each_stage(order, first, std::min(first + length, w.steps()), [&](uint32_t from, uint32_t to) {
            for (const auto& [w_term, x_term] : products)
                for (uint32_t s = from; s < to; ++s)
                    arith::mxf4nvf4_tile(x.step(x_term, s, rows), w.step(w_term, s, experts), sums.data(), experts);
        });
        for (uint64_t i = 0; i < sums.size(); ++i) {
            const float slice = std::bit_cast<float>(sums[i]);
            out[i] = first == 0 ? slice : out[i] + slice;
        }
    }
}

void multiply_fda(std::span<const arith::FdaValue> x, uint32_t rows, std::span<const std::vector<arith::FdaValue>> w,
                  uint32_t experts, uint32_t hidden, HardwareOrder order, std::span<float> out) {
    const uint32_t steps = hidden / kFdaK;
    const uint32_t length = slice_length(order, steps);
    for (uint32_t row = 0; row < rows; ++row) {
        for (uint32_t e = 0; e < experts; ++e) {
            float& logit = out[uint64_t{row} * experts + e];
            for (uint32_t first = 0; first < steps; first += length) {
                uint32_t sum = 0;
                for (const std::vector<arith::FdaValue>& term : w)
                    for (uint32_t s = first; s < std::min(first + length, steps); ++s)
                        sum = arith::fda_step(x.subspan(uint64_t{row} * hidden + s * kFdaK, kFdaK),
                                              {term.data() + uint64_t{e} * hidden + s * kFdaK, kFdaK}, sum,
                                              arith::kFda16Bit);
                logit = first == 0 ? std::bit_cast<float>(sum) : logit + std::bit_cast<float>(sum);
            }
        }
    }
}

std::vector<float> logits_hardware(std::span<const Nvfp4Matrix> x, std::span<const Nvfp4Matrix> w,
                                   HardwareOrder order) {
    const auto decode = [](std::span<const Nvfp4Matrix> terms) {
        Mxf4Operand operand(static_cast<uint32_t>(terms.size()), terms[0].rows, terms[0].cols);
        for (uint32_t t = 0; t < terms.size(); ++t)
            for (uint32_t r = 0; r < terms[t].rows; ++r)
                operand.set_row(t, r, terms[t].codes.data() + uint64_t{r} * terms[t].cols / 2,
                                terms[t].scales.data() + uint64_t{r} * terms[t].cols / kBlock);
        return operand;
    };
    const Mxf4Operand x_rows = decode(x);
    const Mxf4Operand w_rows = decode(w);
    std::vector<float> out(uint64_t{x_rows.rows()} * w_rows.rows());
    std::vector<uint32_t> accumulator(out.size());
    const TermProducts products = term_products(w_rows.terms(), x_rows.terms(), w_rows.terms());
    multiply_mxf4(x_rows, x_rows.rows(), w_rows, products, order, accumulator, out);
    return out;
}

}  // namespace nvfp4r
