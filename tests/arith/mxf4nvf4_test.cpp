#include "arith/mxf4nvf4.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "format/number.hpp"

using namespace nvfp4r;
using namespace nvfp4r::arith;

namespace {

struct Operand {
    std::array<uint8_t, 32> codes{};
    std::array<uint8_t, 4> scales{};
};

Operand operand_of(const std::string& digits, std::array<uint8_t, 4> scales) {
    Operand o;
    o.scales = scales;
    for (size_t k = 0; k < digits.size(); ++k) {
        const auto code = static_cast<uint8_t>(std::stoi(digits.substr(k, 1), nullptr, 16));
        o.codes[k / 2] = static_cast<uint8_t>(o.codes[k / 2] | code << (k % 2 * 4));
    }
    return o;
}

uint32_t step(const Operand& a, const Operand& b, uint32_t c) {
    return mxf4nvf4_step(mxf4_decode(a.codes.data(), a.scales.data()), mxf4_decode(b.codes.data(), b.scales.data()), c);
}

uint8_t code_at(const Operand& o, int k) {
    return static_cast<uint8_t>((o.codes[k / 2] >> (k % 2 * 4)) & 15);
}
double e2m1_at(const Operand& o, int k) {
    return static_cast<double>(e2m1_to_f32(code_at(o, k)));
}
double scale_at(const Operand& o, int i) {
    return static_cast<double>(e4m3_to_f32(o.scales[i] & 0x7f));
}
int scale_exponent(const Operand& o, int i) {
    return std::max((o.scales[i] & 0x7f) >> 3, 1) - 7;
}
int e2m1_exponent(const Operand& o, int k) {
    return std::max((code_at(o, k) & 7) >> 1, 1) - 1;
}

// A double cut to fp32 by truncation. Every double here is exact.
uint32_t truncate_double(double value) {
    if (value == 0) return 0;
    const int exponent = std::max(std::ilogb(value), -126);
    const double units = std::trunc(std::ldexp(value, 23 - exponent));
    return std::bit_cast<uint32_t>(static_cast<float>(std::ldexp(units, exponent - 23)));
}

double on_grid(double value, int q) {
    return std::trunc(std::ldexp(value, -q));
}

// The five rules of the hardware model, in doubles, by the letter.
uint32_t by_the_letter(const Operand& a, const Operand& b, uint32_t c_bits) {
    const double c = static_cast<double>(std::bit_cast<float>(c_bits));
    const int c_exponent = std::max(static_cast<int>((c_bits >> 23) & 255), 1) - 127;
    int product = -10000;
    int pair = -10000;
    for (int k = 0; k < 64; ++k) {
        const double scales = scale_at(a, k / 16) * scale_at(b, k / 16);
        if (scales == 0) continue;
        pair = std::max(pair, scale_exponent(a, k / 16) + scale_exponent(b, k / 16));
        if (e2m1_at(a, k) * e2m1_at(b, k) == 0) continue;
        product = std::max(
            product, e2m1_exponent(a, k) + e2m1_exponent(b, k) + scale_exponent(a, k / 16) + scale_exponent(b, k / 16));
    }
    const bool fine = c == 0 || c_exponent < product;
    if (product == -10000 && c == 0) return 0;
    const int q = fine ? std::max(std::max(product, c == 0 ? -10000 : c_exponent) - 39, pair - 35) : c_exponent - 35;
    const int group = fine ? 4 : 16;
    double sum = on_grid(c, q);
    for (int k = 0; k < 64; k += group) {
        double part = 0;
        for (int i = k; i < k + group; ++i)
            part += e2m1_at(a, i) * e2m1_at(b, i) * scale_at(a, i / 16) * scale_at(b, i / 16);
        sum += on_grid(part, q);
    }
    return truncate_double(std::ldexp(sum, q));
}

// isa.md 5.3, after microsoft/MMA-Sim: sums of 16, every term aligned to the largest exponent, 35 fraction bits.
uint32_t mma_sim_form(const Operand& a, const Operand& b, uint32_t c_bits) {
    const double c = static_cast<double>(std::bit_cast<float>(c_bits));
    int largest = std::max(static_cast<int>((c_bits >> 23) & 255), 1) - 127;
    for (int i = 0; i < 4; ++i) {
        const bool zero = scale_at(a, i) * scale_at(b, i) == 0;
        if (!zero) largest = std::max(largest, scale_exponent(a, i) + scale_exponent(b, i));
    }
    double sum = on_grid(c, largest - 35);
    for (int i = 0; i < 4; ++i) {
        double part = 0;
        for (int k = 16 * i; k < 16 * i + 16; ++k) part += e2m1_at(a, k) * e2m1_at(b, k);
        sum += on_grid(part * scale_at(a, i) * scale_at(b, i), largest - 35);
    }
    return truncate_double(std::ldexp(sum, largest - 35));
}

Operand random_operand(std::mt19937& rng, int scale_low, int scale_high, bool sparse) {
    Operand o;
    for (auto& byte : o.codes) byte = static_cast<uint8_t>(sparse && rng() % 4 ? 0 : rng());
    for (auto& scale : o.scales)
        scale = static_cast<uint8_t>(scale_low + static_cast<int>(rng() % (scale_high - scale_low + 1)));
    return o;
}

uint32_t random_c(std::mt19937& rng, int spread) {
    if (rng() % 8 == 0) return 0;
    const uint32_t exponent = static_cast<uint32_t>(127 - spread + static_cast<int>(rng() % (2 * spread + 1)));
    return (static_cast<uint32_t>(rng()) & 0x807fffffu) | exponent << 23;
}

}  // namespace

