#include "arith/fda.hpp"

#include <algorithm>
#include <cmath>

#include "arith/fixed_point.hpp"
#include "format/number.hpp"

namespace nvfp4r::arith {
namespace {

constexpr int kSignificandBits = 10;                // of FdaValue, the widest type's
constexpr int kProductBits = 2 * kSignificandBits;  // fraction bits of an exact product
constexpr int kLeastGridExponent = -133;            // measured: the grid's exponent never falls below it
constexpr uint32_t kNan = 0x7fffffffu;
constexpr int kMaxProducts = 64;  // of a step; the longest one in hardware has 32

struct Format {
    int fraction_bits, exponent_bits, bias;
    bool has_infinity;
};

constexpr Format format_of(FdaType type) {
    switch (type) {
        case FdaType::kF16: return {10, 5, 15, true};
        case FdaType::kBf16: return {7, 8, 127, true};
        case FdaType::kE4m3: return {3, 4, 7, false};
        case FdaType::kE5m2: break;
    }
    return {2, 5, 15, true};
}

// A step with an infinity or NaN in it: what they add up to does not depend on the finite terms.
uint32_t special_result(std::span<const FdaValue> a, std::span<const FdaValue> b, uint32_t c) {
    bool plus = is_inf_f32(c) && !(c & kF32Sign);
    bool minus = is_inf_f32(c) && (c & kF32Sign);
    if (is_nan_f32(c)) return kNan;
    for (size_t i = 0; i < a.size(); ++i) {
        if (a[i].exponent == kFdaNan || b[i].exponent == kFdaNan) return kNan;
        if (a[i].exponent != kFdaInfinity && b[i].exponent != kFdaInfinity) continue;
        const int product = a[i].significand * b[i].significand;
        if (product == 0) return kNan;  // zero times infinity
        (product > 0 ? plus : minus) = true;
    }
    if (plus && minus) return kNan;
    return minus ? kF32Sign | kF32Infinity : kF32Infinity;
}

// What the terms add up to: sum * 2^q, or with an infinity or NaN among them `special`, fp32 bits.
struct GridSum {
    int64_t sum = 0;
    int q = 0;
    uint32_t special = 0;
};

GridSum add_on_grid(std::span<const FdaValue> a, std::span<const FdaValue> b, uint32_t c, int grid_bits) {
    const F32Parts parts = split_f32(c);
    int32_t products[kMaxProducts], exponents[kMaxProducts];
    int largest = parts.significand ? std::max(parts.exponent, kLeastGridExponent) : kLeastGridExponent;
    int highest = 0;  // only an infinity or NaN brings a sum of exponents above kFdaInfinity / 2
    for (size_t i = 0; i < a.size(); ++i) {
        products[i] = a[i].significand * b[i].significand;
        exponents[i] = a[i].exponent + b[i].exponent;
        highest = std::max(highest, exponents[i]);
        largest = std::max(largest, products[i] ? exponents[i] : kLeastGridExponent);
    }
    if (highest > kFdaInfinity / 2 || is_nan_f32(c) || is_inf_f32(c)) return {0, 0, special_result(a, b, c)};
    GridSum out{0, largest - grid_bits, 0};
    out.sum = shift_toward_zero(parts.significand, parts.exponent - kF32FractionBits - out.q);
    // A product at the largest exponent moves left by grid_bits - 20 (at most 5: 27 bits) or right by 20 - grid_bits, every
    // other one further right by its distance. Magnitudes are shifted, so that the truncation is toward zero.
    const int left = std::max(grid_bits - kProductBits, 0);
    const int right = std::max(kProductBits - grid_bits, 0);
    for (size_t i = 0; i < a.size(); ++i) {
        const int distance = std::clamp(largest - exponents[i] + right, 0, 31);
        const auto magnitude = static_cast<uint32_t>(products[i] < 0 ? -products[i] : products[i]);
        const int64_t term = (magnitude << left) >> distance;
        out.sum += products[i] < 0 ? -term : term;
    }
    return out;
}

}  // namespace

FdaValue fda_decode(FdaType type, uint32_t bits) {
    const Format format = format_of(type);
    const uint32_t fraction = bits & ((1u << format.fraction_bits) - 1);
    const uint32_t field = (bits >> format.fraction_bits) & ((1u << format.exponent_bits) - 1);
    const bool negative = (bits >> (format.fraction_bits + format.exponent_bits)) & 1u;
    const bool top = field == (1u << format.exponent_bits) - 1;
    const auto sign = static_cast<int16_t>(negative ? -1 : 1);
    if (top && format.has_infinity) return {sign, fraction ? kFdaNan : kFdaInfinity};
    if (top && fraction == (1u << format.fraction_bits) - 1) return {sign, kFdaNan};  // e4m3 S.1111.111
    const uint32_t magnitude = (field ? fraction | 1u << format.fraction_bits : fraction)
                               << (kSignificandBits - format.fraction_bits);
    return {static_cast<int16_t>(sign * static_cast<int>(magnitude)),
            static_cast<int16_t>((field ? static_cast<int>(field) : 1) - format.bias)};
}

uint32_t fda_step(std::span<const FdaValue> a, std::span<const FdaValue> b, uint32_t c, FdaRule rule) {
    const GridSum total = add_on_grid(a, b, c, rule.grid_bits);
    return total.special ? total.special : truncate_to_f32(total.sum, total.q, rule.result_bits);
}

uint16_t fda_step_f16(std::span<const FdaValue> a, std::span<const FdaValue> b, uint16_t c, FdaRule rule) {
    const GridSum total = add_on_grid(a, b, std::bit_cast<uint32_t>(f16_to_f32(c)), rule.grid_bits);
    if (total.special) return f32_to_f16(std::bit_cast<float>(total.special));
    // Rounding to odd keeps in fp32's last bit that something was cut off, so that the second rounding is the only one.
    uint32_t odd = truncate_to_f32(total.sum, total.q);
    const double exact = std::ldexp(static_cast<double>(total.sum), total.q);
    if (!is_inf_f32(odd) && static_cast<double>(std::bit_cast<float>(odd)) != exact) odd |= 1u;
    return f32_to_f16(std::bit_cast<float>(odd));
}

}  // namespace nvfp4r::arith
