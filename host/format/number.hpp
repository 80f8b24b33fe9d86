// Scalar number formats: bf16, f16, e4m3, e2m1 to and from f32. All roundings are to nearest, ties to even.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace nvfp4r {

inline float bf16_to_f32(uint16_t bits) {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

/// NaN becomes 0x7fff, as cvt.rn.bf16.f32 gives (PTX ISA 9.7.9.21).
inline uint16_t f32_to_bf16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
    return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);  // overflow gives infinity, NaN 0x7fff

/// e4m3 (S.EEEE.MMM, bias 7, no infinity, 0x7f and 0xff are NaN).
float e4m3_to_f32(uint8_t bits);
uint8_t f32_to_e4m3(float value);  // saturates at 448, NaN gives 0x7f

inline constexpr float kE2m1[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
inline constexpr float kE2m1Max = 6.0f;
inline constexpr float kE4m3Max = 448.0f;

inline float e2m1_to_f32(uint8_t code) {
    return (code & 8u) ? -kE2m1[code & 7u] : kE2m1[code & 7u];
}

/// Saturates at 6; the sign of zero is kept; NaN gives +6 as the hardware does. Ties go to the even code, so the
/// thresholds 0.25, 1.25, 2.5 and 5 belong to the code below and 0.75, 1.75 and 3.5 to the one above.
inline uint8_t f32_to_e2m1(float value) {
    if (value != value) return 7;
    const float a = std::fabs(value);
    const int code = (a > 0.25f) + (a >= 0.75f) + (a > 1.25f) + (a >= 1.75f) + (a > 2.5f) + (a >= 3.5f) + (a > 5.0f);
    return static_cast<uint8_t>(code | (std::signbit(value) ? 8 : 0));
}

}  // namespace nvfp4r
