// The tokens of one block of rows, read from the caller's memory and brought into the forms that the multiplies take.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nvfp4router.h"

namespace nvfp4r {

/// Rows of one block. A token's value is x * x_global[row]; its quantised form is the sum over the terms of
/// e2m1 * e4m3 * term_global[row].
struct TokenBlock {
    TokenBlock(uint32_t max_rows, uint32_t hidden, uint32_t max_terms);

    float* x_row(uint32_t row) { return x.data() + uint64_t{row} * hidden; }
    std::span<uint8_t> codes_row(uint32_t term, uint32_t row);
    std::span<uint8_t> scales_row(uint32_t term, uint32_t row);
    std::span<float> term_row(uint32_t term, uint32_t row);

    uint32_t max_rows, hidden;
    std::vector<float> x;            // [rows, K]
    std::vector<float> x_global;     // [rows]
    std::vector<float> term_global;  // [rows]
    std::vector<uint8_t> codes;      // [terms, rows, K/2]
    std::vector<uint8_t> scales;     // [terms, rows, K/16], linear
    std::vector<float> term_values;  // [terms, rows, K], e2m1 * e4m3
    std::vector<float> left;         // [K], what the terms so far left of a row
};

/// Reads row `source` of the call's tokens into `row` of the block: x, and x_global (1 unless the tokens are NVFP4).
void read_token(const nvfp4r_call& call, int64_t source, TokenBlock& block, uint32_t row);

/// Fills the first `terms` quantised terms of a row that read_token has read. NVFP4 tokens are their own only term and
/// are taken as they are. Others are quantised with `activation_scale`, or with amax / 2688 of the row where it is 0.
void quantise_token(const nvfp4r_call& call, uint32_t terms, float activation_scale, TokenBlock& block, uint32_t row);

/// Terms that quantise_token fills: 1 for NVFP4 tokens.
uint32_t token_terms(const nvfp4r_call& call, uint32_t wanted);

}  // namespace nvfp4r
