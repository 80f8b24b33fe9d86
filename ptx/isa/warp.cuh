// Exchange between the lanes of a warp. Section numbers: PTX ISA 9.0. All 32 lanes take part.
#pragma once

namespace nvfp4r::ptx {

/// shfl.sync.bfly (9.7.9.6): the value of lane ^ mask.
__device__ __forceinline__ float shfl_sync_bfly(float v, int mask) {
    float r;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(r) : "f"(v), "r"(mask));
    return r;
}

/// vote.sync.all.pred (9.7.13.6): whether `predicate` holds in every lane.
__device__ __forceinline__ bool vote_sync_all(bool predicate) {
    unsigned all;
    asm volatile(
        "{\n\t.reg .pred in, out;\n\tsetp.ne.u32 in, %1, 0;\n\tvote.sync.all.pred out, in, 0xffffffff;\n\t"
        "selp.u32 %0, 1, 0, out;\n\t}"
        : "=r"(all)
        : "r"(static_cast<unsigned>(predicate))
        : "memory");
    return all != 0;
}

/// redux.sync.max.u32 (9.7.13.10): the largest value of the warp, in every lane.
__device__ __forceinline__ unsigned redux_sync_max_u32(unsigned v) {
    unsigned r;
    asm volatile("redux.sync.max.u32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(v));
    return r;
}

/// elect.sync (9.7.13.14): true in one lane, the same in every call. The compiler knows that one lane is left and issues
/// a tcgen05 instruction as it stands; behind a compare of lane numbers it puts each in a loop over the lanes.
__device__ __forceinline__ bool elect_sync() {
    unsigned elected;
    asm volatile("{\n\t.reg .pred elected;\n\telect.sync _|elected, 0xffffffff;\n\tselp.u32 %0, 1, 0, elected;\n\t}"
                 : "=r"(elected)::"memory");
    return elected != 0;
}

}  // namespace nvfp4r::ptx
