// Score functions in fp32, within a few units in the last place over the whole range (contract section 2).
#pragma once

#include "isa/math.cuh"
#include "router_params.h"

namespace nvfp4r {

inline constexpr float kInfinity = __builtin_bit_cast(float, 0x7f800000u);

/// e^x within about 2 ulp: the product x * log2(e) is carried in two parts, because ex2 turns an absolute error of its
/// argument into a relative one of its result.
__device__ __forceinline__ float exp_f32(float x) {
    constexpr float kLog2e = 1.44269502162933f, kLog2eLow = 1.92596303e-8f, kLn2 = 0.693147180559945f;
    const float high = x * kLog2e;
    const float low = fmaf(x, kLog2eLow, fmaf(x, kLog2e, -high));
    const float power = ptx::ex2_approx(high);
    // Infinite and zero powers have no use for a correction, which would be NaN there.
    return power > 0.0f && power <= 3.402823466e38f ? fmaf(power, low * kLn2, power) : power;
}

/// e^(a - b): what the subtraction rounds away is put back (2Sum), because it would be a relative error of the result.
__device__ __forceinline__ float exp_difference(float a, float b) {
    const float d = a - b;
    const float b_taken = a - d;
    const float left = (a - (d + b_taken)) + (b_taken - b);
    const float power = exp_f32(d);
    return fmaf(power, left, power);
}

/// a / b within an ulp, for b well inside the range of normal numbers: rcp with one correction of the quotient.
__device__ __forceinline__ float divide(float a, float b) {
    const float r = ptx::rcp_approx_ftz(b);
    const float q = a * r;
    return fmaf(fmaf(-q, b, a), r, q);
}

/// log(1 + t) for 0 <= t <= 1 by 2 atanh(t / (2 + t)): no cancellation however small t is. The polynomial is
/// (atanh(s) / s - 1) / s^2 in s^2 on [0, 1/9], within 2^-25.
__device__ __forceinline__ float log1p_unit(float t) {
    const float s = divide(t, 2.0f + t);
    const float z = s * s;
    float p = fmaf(z, 0.13425749f, 0.141183099f);
    p = fmaf(z, p, 0.200037803f);
    p = fmaf(z, p, 0.333333202f);
    const float twice = 2.0f * s;
    return fmaf(twice * z, p, twice);
}

__device__ __forceinline__ float sigmoid(float x) {
    const float t = exp_f32(-fabsf(x));
    return divide(x >= 0.0f ? 1.0f : t, 1.0f + t);
}

/// Within an ulp, without the branch and the call that sqrt.rn makes of it; 0 and infinity are their own roots.
__device__ __forceinline__ float square_root(float x) {
    const float r = ptx::rsqrt_approx(x), root = x * r;
    return x > 0.0f && x < kInfinity ? fmaf(fmaf(-root, root, x), 0.5f * r, root) : x;
}

__device__ __forceinline__ float sqrt_softplus(float x) {
    return square_root(fmaxf(x, 0.0f) + log1p_unit(exp_f32(-fabsf(x))));
}

/// c * tanh(x / c) with tanh(y) = (1 - e^-2|y|) / (1 + e^-2|y|), and y - y^3/3 where that would cancel.
__device__ __forceinline__ float soft_cap(float x, float c) {
    const float y = ptx::div_rn(x, c);
    const float a = fabsf(y);
    const float t = exp_f32(-2.0f * a);
    const float z = a * a;
    // Odd Taylor polynomial of tanh up to a^9: within 2^-24 for a <= 0.25.
    const float small =
        fmaf(a * z, fmaf(z, fmaf(z, fmaf(z, 62.0f / 2835.0f, -17.0f / 315.0f), 2.0f / 15.0f), -1.0f / 3.0f), a);
    const float large = divide(1.0f - t, 1.0f + t);
    const float tanh = a < 0.25f ? small : large;
    return c * (y < 0.0f ? -tanh : (y == y ? tanh : y));
}

/// The score of one logit for every function but softmax, which needs the row. NaN in, NaN out.
template <Score kScore>
__device__ __forceinline__ float score_of(float logit) {
    if constexpr (kScore == Score::SqrtSoftplus) return logit == logit ? sqrt_softplus(logit) : logit;
    if constexpr (kScore == Score::Sigmoid) return sigmoid(logit);
    return logit;
}

}  // namespace nvfp4r
