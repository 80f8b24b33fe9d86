#include "arith/fda.hpp"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "format/number.hpp"

using namespace nvfp4r;
using namespace nvfp4r::arith;

namespace {

struct Type {
    FdaType type;
    int bits, fraction, bias;
    int k;
    FdaRule rule;
};
const Type kTypes[] = {{FdaType::kF16, 16, 10, 15, 16, kFda16Bit},
                       {FdaType::kBf16, 16, 7, 127, 16, kFda16Bit},
                       {FdaType::kE4m3, 8, 3, 7, 32, kFdaHopperFp8},
                       {FdaType::kE5m2, 8, 2, 15, 32, kFdaHopperFp8}};

int field_of(const Type& t, uint32_t bits) {
    return static_cast<int>((bits >> t.fraction) & ((1u << (t.bits - 1 - t.fraction)) - 1));
}
int exponent_of(const Type& t, uint32_t bits) {
    return std::max(field_of(t, bits), 1) - t.bias;
}
double value_of(const Type& t, uint32_t bits) {
    const double fraction = static_cast<double>(bits & ((1u << t.fraction) - 1)) / (1 << t.fraction);
    const double magnitude = std::ldexp(fraction + (field_of(t, bits) ? 1 : 0), exponent_of(t, bits));
    return bits >> (t.bits - 1) ? -magnitude : magnitude;
}

// The rule of the measurements in doubles: decode, grid from the largest exponent, truncate each, add, truncate.
uint32_t by_the_letter(const Type& t, const std::vector<uint32_t>& a, const std::vector<uint32_t>& b, uint32_t c_bits) {
    const double c = static_cast<double>(std::bit_cast<float>(c_bits));
    int largest = -133;
    if (c != 0) largest = std::max(largest, std::max(static_cast<int>((c_bits >> 23) & 255), 1) - 127);
    for (size_t i = 0; i < a.size(); ++i)
        if (value_of(t, a[i]) != 0 && value_of(t, b[i]) != 0)
            largest = std::max(largest, exponent_of(t, a[i]) + exponent_of(t, b[i]));
    const int q = largest - t.rule.grid_bits;
    double units = std::trunc(std::ldexp(c, -q));
    for (size_t i = 0; i < a.size(); ++i) units += std::trunc(std::ldexp(value_of(t, a[i]) * value_of(t, b[i]), -q));
    if (units == 0) return 0;
    const double sum = std::ldexp(units, q);
    const int exponent = std::ilogb(sum);
    if (exponent > 127) return sum < 0 ? 0xff800000u : 0x7f800000u;
    const int last = std::max(exponent - t.rule.result_bits, -149);
    const double cut = std::trunc(std::ldexp(sum, -last));
    return cut == 0 ? 0 : std::bit_cast<uint32_t>(static_cast<float>(std::ldexp(cut, last)));
}

uint32_t step(const Type& t, const std::vector<uint32_t>& a, const std::vector<uint32_t>& b, uint32_t c) {
    std::vector<FdaValue> va, vb;
    for (uint32_t bits : a) va.push_back(fda_decode(t.type, bits));
    for (uint32_t bits : b) vb.push_back(fda_decode(t.type, bits));
    return fda_step(va, vb, c, t.rule);
}

}  // namespace

TEST_CASE("the fused dot-add keeps the measured rule on random data", "[arith]") {
    std::mt19937 engine(30);
    auto rng = [&] { return static_cast<uint32_t>(engine()); };
    for (const Type& t : kTypes) {
        int wrong = 0;
        for (int trial = 0; trial < 20000; ++trial) {
            // Exponent fields from narrow to the whole range, the largest one (specials) left out.
            const int fields = (1 << (t.bits - 1 - t.fraction)) - 1;
            const int width = trial % 3 == 0 ? fields : std::min(fields, trial % 3 == 1 ? 6 : 24);
            const int low = static_cast<int>(rng() % static_cast<uint32_t>(fields - width + 1));
            auto draw = [&] {
                const auto field = static_cast<uint32_t>(low) + rng() % static_cast<uint32_t>(width);
                return (rng() & 1u) << (t.bits - 1) | field << t.fraction | (rng() & ((1u << t.fraction) - 1));
            };
            std::vector<uint32_t> a(t.k), b(t.k);
            for (int i = 0; i < t.k; ++i) {
                a[i] = draw();
                b[i] = rng() % 8 ? draw() : 0;
            }
            const uint32_t c = trial % 4 == 0 ? 0 : (rng() & 0x807fffffu) | (100 + rng() % 50) << 23;
            wrong += step(t, a, b, c) != by_the_letter(t, a, b, c);
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("the fused dot-add truncates at 25 bits and fp8 at 13", "[arith]") {
    const uint32_t one = 0x3f800000u;
    // 2^-12 * 2^-13 = 2^-25 stays on the grid of C = 1 but is cut from the result; 2 * 2^-25 and 6 more carry in.
    const std::vector<uint32_t> f16_a(8, 0x0c00), f16_b(8, 0x0800);
    CHECK(step(kTypes[0], f16_a, f16_b, one) == one + 2);                         // 8 * 2^-25 = 2^-22
    CHECK(step(kTypes[0], {0x0c00}, {0x0800}, one) == one);                       // one alone is truncated away
    CHECK(step(kTypes[0], f16_a, std::vector<uint32_t>(8, 0x0400), one) == one);  // 2^-26 is below the grid
    // e4m3: 2^-6 * 2^-7 = 2^-13 is the last bit that a sum with 1 keeps.
    CHECK(step(kTypes[2], {0x38, 0x08}, {0x38, 0x04}, 0) == 0x3f800400u);
    CHECK(step(kTypes[2], {0x38, 0x08}, {0x38, 0x02}, 0) == one);
}

TEST_CASE("the fused dot-add on infinities, NaN and zeros", "[arith]") {
    const Type& f16 = kTypes[0];
    CHECK(step(f16, {0x7c00}, {0x3c00}, 0) == 0x7f800000u);
    CHECK(step(f16, {0x7c00}, {0xbc00}, 0) == 0xff800000u);
    CHECK(step(f16, {0x7c00}, {0x0000}, 0) == 0x7fffffffu);
    CHECK(step(f16, {0x7c00, 0xfc00}, {0x3c00, 0x3c00}, 0) == 0x7fffffffu);
    CHECK(step(f16, {0x7e00}, {0x3c00}, 0) == 0x7fffffffu);
    CHECK(step(f16, {0x3c00}, {0x3c00}, 0xff800000u) == 0xff800000u);
    CHECK(step(f16, {0x8000}, {0x3c00}, 0x80000000u) == 0);
    CHECK(step(kTypes[2], {0x7f}, {0x38}, 0) == 0x7fffffffu);
    CHECK(step(kTypes[2], {0x7e}, {0x38}, 0) == 0x43e00000u);  // 448: e4m3 has no infinity
    CHECK(step(kTypes[3], {0x7c}, {0xbc}, 0) == 0xff800000u);
    // bf16 overflow gives infinity, not the largest finite value.
    CHECK(step(kTypes[1], {0x7f7f}, {0x7f7f}, 0) == 0x7f800000u);
}
