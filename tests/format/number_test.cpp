#include "format/number.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "format/random.hpp"

using namespace nvfp4r;

namespace {

/// A format by its definition: value of a magnitude code in double, independent of the code under test.
struct Format {
    int exponent_bits, mantissa_bits, bias;
    double value(uint32_t code) const {
        const int exponent = static_cast<int>(code >> mantissa_bits);
        const double mantissa = code & ((1u << mantissa_bits) - 1);
        const double step = std::ldexp(1.0, -mantissa_bits);
        if (exponent == 0) return std::ldexp(mantissa * step, 1 - bias);
        return std::ldexp(1.0 + mantissa * step, exponent - bias);
    }
    /// Nearest magnitude code of `largest` + 1 codes, ties to the even code, by search over all of them.
    uint32_t nearest(double magnitude, uint32_t largest) const {
        uint32_t low = 0, high = largest;
        while (low < high) {
            const uint32_t middle = (low + high + 1) / 2;
            (value(middle) <= magnitude ? low : high) = value(middle) <= magnitude ? middle : middle - 1;
        }
        if (low == largest) return low;
        const double below = magnitude - value(low), above = value(low + 1) - magnitude;
        if (below != above) return below < above ? low : low + 1;
        return low % 2 == 0 ? low : low + 1;
    }
};

constexpr Format kF16{5, 10, 15};
constexpr Format kBf16{8, 7, 127};
constexpr Format kE4m3{4, 3, 7};
constexpr Format kE2m1Format{2, 1, 1};

/// Every code's value, the midpoints between neighbours, and the floats next to both.
std::vector<float> probes(const Format& format, uint32_t largest) {
    std::vector<float> values;
    for (uint32_t code = 0; code <= largest; ++code) {
        const double here = format.value(code);
        const double middle = code < largest ? (here + format.value(code + 1)) / 2 : here;
        for (const double v : {here, middle}) {
            const float f = static_cast<float>(v);
            for (const float p : {f, std::nextafterf(f, 0.0f), std::nextafterf(f, 1e30f)}) values.push_back(p);
        }
    }
    Random random(7);
    for (int i = 0; i < 20000; ++i) {
        const float f = std::bit_cast<float>(static_cast<uint32_t>(random.next() & 0x7fffffffu));
        if (std::isfinite(f)) values.push_back(f);
    }
    return values;
}

}  // namespace

TEST_CASE("All 65536 f16 words widen to their value and come back", "[format]") {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
        const float value = f16_to_f32(static_cast<uint16_t>(bits));
        const uint32_t magnitude = bits & 0x7fffu;
        if (magnitude > 0x7c00) {
            REQUIRE(std::isnan(value));
            REQUIRE(f32_to_f16(value) == 0x7fff);
            continue;
        }
        const double expected = magnitude == 0x7c00 ? std::numeric_limits<double>::infinity() : kF16.value(magnitude);
        REQUIRE(std::fabs(static_cast<double>(value)) == expected);
        REQUIRE(std::signbit(value) == (bits >= 0x8000u));
        REQUIRE(f32_to_f16(value) == bits);
    }
}

TEST_CASE("All 65536 bf16 words widen to their value and come back", "[format]") {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
        const float value = bf16_to_f32(static_cast<uint16_t>(bits));
        const uint32_t magnitude = bits & 0x7fffu;
        if (magnitude > 0x7f80) {
            REQUIRE(std::isnan(value));
            REQUIRE(f32_to_bf16(value) == 0x7fff);
            continue;
        }
        const double expected = magnitude == 0x7f80 ? std::numeric_limits<double>::infinity() : kBf16.value(magnitude);
        REQUIRE(std::fabs(static_cast<double>(value)) == expected);
        REQUIRE(f32_to_bf16(value) == bits);
    }
}

