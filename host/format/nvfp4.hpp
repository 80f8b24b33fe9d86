// NVFP4: 16 consecutive values along K share an e4m3 scale; value = e2m1 * block scale * global scale.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nvfp4router.h"

namespace nvfp4r {

inline constexpr uint32_t kBlock = 16;  // values per block scale

/// rows x cols NVFP4 values. codes: [rows, cols/2], even column in the low nibble. scales: linear [rows, cols/16] e4m3.
struct Nvfp4Matrix {
    uint32_t rows = 0;
    uint32_t cols = 0;
    std::vector<uint8_t> codes;
    std::vector<uint8_t> scales;
    float global_scale = 1.0f;  // multiplier; finite and positive
};

/// The contract's global scale of a tensor: amax / (6 * 448); 1 for an all-zero tensor. At least 2^-126, so that it is
/// never zero and no device has to divide by a subnormal.
float global_scale_of(float amax);

/// Quantises one row of cols values with the given global scale: codes [cols/2], scales [cols/16]. The divisions
/// amax / 6 / global and x / (scale * global) are correctly rounded f32 divisions, codes and scales are rounded to
/// nearest even and saturate. A block whose scale rounds to 0 has codes 0. A NaN value, or an infinite one,
/// makes its block NaN through the scale byte 0x7f (never a silent 6).
void quantise_row(std::span<const float> x, float global_scale, nvfp4r_block_rule rule, uint8_t* codes,
                  uint8_t* scales);

/// values[cols] of one row: e2m1 * e4m3, without the global scale. NaN scales give NaN.
void dequantise_row(const uint8_t* codes, const uint8_t* scales, std::span<float> values);

/// left[i] = x[i] - value[i] * global_scale, where value is what dequantise_row gives: the product is exact, the
/// difference is rounded once (as fma(-value, global_scale, x) would). x and left may be the same memory.
void residual_row(std::span<const float> x, const uint8_t* codes, const uint8_t* scales, float global_scale,
                  std::span<float> left);

/// W = W1 + W2 (+ W3): each term the NVFP4 rounding of what the terms before it left, all with the global scale of W.
/// w is [rows, cols] with the given row stride. Refuses NaN and infinite values by name (`what`, row, column).
std::vector<Nvfp4Matrix> quantise_terms(const float* w, uint32_t rows, uint32_t cols, int64_t stride, uint32_t terms,
                                        nvfp4r_block_rule rule, const char* what);

/// Bytes of a scale tensor in a layout (128x4 pads rows to 128 and columns to 4), and the offset of one scale in it.
uint64_t scale_bytes(uint64_t rows, uint64_t scale_cols, nvfp4r_scale_layout layout);
uint64_t scale_offset(uint64_t row, uint64_t col, uint64_t scale_cols, nvfp4r_scale_layout layout);
/// Linear scales to another layout (padding bytes 0) and back. Refuses NVFP4R_SCALES_8X4 by name.
std::vector<uint8_t> scales_to_layout(std::span<const uint8_t> linear, uint64_t rows, uint64_t scale_cols,
                                      nvfp4r_scale_layout layout);
std::vector<uint8_t> scales_from_layout(std::span<const uint8_t> bytes, uint64_t rows, uint64_t scale_cols,
                                        nvfp4r_scale_layout layout);

}  // namespace nvfp4r
