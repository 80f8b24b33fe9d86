#include "arith/fda.hpp"

#include <algorithm>

#include "arith/fixed_point.hpp"

namespace nvfp4r::arith {
namespace {

constexpr int kSignificandBits = 10;                // of FdaValue, the widest type's
constexpr int kProductBits = 2 * kSignificandBits;  // fraction bits of an exact product
constexpr int kLeastGridExponent = -133;            // measured: the grid's exponent never falls below it
constexpr uint32_t kNan = 0x7fffffffu;

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
    const F32Parts parts = split_f32(c);
    int largest = parts.significand ? parts.exponent : kLeastGridExponent;
    int highest = 0;  // only an infinity or NaN brings a sum of exponents to kFdaInfinity - 133
    for (size_t i = 0; i < a.size(); ++i) {
        const int exponent = a[i].exponent + b[i].exponent;
        highest = std::max(highest, exponent);
        if (a[i].significand * b[i].significand != 0) largest = std::max(largest, exponent);
    }
    if (highest > kFdaInfinity / 2 || is_nan_f32(c) || is_inf_f32(c)) return special_result(a, b, c);
    largest = std::max(largest, kLeastGridExponent);
    const int q = largest - rule.grid_bits;
    int64_t sum = shift_toward_zero(parts.significand, parts.exponent - kF32FractionBits - q);
    for (size_t i = 0; i < a.size(); ++i) {
        const int product = a[i].significand * b[i].significand;
        if (product != 0) sum += shift_toward_zero(product, a[i].exponent + b[i].exponent - kProductBits - q);
    }
    return truncate_to_f32(sum, q, rule.result_bits);
}

}  // namespace nvfp4r::arith
