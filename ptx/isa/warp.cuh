// Exchange between the lanes of a warp. Section numbers: PTX ISA 9.0. All 32 lanes take part.
#pragma once

namespace nvfp4r::ptx {

/// shfl.sync.bfly (9.7.9.6): the value of lane ^ mask.
__device__ __forceinline__ float shfl_sync_bfly(float v, int mask) {
    float r;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(r) : "f"(v), "r"(mask));
    return r;
}

/// redux.sync.max.u32 (9.7.13.10): the largest value of the warp, in every lane.
__device__ __forceinline__ unsigned redux_sync_max_u32(unsigned v) {
    unsigned r;
    asm volatile("redux.sync.max.u32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(v));
    return r;
}

}  // namespace nvfp4r::ptx
