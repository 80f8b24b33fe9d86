// NVFP4 in registers: the gate's packed tiles to bf16 multiply operands, and a token's 16 values to codes and back.
#pragma once

#include "isa/math.cuh"
#include "router_params.h"

namespace nvfp4r {

/// Two bf16 with the value byte's scale * 2^118 in both halves. The byte is an unsigned e5m3 number, so that every e4m3
/// scale, subnormals included, is one multiply-add away from its bf16 bits.
__device__ __forceinline__ unsigned gate_scale(unsigned byte) {
    return byte * 0x00100010u + 0x76007600u;
}

/// One packed word to the A fragment of mma.m16n8k16. Each 16-bit half holds four e2m1 numbers; a code's three
/// magnitude bits moved to bits 8..6 of a bf16 are its value * 2^-126 (subnormal included), which the scale brings to
/// value * 2^-8, exactly. `upper` is the scale of row g, `lower` of row g + 8. Fifteen instructions for eight weights.
__device__ __forceinline__ void dequantise_word(unsigned word, unsigned upper, unsigned lower, unsigned (&a)[4]) {
    constexpr unsigned kSign = 0x80008000u;
    constexpr unsigned kMagnitude = 0x01c001c0u;
    a[0] = ptx::mul_rn_bf16x2(word & (kSign | kMagnitude), upper);
    a[1] = ptx::mul_rn_bf16x2((word << 3) & (kSign | kMagnitude), lower);
    a[2] = ptx::mul_rn_bf16x2(((word << 2) & kSign) | ((word << 6) & kMagnitude), upper);
    a[3] = ptx::mul_rn_bf16x2(((word << 1) & kSign) | ((word >> 3) & kMagnitude), lower);
}

__device__ __forceinline__ float e4m3_to_f32(unsigned byte) {
    return ptx::cvt_f32_f16(ptx::cvt_rn_f16x2_e4m3x2(byte) & 0xffffu);
}

/// A quotient q >= 0 rounded to an e2m1 magnitude, ties to the even code, at most 6. Adding and taking off 1.5 * 2^n rounds
/// to a multiple of 2^(n-23), to nearest even; n is q's own exponent + 22, and 22 below 1, as the spacing 0.5, 1, 2 asks.
__device__ __forceinline__ float round_to_e2m1(float q) {
    constexpr unsigned kExponent = 0x7f800000u, kOneAndAHalf = 0x400000u, kShift = 22u << 23;
    const float shift = __uint_as_float((__float_as_uint(fmaxf(q, 1.0f)) & kExponent) + (kShift | kOneAndAHalf));
    return fminf((q + shift) - shift, 6.0f);
}

/// Correctly rounded quotients x / step by one divisor, for |x| up to some thousand steps. As div.rn does it: a reciprocal
/// with one Newton step, then two exact remainders. A power of two first brings the divisor to where no remainder is
/// subnormal; quotients that underflow by it are far below the least code.
struct ExactDivisor {
    float step, reciprocal, scale;

