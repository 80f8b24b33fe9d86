#include "format/nvfp4.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "core/error.hpp"
#include "format/number.hpp"

namespace nvfp4r {
namespace {

using Block = std::span<const float, kBlock>;
using BlockCodes = std::array<uint8_t, kBlock>;

constexpr uint8_t kNanScale = 0x7f;
constexpr uint8_t kScaleMask = 0x7f;  // block scales are unsigned: the hardware ignores the top bit (PTX ISA, ue4m3)
constexpr uint8_t kLargestScale = 0x7e;
constexpr uint32_t kAtomRows = 128;  // rows of a 128x4 scale atom
constexpr uint32_t kAtomCols = 4;    // scale columns of an atom
constexpr uint32_t kAtomBytes = 512;
static_assert(kAtomRows * kAtomCols == kAtomBytes, "an atom holds one byte for each of its scales");

// The least-squares search looks this many e4m3 steps below and above the amax scale; amax / 4 lies 4 or 5 above
// amax / 6. On Gaussian rows a search over every scale takes the error of one term only from 8.15 % to 8.12 %.
constexpr int kSearchBelow = 3;
constexpr int kSearchAbove = 5;

float block_amax(Block x) {
    float amax = 0.0f;
    for (const float v : x) {
        // NaN must survive: max() would drop it.
        if (!(std::fabs(v) <= std::numeric_limits<float>::max())) return std::numeric_limits<float>::quiet_NaN();
        amax = std::max(amax, std::fabs(v));
    }
    return amax;
}

BlockCodes codes_for(Block x, uint8_t scale, float global_scale) {
    BlockCodes codes{};
    const float step = e4m3_to_f32(scale) * global_scale;
    if (step == 0.0f) return codes;
    for (uint32_t i = 0; i < kBlock; ++i) codes[i] = f32_to_e2m1(x[i] / step);
    return codes;
}

/// Sum of squared errors of a block under a scale, or any number above `limit` once it is clear that it is larger.
double squared_error(Block x, uint8_t scale, float global_scale, double limit) {
    const float scale_value = e4m3_to_f32(scale);
    const float step = scale_value * global_scale;
    double sum = 0.0;
    for (uint32_t i = 0; i < kBlock && sum <= limit; ++i) {
        const float value = step == 0.0f ? 0.0f : e2m1_to_f32(f32_to_e2m1(x[i] / step)) * scale_value;
        const double error = static_cast<double>(x[i]) - static_cast<double>(value) * static_cast<double>(global_scale);
        sum += error * error;
    }
    return sum;
}

/// The scale with the least error; equal errors keep the earlier candidate, and `amax_scale` is the first.
uint8_t best_scale(Block x, float global_scale, uint8_t amax_scale, std::span<const uint8_t> candidates) {
    uint8_t best = amax_scale;
    double best_error = squared_error(x, amax_scale, global_scale, std::numeric_limits<double>::infinity());
    for (const uint8_t candidate : candidates) {
        if (candidate == amax_scale) continue;
        const double error = squared_error(x, candidate, global_scale, best_error);
        if (error < best_error) {
            best = candidate;
            best_error = error;
        }
    }
    return best;
}

uint8_t block_scale(Block x, float amax, float global_scale, nvfp4r_block_rule rule) {
    const uint8_t amax_scale = f32_to_e4m3(amax / kE2m1Max / global_scale);
    if (rule == NVFP4R_BLOCK_FOUR_OVER_SIX) {
        const uint8_t four = f32_to_e4m3(amax / 4.0f / global_scale);
        return best_scale(x, global_scale, amax_scale, std::span(&four, 1));
    }
    if (rule == NVFP4R_BLOCK_LEAST_SQUARES) {
        std::array<uint8_t, kSearchBelow + kSearchAbove + 1> candidates{};
        for (int i = 0; i <= kSearchBelow + kSearchAbove; ++i) {
            candidates[i] = static_cast<uint8_t>(std::clamp(amax_scale - kSearchBelow + i, 0, int{kLargestScale}));
        }
        return best_scale(x, global_scale, amax_scale, candidates);
    }
    return amax_scale;
}

void check_layout(nvfp4r_scale_layout layout) {
    if (layout == NVFP4R_SCALES_LINEAR || layout == NVFP4R_SCALES_128X4) return;
    if (layout == NVFP4R_SCALES_8X4) {
        fail(NVFP4R_UNSUPPORTED, "scale layout 8x4: not supported; give the scales as linear or as 128x4");
    }
    fail(NVFP4R_INVALID_ARGUMENT, "scale layout {}: unknown; linear is 0 and 128x4 is 1", static_cast<int>(layout));
}

uint64_t round_up(uint64_t value, uint64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

void check_finite(const float* w, uint32_t rows, uint32_t cols, int64_t stride, const char* what) {
    for (uint32_t r = 0; r < rows; ++r) {
        const float* row = w + static_cast<int64_t>(r) * stride;
        for (uint32_t c = 0; c < cols; ++c) {
            if (std::isfinite(row[c])) continue;
            fail(NVFP4R_INVALID_ARGUMENT, "{}: {} at row {}, column {}; NVFP4 has no such value", what, row[c], r, c);
        }
    }
}

}  // namespace

float global_scale_of(float amax) {
    if (amax == 0.0f) return 1.0f;
    return std::max(amax / (kE2m1Max * kE4m3Max), std::numeric_limits<float>::min());
}

void quantise_row(std::span<const float> x, float global_scale, nvfp4r_block_rule rule, uint8_t* codes,
                  uint8_t* scales) {
    for (size_t b = 0; b < x.size() / kBlock; ++b) {
        const Block block(x.data() + b * kBlock, kBlock);
        const float amax = block_amax(block);
        BlockCodes block_codes{};
        if (std::isnan(amax)) {
            scales[b] = kNanScale;
        } else {
            scales[b] = amax == 0.0f ? uint8_t{0} : block_scale(block, amax, global_scale, rule);
            block_codes = codes_for(block, scales[b], global_scale);
        }
        for (uint32_t i = 0; i < kBlock; i += 2) {
            codes[(b * kBlock + i) / 2] = static_cast<uint8_t>(block_codes[i] | (block_codes[i + 1] << 4));
        }
    }
}

void dequantise_row(const uint8_t* codes, const uint8_t* scales, std::span<float> values) {
    for (size_t i = 0; i < values.size(); i += 2) {
        const float scale = e4m3_to_f32(scales[i / kBlock] & kScaleMask);
        values[i] = e2m1_to_f32(codes[i / 2] & 15u) * scale;
        values[i + 1] = e2m1_to_f32(codes[i / 2] >> 4) * scale;
    }
}

void residual_row(std::span<const float> x, const uint8_t* codes, const uint8_t* scales, float global_scale,
                  std::span<float> left) {
    for (size_t i = 0; i < x.size(); ++i) {
        const uint8_t code = (codes[i / 2] >> (4 * (i & 1))) & 15u;
        // At most 6 significant bits times 24: exact in double, and so is the difference before the final rounding.
        const double value = static_cast<double>(e2m1_to_f32(code) * e4m3_to_f32(scales[i / kBlock] & kScaleMask));
        left[i] = static_cast<float>(static_cast<double>(x[i]) - value * static_cast<double>(global_scale));
    }
}

std::vector<Nvfp4Matrix> quantise_terms(const float* w, uint32_t rows, uint32_t cols, int64_t stride, uint32_t terms,
                                        nvfp4r_block_rule rule, const char* what) {
    if (cols % kBlock != 0)
        fail(NVFP4R_INVALID_ARGUMENT, "{}: {} columns are not a multiple of {}", what, cols, kBlock);
    if (terms < 1 || terms > NVFP4R_MAX_TERMS) {
        fail(NVFP4R_INVALID_ARGUMENT, "{}: {} NVFP4 terms; 1 to {} are supported", what, terms, NVFP4R_MAX_TERMS);
    }
    check_finite(w, rows, cols, stride, what);
    float amax = 0.0f;
    for (uint32_t r = 0; r < rows; ++r) {
        const float* row = w + static_cast<int64_t>(r) * stride;
        for (uint32_t c = 0; c < cols; ++c) amax = std::max(amax, std::fabs(row[c]));
    }
    std::vector<Nvfp4Matrix> result(terms);
    for (Nvfp4Matrix& term : result) {
        term.rows = rows;
        term.cols = cols;
        term.codes.resize(uint64_t{rows} * cols / 2);
        term.scales.resize(uint64_t{rows} * cols / kBlock);
        term.global_scale = global_scale_of(amax);
    }
    std::vector<float> left(cols);
    for (uint32_t r = 0; r < rows; ++r) {
        const float* row = w + static_cast<int64_t>(r) * stride;
        std::copy(row, row + cols, left.begin());
        for (uint32_t t = 0; t < terms; ++t) {
            Nvfp4Matrix& term = result[t];
            uint8_t* codes = term.codes.data() + uint64_t{r} * cols / 2;
            uint8_t* scales = term.scales.data() + uint64_t{r} * cols / kBlock;
            quantise_row(left, term.global_scale, rule, codes, scales);
            if (t + 1 < terms) residual_row(left, codes, scales, term.global_scale, left);
        }
    }
    return result;
}

uint64_t scale_bytes(uint64_t rows, uint64_t scale_cols, nvfp4r_scale_layout layout) {
    check_layout(layout);
    if (layout == NVFP4R_SCALES_LINEAR) return rows * scale_cols;
    return round_up(rows, kAtomRows) * round_up(scale_cols, kAtomCols);
}

uint64_t scale_offset(uint64_t row, uint64_t col, uint64_t scale_cols, nvfp4r_scale_layout layout) {
    check_layout(layout);
    if (layout == NVFP4R_SCALES_LINEAR) return row * scale_cols + col;
    // Contract section 4: an atom's 128 rows are 4 groups of 32; a group's row is 16 bytes apart, a group 4 bytes.
    const uint64_t atom = row / kAtomRows * (round_up(scale_cols, kAtomCols) / kAtomCols) + col / kAtomCols;
    return atom * kAtomBytes + row % 32 * 16 + row % kAtomRows / 32 * kAtomCols + col % kAtomCols;
}

std::vector<uint8_t> scales_to_layout(std::span<const uint8_t> linear, uint64_t rows, uint64_t scale_cols,
                                      nvfp4r_scale_layout layout) {
    std::vector<uint8_t> out(scale_bytes(rows, scale_cols, layout));
    if (linear.size() != rows * scale_cols) {
        fail(NVFP4R_INVALID_ARGUMENT, "scales: {} bytes for [{}, {}]", linear.size(), rows, scale_cols);
    }
    for (uint64_t r = 0; r < rows; ++r) {
        for (uint64_t c = 0; c < scale_cols; ++c) {
            out[scale_offset(r, c, scale_cols, layout)] = linear[r * scale_cols + c];
        }
    }
    return out;
}

std::vector<uint8_t> scales_from_layout(std::span<const uint8_t> bytes, uint64_t rows, uint64_t scale_cols,
                                        nvfp4r_scale_layout layout) {
    const uint64_t needed = scale_bytes(rows, scale_cols, layout);
    if (bytes.size() < needed) {
        fail(NVFP4R_INVALID_ARGUMENT, "scales: {} bytes; [{}, {}] in this layout needs {}", bytes.size(), rows,
             scale_cols, needed);
    }
    std::vector<uint8_t> linear(rows * scale_cols);
    for (uint64_t r = 0; r < rows; ++r) {
        for (uint64_t c = 0; c < scale_cols; ++c) {
            linear[r * scale_cols + c] = bytes[scale_offset(r, c, scale_cols, layout)];
        }
    }
    return linear;
}

}  // namespace nvfp4r
