#include "format/number.hpp"

#include <array>

namespace nvfp4r {
namespace {

constexpr uint32_t kSignMask = 0x80000000u;
constexpr uint32_t kF32Infinity = 0x7f800000u;

constexpr float decode_e4m3(uint8_t bits) {
    const int exponent = (bits >> 3) & 15;
    const int mantissa = bits & 7;
    // Subnormals are multiples of 2^-9; a normal is (8 + mantissa) * 2^(exponent - 10).
    float value = static_cast<float>(exponent == 0 ? mantissa : 8 + mantissa) * 0x1p-9f;
    for (int e = 1; e < exponent; ++e) value *= 2.0f;
    return (bits & 0x80) ? -value : value;
}

constexpr std::array<float, 256> make_e4m3_table() {
    std::array<float, 256> table{};
    for (uint32_t i = 0; i < 256; ++i) table[i] = decode_e4m3(static_cast<uint8_t>(i));
    table[0x7f] = std::bit_cast<float>(0x7fffffffu);
    table[0xff] = std::bit_cast<float>(0xffffffffu);
    return table;
}

constexpr std::array<float, 256> kE4m3Values = make_e4m3_table();
static_assert(kE4m3Values[0x38] == 1.0f && kE4m3Values[0x7e] == kE4m3Max, "e4m3: 0x38 is 1 and 0x7e the largest value");

}  // namespace

float f16_to_f32(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t exponent = (bits >> 10) & 31u;
    const uint32_t mantissa = bits & 0x3ffu;
    if (exponent == 31) return std::bit_cast<float>(sign | kF32Infinity | (mantissa << 13));
    if (exponent == 0) {
        const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

uint16_t f32_to_f16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    const uint32_t magnitude = u & ~kSignMask;
    const uint32_t sign = (u & kSignMask) >> 16;
    if (magnitude > kF32Infinity) return 0x7fff;
    // 65520 is half way between the largest f16 and the next power of two, a tie that rounds up to infinity.
    if (std::bit_cast<float>(magnitude) >= 65520.0f) return static_cast<uint16_t>(sign | 0x7c00u);
    if (std::bit_cast<float>(magnitude) < 0x1p-14f) {
        // One unit in the last place of 0.5 is 2^-24, the step of f16 subnormals: the addition does the rounding.
        const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
        return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5f)));
    }
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return static_cast<uint16_t>(sign | ((rounded >> 13) - (112u << 10)));
}

float e4m3_to_f32(uint8_t bits) {
    return kE4m3Values[bits];
}

uint8_t f32_to_e4m3(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    const uint32_t magnitude = u & ~kSignMask;
    const uint32_t sign = (u & kSignMask) >> 24;
    if (magnitude > kF32Infinity) return 0x7f;
    if (std::bit_cast<float>(magnitude) >= kE4m3Max) return static_cast<uint8_t>(sign | 0x7eu);
    if (std::bit_cast<float>(magnitude) < 0x1p-6f) {
        // One unit in the last place of 2^14 is 2^-9, the step of e4m3 subnormals.
        const float shifted = std::bit_cast<float>(magnitude) + 0x1p14f;
        return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0x1p14f)));
    }
    const uint32_t rounded = magnitude + 0x7ffffu + ((magnitude >> 20) & 1u);
    return static_cast<uint8_t>(sign | ((rounded >> 20) - (120u << 3)));
}

}  // namespace nvfp4r