    /// `unit` 1, or 0 for quotients 0 whatever finite x is.
    __device__ __forceinline__ ExactDivisor(float divisor, float unit) {
        constexpr float kSmall = 8.67361738e-19f, kLarge = 1.15292150e18f;  // 2^-60, 2^60
        constexpr float kUp = 1.20892582e24f, kDown = 8.27180613e-25f;      // 2^80, 2^-80
        scale = divisor < kSmall ? kUp : (divisor > kLarge ? kDown : 1.0f);
        step = divisor * scale;
        const float r = ptx::rcp_approx_ftz(step);
        reciprocal = fmaf(r, fmaf(-r, step, 1.0f), r);
        scale *= unit;
    }
    __device__ __forceinline__ float quotient(float x) const {
        const float scaled = x * scale;
        float q = scaled * reciprocal;
        q = fmaf(fmaf(-q, step, scaled), reciprocal, q);
        return fmaf(fmaf(-q, step, scaled), reciprocal, q);
    }
};

struct QuantisedBlock {
    unsigned scale;                    // e4m3 byte
    unsigned values[kScaleBlock / 2];  // two bf16 each: e2m1 * scale, without the global scale, exact
    unsigned word[2];                  // 16 e2m1 codes, the first in the low nibble
};

/// The upper halves of two words, `low`'s in the lower half.
__device__ __forceinline__ unsigned upper_halves(unsigned low, unsigned high) {
    return __byte_perm(low, high, 0x7632);
}

/// Largest |x| as the bits of a float; more than those of the largest number when one of them is not finite.
__device__ __forceinline__ unsigned largest_bits(const float (&x)[kScaleBlock]) {
    unsigned largest = 0;
#pragma unroll
    for (unsigned i = 0; i < kScaleBlock; ++i) largest = max(largest, __float_as_uint(x[i]) & 0x7fffffffu);
    return largest;
}

/// One NVFP4 block of the contract (section 4): scale e4m3(amax / 6 / global), codes e2m1(x / (scale * global)), every
/// division correctly rounded. A NaN or an infinity makes the scale NaN, and with it all sixteen values. `largest` is
/// largest_bits(x).
__device__ __forceinline__ QuantisedBlock quantise_block(const float (&x)[kScaleBlock], unsigned largest,
                                                         float global_scale) {
    constexpr unsigned kInfinityBits = 0x7f800000u, kNanScale = 0x7fu;
    const bool finite = largest < kInfinityBits, empty = largest == 0;
    QuantisedBlock block;
    // Divisions of ordinary numbers are straight code; an empty block's need not be one of 0.
    const float sixth = ptx::div_rn(empty ? 1.0f : __uint_as_float(largest), 6.0f);
    block.scale = ptx::cvt_rn_satfinite_e4m3x2(0.0f, ptx::div_rn(sixth, global_scale));
    if (empty) block.scale = 0u;
    if (!finite) block.scale = kNanScale;
    const float scale = e4m3_to_f32(block.scale);
    const float step = scale * global_scale;
    // A step of 0 has codes 0; an infinite one, of an absurd given global scale, leaves only signs.
    const bool zero = step == 0.0f || !finite, infinite = step > 3.402823466e38f;
    const ExactDivisor divisor(zero || infinite ? 1.0f : step, zero || infinite ? 0.0f : 1.0f);
#if __CUDA_ARCH__ >= 1000
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
        constexpr unsigned kSigns = 0x88888888u;
        float q[8];
#pragma unroll
        for (unsigned i = 0; i < 8; ++i) {
            const float v = x[8 * half + i];
            q[i] = copysignf(divisor.quotient(fabsf(v)), v);
        }
        const unsigned word = ptx::cvt_rn_satfinite_e2m1x8(q);
        block.word[half] = zero ? 0u : (infinite ? word & kSigns : word);
#pragma unroll
        for (unsigned i = 0; i < 8; i += 2) {
            const unsigned pair = ptx::cvt_rn_f16x2_e2m1x2(block.word[half] >> (4 * i));
            block.values[4 * half + i / 2] = upper_halves(__float_as_uint(ptx::cvt_f32_f16(pair & 0xffffu) * scale),
                                                          __float_as_uint(ptx::cvt_f32_f16(pair >> 16) * scale));
        }
    }
#else
    constexpr unsigned kSigns = 0x80008000u, kTwoToMinus126 = 0x00800080u;  // of bf16 pairs
    const unsigned signs = zero ? 0u : kSigns, magnitudes = finite ? 0xffffffffu : 0u;
    const unsigned scales = upper_halves(__float_as_uint(scale), __float_as_uint(scale));
    block.word[0] = block.word[1] = 0;
#pragma unroll
    for (unsigned j = 0; j < kScaleBlock / 2; ++j) {
        const float even = round_to_e2m1(divisor.quotient(fabsf(x[2 * j])));
        const float odd = round_to_e2m1(divisor.quotient(fabsf(x[2 * j + 1])));
        const unsigned sign = upper_halves(__float_as_uint(x[2 * j]), __float_as_uint(x[2 * j + 1])) & signs;
        const unsigned magnitude = upper_halves(__float_as_uint(even), __float_as_uint(odd)) & magnitudes;
        block.values[j] = ptx::mul_rn_bf16x2(magnitude | sign, scales);
        // A magnitude * 2^-126 has its code in bits 8..6 of a bf16.
        const unsigned nibbles = ptx::mul_rn_bf16x2(magnitude, kTwoToMinus126) >> 6 | sign >> 12;
        block.word[j / 4] |= ((nibbles | nibbles >> 12) & 0xffu) << (8 * (j % 4));
    }
#endif
    return block;
}

/// What a block's rounding left over, for the next term: x - value * global, rounded once.
__device__ __forceinline__ void residual_block(float (&x)[kScaleBlock], const QuantisedBlock& block,
                                               float global_scale) {
#pragma unroll
    for (unsigned i = 0; i < kScaleBlock; ++i) {
        const unsigned pair = block.values[i / 2];
        x[i] = fmaf(-__uint_as_float(i % 2 ? pair & 0xffff0000u : pair << 16), global_scale, x[i]);
    }
}

/// Global scale of a token quantised by its own amax (contract section 4).
__device__ __forceinline__ float global_scale_of(float amax) {
    constexpr float kSmallestNormal = 1.17549435e-38f;
    return amax == 0.0f ? 1.0f : fmaxf(ptx::div_rn(amax, 6.0f * 448.0f), kSmallestNormal);
}

/// Byte of scale column `col` of row `row` in the 128x4 layout (contract section 4).
__device__ __forceinline__ long long atom_scale_offset(long long row, long long col, long long scale_cols) {
    const long long atom = row / 128 * ((scale_cols + 3) / 4) + col / 4;
    return atom * 512 + row % 32 * 16 + row % 128 / 32 * 4 + col % 4;
}

}  // namespace nvfp4r
