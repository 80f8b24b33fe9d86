// Arithmetic and conversions, one function per instruction. Section numbers: PTX ISA 9.0; errors as measured on an
// H200.
#pragma once

namespace nvfp4r::ptx {

/// ex2.approx.f32 (9.7.3.21): 2^x within 2.1 ulp; subnormal results are kept.
__device__ __forceinline__ float ex2_approx(float x) {
    float r;
    asm("ex2.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}
/// rcp.approx.ftz.f32 (9.7.3.13): within 1 ulp.
__device__ __forceinline__ float rcp_approx_ftz(float x) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}
/// rsqrt.approx.f32 (9.7.3.17): within 1 ulp; subnormal operands are kept.
__device__ __forceinline__ float rsqrt_approx(float x) {
    float r;
    asm("rsqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}
/// div.rn.f32 (9.7.3.8), correctly rounded.
__device__ __forceinline__ float div_rn(float a, float b) {
    float r;
    asm("div.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}
/// max.s16x2 (9.7.1.13): of each half, signed.
__device__ __forceinline__ unsigned max_s16x2(unsigned a, unsigned b) {
    unsigned r;
    asm("max.s16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}
/// max.u16x2 (9.7.1.13): of each half.
__device__ __forceinline__ unsigned max_u16x2(unsigned a, unsigned b) {
    unsigned r;
    asm("max.u16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}
/// mul.rn.bf16x2 (9.7.4.3): subnormal operands and results are kept.
__device__ __forceinline__ unsigned mul_rn_bf16x2(unsigned a, unsigned b) {
    unsigned r;
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}
/// cvt.rn.satfinite.e4m3x2.f32 (9.7.9.21): nearest even, saturating at 448, NaN to 0x7f. The low byte is `low`.
__device__ __forceinline__ unsigned cvt_rn_satfinite_e4m3x2(float high, float low) {
    unsigned short r;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(high), "f"(low));
    return r;
}
/// cvt.rn.f16x2.e4m3x2 (9.7.9.21), exact.
__device__ __forceinline__ unsigned cvt_rn_f16x2_e4m3x2(unsigned bytes) {
    unsigned r;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"(static_cast<unsigned short>(bytes)));
    return r;
}
/// cvt.f32.f16 (9.7.9.21), exact.
__device__ __forceinline__ float cvt_f32_f16(unsigned bits) {
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(static_cast<unsigned short>(bits)));
    return r;
}
/// cvt.rn.bf16.f32 (9.7.9.21): nearest even.
__device__ __forceinline__ unsigned cvt_rn_bf16_f32(float x) {
    unsigned short r;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x));
    return r;
}

#if __CUDA_ARCH__ >= 1000
/// cvt.rn.satfinite.e2m1x2.f32 (9.7.9.21) of eight values: nearest, ties to the even code, at most 6, the sign kept. Value
/// i is nibble i.
__device__ __forceinline__ unsigned cvt_rn_satfinite_e2m1x8(const float (&x)[8]) {
    unsigned r;
    asm("{\n\t.reg .b8 b0, b1, b2, b3;\n\t"
        "cvt.rn.satfinite.e2m1x2.f32 b0, %2, %1;\n\tcvt.rn.satfinite.e2m1x2.f32 b1, %4, %3;\n\t"
        "cvt.rn.satfinite.e2m1x2.f32 b2, %6, %5;\n\tcvt.rn.satfinite.e2m1x2.f32 b3, %8, %7;\n\t"
        "mov.b32 %0, {b0, b1, b2, b3};\n\t}"
        : "=r"(r)
        : "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]), "f"(x[4]), "f"(x[5]), "f"(x[6]), "f"(x[7]));
    return r;
}
/// cvt.rn.f16x2.e2m1x2 (9.7.9.21) of the byte that the word starts with, exact.
__device__ __forceinline__ unsigned cvt_rn_f16x2_e2m1x2(unsigned word) {
    unsigned r;
    asm("{\n\t.reg .b8 byte, b1, b2, b3;\n\tmov.b32 {byte, b1, b2, b3}, %1;\n\tcvt.rn.f16x2.e2m1x2 %0, byte;\n\t}"
        : "=r"(r)
        : "r"(word));
    return r;
}
#endif

}  // namespace nvfp4r::ptx