TEST_CASE("f32 rounds to f16 and bf16 as a search over all their values does", "[format]") {
    for (const float probe : probes(kF16, 0x7bff)) {
        // 65520 and above is nearer to the next power of two, which f16 spells infinity.
        const uint32_t expected = probe >= 65520.0f ? 0x7c00u : kF16.nearest(static_cast<double>(probe), 0x7bff);
        REQUIRE(f32_to_f16(probe) == expected);
        REQUIRE(f32_to_f16(-probe) == (expected | 0x8000u));
    }
    for (const float probe : probes(kBf16, 0x7f7f)) {
        if (probe > 3.39e38f) continue;  // at the top the neighbour is infinity
        const uint32_t expected = kBf16.nearest(static_cast<double>(probe), 0x7f7f);
        REQUIRE(f32_to_bf16(probe) == expected);
        REQUIRE(f32_to_bf16(-probe) == (expected | 0x8000u));
    }
    REQUIRE(f32_to_bf16(std::numeric_limits<float>::max()) == 0x7f80);
    REQUIRE(f32_to_f16(std::numeric_limits<float>::infinity()) == 0x7c00);
}

TEST_CASE("B13 all 256 e4m3 bytes decode to their value, subnormals included", "[format]") {
    for (uint32_t bits = 0; bits < 256; ++bits) {
        const float value = e4m3_to_f32(static_cast<uint8_t>(bits));
        if ((bits & 0x7f) == 0x7f) {
            REQUIRE(std::isnan(value));
            continue;
        }
        REQUIRE(std::fabs(static_cast<double>(value)) == kE4m3.value(bits & 0x7f));
        REQUIRE(std::signbit(value) == (bits >= 0x80));
        REQUIRE(f32_to_e4m3(value) == bits);
    }
    REQUIRE(e4m3_to_f32(0x01) == 0x1p-9f);
    REQUIRE(e4m3_to_f32(0x08) == 0x1p-6f);
}

TEST_CASE("f32 rounds to e4m3 as a search does, saturates at 448 and keeps NaN", "[format]") {
    for (const float probe : probes(kE4m3, 0x7e)) {
        const uint32_t expected = kE4m3.nearest(static_cast<double>(probe), 0x7e);
        REQUIRE(f32_to_e4m3(probe) == expected);
        REQUIRE(f32_to_e4m3(-probe) == (expected | 0x80u));
    }
    REQUIRE(f32_to_e4m3(std::numeric_limits<float>::infinity()) == 0x7e);
    REQUIRE(f32_to_e4m3(std::numeric_limits<float>::quiet_NaN()) == 0x7f);
}

TEST_CASE("B17 an e4m3 tie goes to the even byte: 1.0625 is 0x38", "[format]") {
    REQUIRE(f32_to_e4m3(1.0625f) == 0x38);
    REQUIRE(f32_to_e4m3(1.1875f) == 0x3a);
}

TEST_CASE("All 16 e2m1 codes decode to their value and f32 rounds to them as a search does", "[format]") {
    for (uint8_t code = 0; code < 16; ++code) {
        REQUIRE(std::fabs(static_cast<double>(e2m1_to_f32(code))) == kE2m1Format.value(code & 7));
        REQUIRE(std::signbit(e2m1_to_f32(code)) == (code >= 8));
        REQUIRE(f32_to_e2m1(e2m1_to_f32(code)) == code);
    }
    for (const float probe : probes(kE2m1Format, 7)) {
        const uint32_t expected = kE2m1Format.nearest(static_cast<double>(probe), 7);
        REQUIRE(f32_to_e2m1(probe) == expected);
        REQUIRE(f32_to_e2m1(-probe) == (expected | 8u));
    }
    // The contract's own list of ties (section 4).
    const std::vector<std::pair<float, float>> ties = {{0.25f, 0}, {0.75f, 1}, {1.25f, 1}, {1.75f, 2},
                                                       {2.5f, 2},  {3.5f, 4},  {5.0f, 4}};
    for (const auto& [value, rounded] : ties) REQUIRE(e2m1_to_f32(f32_to_e2m1(value)) == rounded);
    REQUIRE(f32_to_e2m1(std::numeric_limits<float>::infinity()) == 7);
}
