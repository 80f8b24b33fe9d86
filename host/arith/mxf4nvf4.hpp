// The tensor core's NVFP4 multiply, bit for bit: kind::mxf4nvf4 with block16 and e4m3 scales, one K = 64 step with an
// fp32 accumulator. The rules were established on a B200 (sf-tensor/tcgen05, tcgen05_model/MODEL.md): products are
// exact, the partial sums are truncated on a fixed-point grid, and the result is truncated to fp32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nvfp4r::arith {

inline constexpr int kStepK = 64;
inline constexpr int kStepBlocks = 4;  // scales of one row in a step
inline constexpr int kBlockK = kStepK / kStepBlocks;
inline constexpr uint32_t kCanonicalNan = 0x7fffffffu;  // what every tensor core writes for a NaN

/// One row's part of a step in the form that the multiply needs. Decode once, multiply with many.
struct Mxf4Row {
    int16_t value[kStepK];          // twice the e2m1 value, so that it is whole
    int16_t mantissa[kStepBlocks];  // scale = mantissa * 2^(exponent - 3); 0 for a zero scale
    int16_t exponent[kStepBlocks];  // raw exponent: that of the field, -6 for subnormals
    bool nan;                       // a scale byte is NaN
};

/// codes: 32 bytes, the even k in the low nibble. scales: 4 bytes of unsigned e4m3, whose top bit is not looked at.
Mxf4Row mxf4_decode(const uint8_t* codes, const uint8_t* scales);

/// Bits of C + sum over 64 k of a * b * sa * sb. `c` is fp32 bits. A NaN in C or in a scale gives kCanonicalNan; an
/// infinite C stays (not established on hardware); overflow gives infinity.
uint32_t mxf4nvf4_step(const Mxf4Row& a, const Mxf4Row& b, uint32_t c);

/// c[i * stride + j] = step(a[i], b[j], c[i * stride + j]) for every row i and column j.
void mxf4nvf4_tile(std::span<const Mxf4Row> a, std::span<const Mxf4Row> b, uint32_t* c, size_t stride);

}  // namespace nvfp4r::arith
