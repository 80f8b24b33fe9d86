// Sums on a fixed-point grid, and their way back to fp32 by truncation: what both tensor-core rules are made of.
#pragma once

#include <bit>
#include <cstdint>

namespace nvfp4r::arith {

inline constexpr int kF32FractionBits = 23;
inline constexpr int kF32MinExponent = -126;
inline constexpr int kF32MaxExponent = 127;
inline constexpr uint32_t kF32Sign = 0x80000000u;
inline constexpr uint32_t kF32Infinity = 0x7f800000u;

/// value = significand * 2^(exponent - 23), with the raw exponent: subnormals and zero keep -126.
struct F32Parts {
    int64_t significand;
    int exponent;
};

inline F32Parts split_f32(uint32_t bits) {
    const int field = static_cast<int>((bits >> kF32FractionBits) & 0xffu);
    const int64_t fraction = bits & 0x7fffffu;
    const int64_t magnitude = field ? fraction | 0x800000 : fraction;
    return {bits & kF32Sign ? -magnitude : magnitude, field ? field - 127 : kF32MinExponent};
}

inline bool is_nan_f32(uint32_t bits) {
    return (bits & ~kF32Sign) > kF32Infinity;
}
inline bool is_inf_f32(uint32_t bits) {
    return (bits & ~kF32Sign) == kF32Infinity;
}

/// value * 2^shift, truncated toward zero. A left shift must fit.
inline int64_t shift_toward_zero(int64_t value, int shift) {
    if (shift >= 0) return value * (int64_t{1} << shift);
    if (shift <= -63) return 0;
    const int64_t magnitude = (value < 0 ? -value : value) >> -shift;
    return value < 0 ? -magnitude : magnitude;
}

/// fp32 bits of sum * 2^q, truncated toward zero to `fraction_bits` bits after the leading one and never below 2^-149.
/// Zero, or a value truncated to zero, is +0; an exponent above 127 is infinity.
inline uint32_t truncate_to_f32(int64_t sum, int q, int fraction_bits = kF32FractionBits) {
    if (sum == 0) return 0;
    const uint32_t sign = sum < 0 ? kF32Sign : 0;
    uint64_t magnitude = sum < 0 ? static_cast<uint64_t>(-sum) : static_cast<uint64_t>(sum);
    const int leading = 63 - std::countl_zero(magnitude);
    const int exponent = leading + q;
    if (exponent > kF32MaxExponent) return sign | kF32Infinity;
    const int raw = exponent < kF32MinExponent ? kF32MinExponent : exponent;
    const int shift = q - (raw - kF32FractionBits);  // to units of the result's last place
    if (shift <= -64) return 0;
    uint64_t units = shift >= 0 ? magnitude << shift : magnitude >> -shift;
    if (units == 0) return 0;
    const int dropped = 63 - std::countl_zero(units) - fraction_bits;
    if (dropped > 0) units &= ~((uint64_t{1} << dropped) - 1);
    const uint32_t field = units >> kF32FractionBits ? static_cast<uint32_t>(raw + 127) : 0;
    return sign | field << kF32FractionBits | static_cast<uint32_t>(units & 0x7fffffu);
}

}  // namespace nvfp4r::arith