TEST_CASE("the block-scaled step gives the words of a B200", "[arith]") {
    struct Word {
        const char *a, *b;
        uint32_t c;
        std::array<uint8_t, 4> sa, sb;
        uint32_t result;
    };
    const Word words[] = {
        {"56e6a0257a959aac7221bc1d1f25d3c1dd69bb19ff54c54dd0ec01d866402c79",
         "cc65fb01dd3122ca5ebdf507cd408b2d48d0bf9e74d585f8c693b2e47c74ebe9",
         0xb23210ebu,
         {0x0c, 0x04, 0x74, 0x47},
         {0x17, 0x50, 0x24, 0x61},
         0x4429730bu},
        {"27f0bd2b4d3f41a211cf03c8ad764f05ed5a3aa53e4fad3903c2604fdf6b9e1a",
         "ca2c1d615cf7d2b03a55d133f4a689f45714941325bdbfe804a29ddfe565ebc2",
         0x89769172u,
         {0x66, 0x0e, 0x73, 0x0d},
         {0x16, 0x48, 0x03, 0x16},
         0xc30545d3u},
        {"eeb608f9ab39f7e02615a8647c6b1c6dbb86c8c5041f16f52465a7b701adbfe7",
         "6cb289b43d299c187263d29a59f5a8608dd2cc52834ff11aba5bf3bea571178a",
         0x094e5986u,
         {0x09, 0x7c, 0x6d, 0x44},
         {0x07, 0x78, 0x26, 0x79},
         0x49fcafb7u},
        {"1111111111111111111111111111111111111111111111111111111111111111",
         "1111111111111111111111111111111111111111111111111111111111111111",
         0,
         {0x7f, 0x38, 0x38, 0x38},
         {0x38, 0x38, 0x38, 0x38},
         0x7fffffffu},
    };
    for (const Word& w : words) CHECK(step(operand_of(w.a, w.sa), operand_of(w.b, w.sb), w.c) == w.result);
}

