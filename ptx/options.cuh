// What a call may leave out. A plain kernel has no code for any of it, so its checks cost nothing.
#pragma once

#include "kernel_plan.h"
#include "router_params.h"

namespace nvfp4r {

template <bool kPlain>
struct ParamsOf {
    using Type = RouterParams;
};
template <>
struct ParamsOf<true> {
    using Type = CallParams;
};
/// The parameter block of a kernel.
using KernelParams = ParamsOf<kPlan.plain>::Type;

/// The block with its options, at which no plain kernel looks.
__device__ __forceinline__ const RouterParams& with_options(const KernelParams& params) {
    return static_cast<const RouterParams&>(params);
}

/// Whether an optional tensor is there.
template <class T>
__device__ __forceinline__ bool given(const T* tensor) {
    return !kPlan.plain && tensor != nullptr;
}

/// Whether an option that is off by default is on.
__device__ __forceinline__ bool enabled(int option) {
    return !kPlan.plain && option != 0;
}

}  // namespace nvfp4r
