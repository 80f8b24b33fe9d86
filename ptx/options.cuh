// What a call may leave out. A plain kernel has no code for any of it, so its checks cost nothing.
#pragma once

#include "kernel_plan.h"

namespace nvfp4r {

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
