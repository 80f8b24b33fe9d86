#include "cpu/tokens.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "format/number.hpp"
#include "format/nvfp4.hpp"

namespace nvfp4r {
namespace {

constexpr uint8_t kUnsignedScale = 0x7f;  // the multiply does not look at the sign bit of a block scale

// Caller's pointers may have any alignment, so values are copied out byte by byte.
template <class T>
T load(const void* base, int64_t index) {
    T value;
    std::memcpy(&value, static_cast<const char*>(base) + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
}

void read_nvfp4(const nvfp4r_call& call, int64_t source, std::span<uint8_t> codes, std::span<uint8_t> scales) {
    const auto* from = static_cast<const uint8_t*>(call.hidden) + source * (call.hidden_stride / 2);
    std::copy_n(from, codes.size(), codes.begin());
    for (size_t c = 0; c < scales.size(); ++c) {
        const uint64_t offset = scale_offset(static_cast<uint64_t>(source), c, scales.size(), call.hidden_scale_layout);
        scales[c] = call.hidden_scales[offset] & kUnsignedScale;
    }
}

float finite_amax(std::span<const float> x) {
    float amax = 0.0f;
    for (const float value : x)
        if (std::isfinite(value)) amax = std::max(amax, std::fabs(value));
    return amax;
}

}  // namespace

TokenBlock::TokenBlock(uint32_t rows, uint32_t k, uint32_t max_terms)
    : max_rows(rows),
      hidden(k),
      x(uint64_t{rows} * k),
      x_global(rows),
      term_global(rows),
      codes(uint64_t{max_terms} * rows * k / 2),
      scales(uint64_t{max_terms} * rows * k / kBlock),
      term_values(uint64_t{max_terms} * rows * k),
      left(k) {}

std::span<uint8_t> TokenBlock::codes_row(uint32_t term, uint32_t row) {
    return {codes.data() + (uint64_t{term} * max_rows + row) * hidden / 2, hidden / 2};
}
std::span<uint8_t> TokenBlock::scales_row(uint32_t term, uint32_t row) {
    return {scales.data() + (uint64_t{term} * max_rows + row) * hidden / kBlock, hidden / kBlock};
}
std::span<float> TokenBlock::term_row(uint32_t term, uint32_t row) {
    return {term_values.data() + (uint64_t{term} * max_rows + row) * hidden, hidden};
}

uint32_t token_terms(const nvfp4r_call& call, uint32_t wanted) {
    return call.hidden_type == NVFP4R_E2M1 ? std::min(wanted, 1u) : wanted;
}

void read_token(const nvfp4r_call& call, int64_t source, TokenBlock& block, uint32_t row) {
    float* x = block.x_row(row);
    block.x_global[row] = 1.0f;
    const int64_t first = source * call.hidden_stride;
    switch (call.hidden_type) {
        case NVFP4R_F32:
            for (uint32_t k = 0; k < block.hidden; ++k) x[k] = load<float>(call.hidden, first + k);
            return;
        case NVFP4R_BF16:
            for (uint32_t k = 0; k < block.hidden; ++k) x[k] = bf16_to_f32(load<uint16_t>(call.hidden, first + k));
            return;
        case NVFP4R_F16:
            for (uint32_t k = 0; k < block.hidden; ++k) x[k] = f16_to_f32(load<uint16_t>(call.hidden, first + k));
            return;
        default: break;
    }
    const std::span<uint8_t> codes = block.codes_row(0, row);
    const std::span<uint8_t> scales = block.scales_row(0, row);
    read_nvfp4(call, source, codes, scales);
    dequantise_row(codes.data(), scales.data(), {x, block.hidden});
    block.x_global[row] =
        call.hidden_global_scales ? load<float>(call.hidden_global_scales, source) : call.hidden_global_scale;
}

void quantise_token(const nvfp4r_call& call, uint32_t terms, float activation_scale, TokenBlock& block, uint32_t row) {
    const std::span<const float> x(block.x_row(row), block.hidden);
    if (call.hidden_type == NVFP4R_E2M1) {
        block.term_global[row] = block.x_global[row];
        std::copy(x.begin(), x.end(), block.term_row(0, row).begin());
        return;
    }
    const float global = activation_scale > 0.0f ? activation_scale : global_scale_of(finite_amax(x));
    block.term_global[row] = global;
    std::copy(x.begin(), x.end(), block.left.begin());
    for (uint32_t term = 0; term < terms; ++term) {
        const std::span<uint8_t> codes = block.codes_row(term, row);
        const std::span<uint8_t> scales = block.scales_row(term, row);
        quantise_row(block.left, global, NVFP4R_BLOCK_AMAX, codes.data(), scales.data());
        dequantise_row(codes.data(), scales.data(), block.term_row(term, row));
        if (term + 1 < terms) residual_row(block.left, codes.data(), scales.data(), global, block.left);
    }
}

}  // namespace nvfp4r
