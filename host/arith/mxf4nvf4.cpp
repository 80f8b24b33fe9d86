#include "arith/mxf4nvf4.hpp"

#include <algorithm>
#include <climits>

#include "arith/fixed_point.hpp"

namespace nvfp4r::arith {
namespace {

constexpr int16_t kTwiceE2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
constexpr uint8_t kScaleNan = 0x7f;
constexpr int kScaleMinExponent = -6;
constexpr int kGroupK = 4;     // products that hardware sums exactly before the first truncation
constexpr int kGridBits = 35;  // fraction bits of the grid below the largest scale pair, or below C

// Whole numbers in value * value * mantissa * mantissa stand for 2^(sum of scale exponents - 8): 2 bits from the
// doubled e2m1 values and 3 from each mantissa.
constexpr int kTermBits = 2 + 3 + 3;
constexpr int kTermShift = kGridBits - kTermBits;      // left shift of the largest scale pair's block
constexpr int kCShift = kGridBits - kF32FractionBits;  // left shift of a C that sets the grid
constexpr int kNone = INT_MIN / 2;                     // exponent of an empty maximum

// The largest block sum: 16 products of 12 * 12, mantissas of 15 * 15, on the finest grid; four of them and C.
static_assert((int64_t{16 * 144 * 225} << kTermShift) < (int64_t{1} << 60), "a step's sum must fit 64 bits");

int raw_exponent_e2m1(int twice) {  // 0.5 is subnormal and keeps the exponent of 1
    const int magnitude = twice < 0 ? -twice : twice;
    return magnitude >= 8 ? 2 : magnitude >= 4 ? 1 : 0;
}

int64_t dot(const int16_t* a, const int16_t* b, int count) {
    int32_t sum = 0;
    for (int i = 0; i < count; ++i) sum += a[i] * b[i];
    return sum;
}

// Largest sum of the four raw exponents over the products that are not zero.
int largest_product_exponent(const Mxf4Row& a, const Mxf4Row& b) {
    int largest = kNone;
    for (int k = 0; k < kStepK; ++k) {
        const int block = k / kBlockK;
        if (a.value[k] * b.value[k] == 0 || a.mantissa[block] * b.mantissa[block] == 0) continue;
        largest = std::max(largest, raw_exponent_e2m1(a.value[k]) + raw_exponent_e2m1(b.value[k]) + a.exponent[block] +
                                        b.exponent[block]);
    }
    return largest;
}

// Every block's sum in groups of `group` products, each truncated on the grid 2^q.
int64_t truncated_sums(const Mxf4Row& a, const Mxf4Row& b, int group, int q) {
    int64_t sum = 0;
    for (int k = 0; k < kStepK; k += group) {
        const int block = k / kBlockK;
        const int64_t term = dot(a.value + k, b.value + k, group) * (a.mantissa[block] * b.mantissa[block]);
        if (term != 0) sum += shift_toward_zero(term, a.exponent[block] + b.exponent[block] - kTermBits - q);
    }
    return sum;
}

// The rules as they are written, for the steps in which something can be lost.
uint32_t step_by_the_rules(const Mxf4Row& a, const Mxf4Row& b, uint32_t c, int largest_pair) {
    const F32Parts parts = split_f32(c);
    const int product = largest_product_exponent(a, b);
    if (parts.significand == 0 || parts.exponent < product) {
        if (product == kNone) return 0;
        // MODEL.md has q = max(largest product - 39, largest scale pair - 35). Two e2m1 exponents add at most 4, so the
        // first is never the larger one.
        const int q = largest_pair - kGridBits;
        const int64_t sum = truncated_sums(a, b, kGroupK, q);
        return truncate_to_f32(sum + shift_toward_zero(parts.significand, parts.exponent - kF32FractionBits - q), q);
    }
    const int q = parts.exponent - kGridBits;
    return truncate_to_f32(truncated_sums(a, b, kBlockK, q) + parts.significand * (int64_t{1} << kCShift), q);
}

}  // namespace

Mxf4Row mxf4_decode(const uint8_t* codes, const uint8_t* scales) {
    Mxf4Row row{};
    for (int k = 0; k < kStepK; k += 2) {
        row.value[k] = kTwiceE2m1[codes[k / 2] & 15];
        row.value[k + 1] = kTwiceE2m1[codes[k / 2] >> 4];
    }
    for (int i = 0; i < kStepBlocks; ++i) {
        const int bits = scales[i] & 0x7f;
        const int field = bits >> 3;
        row.nan = row.nan || bits == kScaleNan;
        row.mantissa[i] = static_cast<int16_t>(field ? 8 + (bits & 7) : bits & 7);
        row.exponent[i] = static_cast<int16_t>(field ? field - 7 : kScaleMinExponent);
    }
    return row;
}

uint32_t mxf4nvf4_step(const Mxf4Row& a, const Mxf4Row& b, uint32_t c) {
    if (a.nan || b.nan || is_nan_f32(c)) return kCanonicalNan;
    if (is_inf_f32(c)) return c;
    int largest = kNone;
    int smallest = INT_MAX;
    int pair[kStepBlocks];
    int64_t term[kStepBlocks];
    for (int i = 0; i < kStepBlocks; ++i) {
        const int mantissa = a.mantissa[i] * b.mantissa[i];
        pair[i] = a.exponent[i] + b.exponent[i];
        term[i] = dot(a.value + i * kBlockK, b.value + i * kBlockK, kBlockK) * mantissa;
        if (mantissa == 0) continue;
        largest = std::max(largest, pair[i]);
        smallest = std::min(smallest, pair[i]);
    }
    const F32Parts parts = split_f32(c);
    if (largest == kNone) return parts.significand == 0 ? 0 : c;
    // With every term and C on the grid nothing is truncated before the end, whichever rule applies and however the
    // products are grouped. That is nearly every step.
    const bool zero = parts.significand == 0;
    const int top = zero ? largest : std::max(largest, parts.exponent);
    if (top - smallest > kTermShift || (!zero && top - parts.exponent > kCShift))
        return step_by_the_rules(a, b, c, largest);
    int64_t sum = zero ? 0 : parts.significand * (int64_t{1} << (kCShift - (top - parts.exponent)));
    for (int i = 0; i < kStepBlocks; ++i)
        if (term[i] != 0) sum += term[i] * (int64_t{1} << (kTermShift - (top - pair[i])));
    return truncate_to_f32(sum, top - kGridBits);
}

void mxf4nvf4_tile(std::span<const Mxf4Row> a, std::span<const Mxf4Row> b, uint32_t* c, size_t stride) {
    for (size_t i = 0; i < a.size(); ++i)
        for (size_t j = 0; j < b.size(); ++j) c[i * stride + j] = mxf4nvf4_step(a[i], b[j], c[i * stride + j]);
}

}  // namespace nvfp4r::arith