TEST_CASE("the block-scaled step keeps the five rules on random data", "[arith]") {
    std::mt19937 rng(20);
    const int ranges[][2] = {{0x30, 0x40}, {0x00, 0x7e}, {0x00, 0x10}, {0x70, 0x7e}};
    int wrong = 0;
    for (int trial = 0; trial < 200000; ++trial) {
        const auto& range = ranges[trial % 4];
        Operand a = random_operand(rng, range[0], range[1], trial % 3 == 0);
        const Operand b = random_operand(rng, range[0], range[1], trial % 5 == 0);
        // Both ends of the scale range in one step: the only place where a group of four is truncated.
        if (trial % 7 == 0) a.scales = {0x7e, 0x01, 0x08, 0x00};
        const uint32_t c = random_c(rng, trial % 2 ? 20 : 60);
        wrong += step(a, b, c) != by_the_letter(a, b, c);
    }
    CHECK(wrong == 0);
}

TEST_CASE("the block-scaled step agrees with the other published model away from tiny accumulators", "[arith]") {
    // The two models differ only where C, or a scale pair, lies far below the rest: the grid of one follows the largest
    // product, that of the other the accumulator. Gate-like data never gets there.
    std::mt19937 rng(21);
    int wrong = 0;
    for (int trial = 0; trial < 100000; ++trial) {
        const Operand a = random_operand(rng, 0x28, 0x48, false);
        const Operand b = random_operand(rng, 0x28, 0x48, false);
        const uint32_t c = random_c(rng, 8);
        wrong += step(a, b, c) != mma_sim_form(a, b, c);
    }
    CHECK(wrong == 0);
}

TEST_CASE("the block-scaled step from zero is the truncated exact sum", "[arith]") {
    std::mt19937 rng(22);
    for (int trial = 0; trial < 2000; ++trial) {
        const Operand a = random_operand(rng, 0x30, 0x48, false);
        const Operand b = random_operand(rng, 0x30, 0x48, false);
        double sum = 0;
        for (int k = 0; k < 64; ++k) sum += e2m1_at(a, k) * e2m1_at(b, k) * scale_at(a, k / 16) * scale_at(b, k / 16);
        REQUIRE(step(a, b, 0) == truncate_double(sum));
    }
}

TEST_CASE("the block-scaled step and odd accumulators", "[arith]") {
    const Operand one = operand_of("2000000000000000000000000000000000000000000000000000000000000000", {0x38, 0, 0, 0});
    const Operand none =
        operand_of("0000000000000000000000000000000000000000000000000000000000000000", {0x7e, 0, 0, 0});
    CHECK(step(one, one, 0x3f800000u) == 0x40000000u);
    CHECK(step(one, one, 0x7fc0deadu) == kCanonicalNan);
    CHECK(step(one, one, 0xff800000u) == 0xff800000u);
    CHECK(step(none, none, 0x80000000u) == 0);            // -0 comes out as +0
    CHECK(step(none, none, 0x00000001u) == 0x00000001u);  // a subnormal accumulator is kept
    CHECK(step(one, one, 0xbf800000u) == 0);
}

TEST_CASE("a tile of steps is the single steps", "[arith]") {
    std::mt19937 rng(23);
    std::vector<Mxf4Row> a, b;
    for (int i = 0; i < 5; ++i) {
        const Operand o = random_operand(rng, 0, 0x7e, false);
        a.push_back(mxf4_decode(o.codes.data(), o.scales.data()));
    }
    for (int i = 0; i < 3; ++i) {
        const Operand o = random_operand(rng, 0, 0x7e, false);
        b.push_back(mxf4_decode(o.codes.data(), o.scales.data()));
    }
    std::vector<uint32_t> c(5 * 4, 0x3f800000u);
    mxf4nvf4_tile(a, b, c.data(), 4);
    for (size_t i = 0; i < 5; ++i) {
        for (size_t j = 0; j < 3; ++j) CHECK(c[i * 4 + j] == mxf4nvf4_step(a[i], b[j], 0x3f800000u));
        CHECK(c[i * 4 + 3] == 0x3f800000u);  // the column past the tile is not touched
    }
}
