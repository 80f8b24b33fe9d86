// Rounding to any of the floating-point formats, in integers: the same bits on every host and in every rounding mode.
#pragma once

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>

#include "sim/instr/modifiers.hpp"

namespace nvfp4r::sim {

enum class Rounding : uint8_t {
    rn,   // nearest, ties to even
    rz,   // toward zero
    rm,   // toward -infinity
    rp,   // toward +infinity
    rna,  // nearest, ties away from zero
    none  // not written
};

/// Takes .rn, .rz, .rm or .rp.
inline Rounding take_rounding(Modifiers& modifiers, Rounding otherwise) {
    return modifiers.take_one<Rounding>(
        {{"rn", Rounding::rn}, {"rz", Rounding::rz}, {"rm", Rounding::rm}, {"rp", Rounding::rp}}, otherwise);
}

/// A binary format: sign, exponent, fraction.
struct FloatFormat {
    int exponent_bits, fraction_bits, bias;
    uint64_t
        max_finite;     // bits of the largest finite magnitude; what lies above is Inf and NaN, if the format has them
    uint64_t infinity;  // bits; 0: none
    uint64_t nan;       // the NaN that conversions produce; 0: none

    int sign_bit() const { return exponent_bits + fraction_bits; }
};

inline constexpr FloatFormat kF64 = {11, 52, 1023, 0x7fefffffffffffff, 0x7ff0000000000000, 0x7fffffffffffffff};
inline constexpr FloatFormat kF32 = {8, 23, 127, 0x7f7fffff, 0x7f800000, 0x7fffffff};
inline constexpr FloatFormat kF16 = {5, 10, 15, 0x7bff, 0x7c00, 0x7fff};
inline constexpr FloatFormat kBf16 = {8, 7, 127, 0x7f7f, 0x7f80, 0x7fff};
inline constexpr FloatFormat kTf32 = {8,       10,      127,
                                      0x3fbff, 0x3fc00, 0x3ffff};  // without the 13 low bits of its register
inline constexpr FloatFormat kE4m3 = {4, 3, 7, 0x7e, 0, 0x7f};
inline constexpr FloatFormat kE5m2 = {5, 2, 15, 0x7b, 0x7c, 0x7f};
inline constexpr FloatFormat kE2m1 = {2, 1, 1, 0x7, 0, 0x7};    // NaN becomes +6 (PTX ISA 9.7.9.21)
inline constexpr FloatFormat kE2m3 = {2, 3, 1, 0x1f, 0, 0x1f};  // likewise +max
inline constexpr FloatFormat kE3m2 = {3, 2, 3, 0x1f, 0, 0x1f};

/// Magnitude bits of mantissa * 2^exponent, rounded; `sign` matters to rm and rp only. Values beyond the format come
/// out above max_finite.
inline uint64_t round_magnitude(bool sign, uint64_t mantissa, int exponent, const FloatFormat& format,
                                Rounding rounding) {
    if (mantissa == 0) return 0;
    const int leading = exponent + 63 - std::countl_zero(mantissa);
    const int least = 1 - format.bias;
    const int scale = leading > least ? leading : least;
    const int shift = scale - format.fraction_bits - exponent;
    uint64_t kept = 0, rest = 0, half = 0;
    if (shift <= 0) {
        kept = mantissa << -shift;
    } else if (shift > 64) {
        rest = 1;
        half = 2;  // less than half a unit is left
    } else {
        kept = shift == 64 ? 0 : mantissa >> shift;
        half = uint64_t{1} << (shift - 1);
        rest = mantissa & (half | (half - 1));
    }
    bool up = false;
    switch (rounding) {
        case Rounding::rn:
        case Rounding::none: up = rest > half || (rest == half && rest != 0 && (kept & 1)); break;
        case Rounding::rna: up = rest >= half && rest != 0; break;
        case Rounding::rz: break;
        case Rounding::rm: up = sign && rest != 0; break;
        case Rounding::rp: up = !sign && rest != 0; break;
    }
    return (static_cast<uint64_t>(scale - least) << format.fraction_bits) + kept + (up ? 1 : 0);
}

/// What a finite value too large for the format becomes.
inline uint64_t overflow_magnitude(bool sign, const FloatFormat& format, Rounding rounding, bool saturate) {
    const bool away = rounding == Rounding::rn || rounding == Rounding::none || rounding == Rounding::rna ||
                      (rounding == Rounding::rm && sign) || (rounding == Rounding::rp && !sign);
    return saturate || !away || format.infinity == 0 ? format.max_finite : format.infinity;
}

/// A signed integer mantissa * 2^exponent as bits of the format.
inline uint64_t encode_integer(bool sign, uint64_t mantissa, int exponent, const FloatFormat& format, Rounding rounding,
                               bool saturate) {
    uint64_t bits = round_magnitude(sign, mantissa, exponent, format, rounding);
    if (bits > format.max_finite) bits = overflow_magnitude(sign, format, rounding, saturate);
    return bits | uint64_t{sign} << format.sign_bit();
}

/// A double as bits of the format. `saturate`: infinities too become the largest finite value. NaN gives the format's.
inline uint64_t encode(double value, const FloatFormat& format, Rounding rounding, bool saturate = false) {
    if (value != value) return format.nan;
    const auto bits = std::bit_cast<uint64_t>(value);
    const bool sign = bits >> 63;
    const int field = static_cast<int>(bits >> 52 & 0x7ff);
    if (field == 0x7ff) {
        const uint64_t infinite = saturate || format.infinity == 0 ? format.max_finite : format.infinity;
        return infinite | uint64_t{sign} << format.sign_bit();
    }
    const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
    const uint64_t mantissa = field ? fraction | uint64_t{1} << 52 : fraction;
    return encode_integer(sign, mantissa, (field ? field : 1) - 1075, format, rounding, saturate);
}

/// The value of a format's bits. Exact.
inline double decode_value(uint64_t bits, const FloatFormat& format) {
    const uint64_t magnitude = bits & ((uint64_t{1} << format.sign_bit()) - 1);
    const bool sign = bits >> format.sign_bit() & 1;
    if (magnitude > format.max_finite) {
        if (magnitude != format.infinity) return std::nan("");
        return sign ? -HUGE_VAL : HUGE_VAL;
    }
    const int field = static_cast<int>(magnitude >> format.fraction_bits);
    const uint64_t fraction = magnitude & ((uint64_t{1} << format.fraction_bits) - 1);
    const uint64_t mantissa = field ? fraction | uint64_t{1} << format.fraction_bits : fraction;
    const double value =
        std::ldexp(static_cast<double>(mantissa), (field ? field : 1) - format.bias - format.fraction_bits);
    return sign ? -value : value;
}

/// a + b rounded to odd: when it is not exact, the neighbour with an odd last bit. Rounding that once more to a format
/// of at most 51 bits gives the correctly rounded sum (Boldo and Melquiond 2008).
inline double add_to_odd(double a, double b) {
    const double sum = a + b;
    if (!std::isfinite(sum)) return sum;
    const double virtual_b = sum - a;
    const double error = (a - (sum - virtual_b)) + (b - virtual_b);
    auto bits = std::bit_cast<uint64_t>(sum);
    if (error == 0 || (bits & 1)) return sum;
    const bool grow = (error > 0) == (sum > 0);
    return std::bit_cast<double>(grow ? bits + 1 : bits - 1);
}

/// The host's rounding mode for one warp instruction. The loads and stores of the lanes' values lie between the calls,
/// so that the arithmetic cannot move out of it.
class RoundingScope {
  public:
    explicit RoundingScope(Rounding rounding) {
        if (rounding == Rounding::rn || rounding == Rounding::none) return;
        active_ = true;
        std::fesetround(rounding == Rounding::rz ? FE_TOWARDZERO : rounding == Rounding::rm ? FE_DOWNWARD : FE_UPWARD);
    }
    ~RoundingScope() {
        if (active_) std::fesetround(FE_TONEAREST);
    }
    RoundingScope(const RoundingScope&) = delete;
    RoundingScope& operator=(const RoundingScope&) = delete;

  private:
    bool active_ = false;
};

}  // namespace nvfp4r::sim
