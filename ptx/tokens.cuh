// A token's 16 consecutive values, whatever their type, to the bf16 planes that the multiply takes: bf16 as it is, f16
// and f32 as exact sums of two and three bf16 numbers, NVFP4 dequantised, or quantised here term by term.
#pragma once

#include "isa/memory.cuh"
#include "nvfp4.cuh"
#include "options.cuh"
#include "router_params.h"

namespace nvfp4r {

/// One block as it lies in memory: 32 bytes of bf16 or f16, 64 of f32, 8 bytes of codes and a scale of NVFP4.
template <TokenForm kForm>
struct RawBlock {
    static constexpr unsigned kWords = kForm == TokenForm::F32 ? 16 : (kForm == TokenForm::Nvfp4 ? 3 : 8);
    unsigned word[kWords];
};

/// Words j = 2s, 2s + 1 of a plane are the B fragment of mma step s.
struct PlaneBlock {
    unsigned word[kScaleBlock / 2];
};

template <TokenForm kForm>
__device__ __forceinline__ RawBlock<kForm> empty_block() {
    RawBlock<kForm> block;
#pragma unroll
    for (unsigned i = 0; i < RawBlock<kForm>::kWords; ++i) block.word[i] = 0u;
    return block;
}

/// Block scale of NVFP4 tokens, as it is stored.
__device__ __forceinline__ unsigned load_block_scale(const RouterParams& p, long long row, unsigned k,
                                                     unsigned hidden) {
    const long long cols = hidden / kScaleBlock, col = k / kScaleBlock;
    return ptx::ld_global_nc_u8(p.hidden_scales +
                                (p.hidden_scales_atoms ? atom_scale_offset(row, col, cols) : row * cols + col));
}

/// Values k..k+15 of a row. `p.hidden_vector` says that every row starts at a 16-byte (NVFP4: 8-byte) boundary.
template <TokenForm kForm>
__device__ __forceinline__ RawBlock<kForm> load_block(const RouterParams& p, long long row, unsigned k,
                                                      unsigned hidden) {
    RawBlock<kForm> block;
    if constexpr (kForm == TokenForm::Nvfp4) {
        const auto* codes = static_cast<const unsigned char*>(p.hidden) + row * (p.hidden_stride / 2) + k / 2;
        if (kPlan.plain || p.hidden_vector) {
            const ptx::Words2 v = ptx::ld_global_nc_v2(codes);
            block.word[0] = v.x;
            block.word[1] = v.y;
        } else {
#pragma unroll
            for (unsigned w = 0; w < 2; ++w) {
                block.word[w] = 0;
#pragma unroll
                for (unsigned b = 0; b < 4; ++b) block.word[w] |= ptx::ld_global_nc_u8(codes + 4 * w + b) << (8 * b);
            }
        }
        block.word[2] = load_block_scale(p, row, k, hidden);
    } else {
        constexpr unsigned kBytes = kForm == TokenForm::F32 ? 4 : 2;
        const auto* values = static_cast<const unsigned char*>(p.hidden) + (row * p.hidden_stride + k) * kBytes;
        constexpr unsigned kWords = RawBlock<kForm>::kWords;
        if (kPlan.plain || p.hidden_vector) {
#pragma unroll
            for (unsigned i = 0; i < kWords; i += 4) {
                const ptx::Words4 v = ptx::ld_global_nc_v4(values + 4 * i);
                block.word[i] = v.x;
                block.word[i + 1] = v.y;
                block.word[i + 2] = v.z;
                block.word[i + 3] = v.w;
            }
        } else if constexpr (kForm == TokenForm::F32) {
#pragma unroll
            for (unsigned i = 0; i < kWords; ++i) block.word[i] = ptx::ld_global_nc_u32(values + 4 * i);
        } else {
#pragma unroll
            for (unsigned i = 0; i < kWords; ++i)
                block.word[i] = ptx::ld_global_nc_u16(values + 4 * i) | ptx::ld_global_nc_u16(values + 4 * i + 2) << 16;
        }
    }
    return block;
}

/// Value i of a block in f32, exactly.
template <TokenForm kForm>
__device__ __forceinline__ float block_value(const RawBlock<kForm>& block, unsigned i) {
    if constexpr (kForm == TokenForm::F32) return __uint_as_float(block.word[i]);
    const unsigned word = block.word[i / 2];
    if constexpr (kForm == TokenForm::Bf16) return __uint_as_float(i % 2 ? word & 0xffff0000u : word << 16);
    return ptx::cvt_f32_f16(i % 2 ? word >> 16 : word & 0xffffu);
}

/// Largest magnitude of a block as the bits of an f32; more than those of the largest number when a value is not finite.
template <TokenForm kForm>
__device__ __forceinline__ unsigned block_magnitude(const RawBlock<kForm>& block) {
    unsigned largest = 0;
    if constexpr (kForm == TokenForm::Bf16) {
        unsigned pair = 0;
#pragma unroll
        for (unsigned w = 0; w < RawBlock<kForm>::kWords; ++w) pair = ptx::max_u16x2(pair, block.word[w] & 0x7fff7fffu);
        largest = max(pair & 0xffff0000u, pair << 16);
    } else {
#pragma unroll
        for (unsigned i = 0; i < kScaleBlock; ++i)
            largest = max(largest, __float_as_uint(block_value<kForm>(block, i)) & 0x7fffffffu);
    }
    return largest;
}

/// The upper half of x as bf16 bits in the upper half of a word: x cut after eight bits. A NaN must not lose the bits
/// that make it one.
__device__ __forceinline__ unsigned leading_bf16(float x) {
    const unsigned bits = __float_as_uint(x);
    return x == x ? bits & 0xffff0000u : 0x7fff0000u;
}

/// f16 or f32 values as an exact sum of bf16 planes, most significant first. An infinity stands in the first plane
/// alone.
template <TokenForm kForm, unsigned kPlanes>
__device__ __forceinline__ void split_block(const RawBlock<kForm>& block, PlaneBlock (&planes)[kPlanes]) {
#pragma unroll
    for (unsigned j = 0; j < kScaleBlock / 2; ++j) {
        float even = block_value<kForm>(block, 2 * j), odd = block_value<kForm>(block, 2 * j + 1);
#pragma unroll
        for (unsigned q = 0; q < kPlanes; ++q) {
            const unsigned low = leading_bf16(even), high = leading_bf16(odd);
            planes[q].word[j] = low >> 16 | high;
            const float even_left = even - __uint_as_float(low), odd_left = odd - __uint_as_float(high);
            even = even_left == even_left ? even_left : 0.0f;
            odd = odd_left == odd_left ? odd_left : 0.0f;
        }
    }
}

/// NVFP4 tokens: code * block scale, exact in bf16. The sign bit of a scale is not looked at (it is a UE4M3 number).
__device__ __forceinline__ void dequantise_block(const RawBlock<TokenForm::Nvfp4>& block, PlaneBlock& plane) {
    const float scale = e4m3_to_f32(block.word[2] & 0x7fu);
    constexpr float kTwoTo126 = 8.507059173e37f;
#pragma unroll
    for (unsigned j = 0; j < kScaleBlock / 2; ++j) {
        const unsigned pair = block.word[j / 4] >> (8 * (j % 4));
        // Magnitude bits at 24..22 of an f32 are the value * 2^-126.
        const float even = __uint_as_float((pair & 7u) << 22 | (pair & 8u) << 28) * kTwoTo126 * scale;
        const float odd = __uint_as_float((pair & 0x70u) << 18 | (pair & 0x80u) << 24) * kTwoTo126 * scale;
        plane.word[j] = __float_as_uint(even) >> 16 | (__float_as_uint(odd) & 0xffff0000u);
    }
}

/// Where a CTA writes the first term's codes and scale, when it does.
struct CodesOut {
    bool write;
    long long row;
    unsigned k;
};

__device__ __forceinline__ void write_codes(const RouterParams& p, unsigned hidden, const CodesOut& out,
                                            const QuantisedBlock& term) {
    if (!out.write) return;
    unsigned char* codes = p.codes_out + out.row * (hidden / 2) + out.k / 2;
    // Rows are whole blocks, so all blocks are aligned as the first.
    if (reinterpret_cast<unsigned long long>(codes) % alignof(ptx::Words2) == 0) {
        *reinterpret_cast<ptx::Words2*>(codes) = {term.word[0], term.word[1]};
    } else {
#pragma unroll
        for (unsigned b = 0; b < 8; ++b) codes[b] = static_cast<unsigned char>(term.word[b / 4] >> (8 * (b % 4)));
    }
    const long long cols = hidden / kScaleBlock, col = out.k / kScaleBlock;
    p.scales_out[p.scales_out_atoms ? atom_scale_offset(out.row, col, cols) : out.row * cols + col] =
        static_cast<unsigned char>(term.scale);
}

/// Bf16, f16 or f32 values quantised to kPlanes terms with one global scale.
template <TokenForm kForm, unsigned kPlanes>
__device__ __forceinline__ void quantise_planes(const RawBlock<kForm>& block, float global_scale, const RouterParams& p,
                                                unsigned hidden, const CodesOut& out, PlaneBlock (&planes)[kPlanes]) {
    float x[kScaleBlock];
#pragma unroll
    for (unsigned i = 0; i < kScaleBlock; ++i) x[i] = block_value<kForm>(block, i);
#pragma unroll
    for (unsigned q = 0; q < kPlanes; ++q) {
        const QuantisedBlock term = quantise_block(x, q == 0 ? block_magnitude(block) : largest_bits(x), global_scale);
        if (q == 0) write_codes(p, hidden, out, term);
#pragma unroll
        for (unsigned j = 0; j < kScaleBlock / 2; ++j) planes[q].word[j] = term.values[j];
        if (q + 1 < kPlanes) residual_block(x, term, global_scale);
    }
}

/// Whether a row is routed at all. The values of other rows are never read.
__device__ __forceinline__ bool row_is_valid(const RouterParams& p, long long row) {
    if (row >= p.tokens) return false;
    if (given(p.num_valid) && row >= *p.num_valid) return false;
    return !given(p.mask) || p.mask[row] != 0;
}

/// Largest magnitude of a block as the bits of a non-negative f32; infinities and NaN count as nothing, since they make
/// their block NaN whatever the global scale is.
template <TokenForm kForm>
__device__ __forceinline__ unsigned block_amax(const RawBlock<kForm>& block) {
    constexpr unsigned kInfinityBits = 0x7f800000u;
    if constexpr (kForm == TokenForm::Bf16) {
        // Bits + 0x80 are negative as a signed half where the value is not finite.
        constexpr unsigned kUp = 0x00800080u;
        unsigned pair = kUp;
#pragma unroll
        for (unsigned w = 0; w < RawBlock<kForm>::kWords; ++w)
            pair = ptx::max_s16x2(pair, (block.word[w] & 0x7fff7fffu) + kUp);
        pair -= kUp;
        return max(pair & 0xffff0000u, pair << 16);
    }
    unsigned amax = 0;
#pragma unroll
    for (unsigned i = 0; i < kScaleBlock; ++i) {
        const unsigned bits = __float_as_uint(block_value<kForm>(block, i)) & 0x7fffffffu;
        amax = max(amax, bits < kInfinityBits ? bits : 0u);
    }
    return amax;
}

}  // namespace nvfp4r
