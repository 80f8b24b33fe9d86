// The tensor core's fused dot-add for 16-bit and 8-bit floats: all products of a step and C are truncated on one
// fixed-point grid below the largest exponent, added exactly, and the sum is truncated to fp32. Measured bit for bit on
// an H200 for wgmma and mma.sync; tcgen05 kind::f16 keeps the same 25 bits (microsoft/MMA-Sim, arXiv 2511.10909).
#pragma once

#include <cstdint>
#include <span>

namespace nvfp4r::arith {

enum class FdaType { kF16, kBf16, kE4m3, kE5m2 };

/// Bits below the largest exponent that a term keeps, and fraction bits of the result.
struct FdaRule {
    int grid_bits;
    int result_bits;
};
inline constexpr FdaRule kFda16Bit{25, 23};      // f16 and bf16, K = 16: wgmma, mma.sync, tcgen05 kind::f16
inline constexpr FdaRule kFdaHopperFp8{13, 13};  // e4m3 and e5m2, K = 32: wgmma

/// One operand value: significand * 2^(exponent - 10), subnormals not normalised. Decode once, multiply often.
struct FdaValue {
    int16_t significand;
    int16_t exponent;  // kFdaInfinity or kFdaNan for those; the significand then carries the sign
};
inline constexpr int16_t kFdaInfinity = 0x2000;
inline constexpr int16_t kFdaNan = 0x2001;

/// bits: the low 16 or 8 bits of the type.
FdaValue fda_decode(FdaType type, uint32_t bits);

/// fp32 bits of C + sum of a[i] * b[i]. `c` is fp32 bits; a step without C passes 0. At most 64 products. Any NaN, zero
/// times infinity or infinities of both signs give 0x7fffffff; a zero result is +0.
uint32_t fda_step(std::span<const FdaValue> a, std::span<const FdaValue> b, uint32_t c, FdaRule rule);

/// The same with an f16 C and result: the sum on the grid is rounded once, to nearest even (microsoft/MMA-Sim; not
/// measured). Overflow gives infinity, NaN 0x7fff.
uint16_t fda_step_f16(std::span<const FdaValue> a, std::span<const FdaValue> b, uint16_t c, FdaRule rule);

}  // namespace nvfp4r::arith
