// Loads, stores and atomics with their cache and memory-order qualifiers. Section numbers: PTX ISA 9.0.
#pragma once

namespace nvfp4r::ptx {

struct alignas(16) Words4 {
    unsigned x, y, z, w;
};

struct alignas(8) Words2 {
    unsigned x, y;
};

/// ld.global.nc.L1::no_allocate.v4 (9.7.9.9): read-only data used once by this SM.
__device__ __forceinline__ Words4 ld_global_nc_no_allocate_v4(const void* address) {
    Words4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(address));
    return v;
}

/// ld.global.nc (9.7.9.9): data that no thread writes while this grid runs.
__device__ __forceinline__ Words4 ld_global_nc_v4(const void* address) {
    Words4 v;
    asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(address));
    return v;
}
__device__ __forceinline__ Words2 ld_global_nc_v2(const void* address) {
    Words2 v;
    asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(address));
    return v;
}
__device__ __forceinline__ unsigned ld_global_nc_u32(const void* address) {
    unsigned v;
    asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(address));
    return v;
}
__device__ __forceinline__ unsigned ld_global_nc_u16(const void* address) {
    unsigned short v;
    asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(v) : "l"(address));
    return v;
}
__device__ __forceinline__ unsigned ld_global_nc_u8(const void* address) {
    unsigned v;
    asm volatile("ld.global.nc.u8 %0, [%1];" : "=r"(v) : "l"(address));
    return v;
}
__device__ __forceinline__ float ld_global_nc_f32(const float* address) {
    float v;
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(address));
    return v;
}

/// ld.relaxed.gpu (9.7.9.8): a strong read, so that a poll sees what another CTA stores.
__device__ __forceinline__ unsigned ld_relaxed_gpu_u32(const void* address) {
    unsigned v;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(address) : "memory");
    return v;
}
__device__ __forceinline__ unsigned long long ld_relaxed_gpu_u64(const void* address) {
    unsigned long long v;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(address) : "memory");
    return v;
}

/// st.relaxed.gpu (9.7.9.11): a strong write; the word carries its own validity, so no fence goes with it.
__device__ __forceinline__ void st_relaxed_gpu_u32(void* address, unsigned v) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(address), "r"(v) : "memory");
}
__device__ __forceinline__ void st_relaxed_gpu_u64(void* address, unsigned long long v) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(address), "l"(v) : "memory");
}
/// The same of four words (9.7.9.8, 9.7.9.11: a vector access is one access a word, in no promised order); each carries
/// its own validity.
__device__ __forceinline__ Words4 ld_relaxed_gpu_v4(const void* address) {
    Words4 v;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(address)
                 : "memory");
    return v;
}
__device__ __forceinline__ void st_relaxed_gpu_v4(void* address, Words4 v) {
    asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(v.x), "r"(v.y), "r"(v.z),
                 "r"(v.w)
                 : "memory");
}

/// atom.relaxed.gpu.add / .cas (9.7.13.5).
__device__ __forceinline__ unsigned long long atom_relaxed_gpu_add_u64(void* address, unsigned long long v) {
    unsigned long long old;
    asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(address), "l"(v) : "memory");
    return old;
}
__device__ __forceinline__ unsigned long long atom_relaxed_gpu_cas_u64(void* address, unsigned long long expected,
                                                                       unsigned long long desired) {
    unsigned long long old;
    asm volatile("atom.relaxed.gpu.global.cas.b64 %0, [%1], %2, %3;"
                 : "=l"(old)
                 : "l"(address), "l"(expected), "l"(desired)
                 : "memory");
    return old;
}

/// red.relaxed.gpu.add / .or (9.7.13.6).
__device__ __forceinline__ void red_relaxed_gpu_add_s32(int* address, int v) {
    asm volatile("red.relaxed.gpu.global.add.s32 [%0], %1;" ::"l"(address), "r"(v) : "memory");
}
__device__ __forceinline__ void red_relaxed_gpu_or_b32(unsigned* address, unsigned v) {
    asm volatile("red.relaxed.gpu.global.or.b32 [%0], %1;" ::"l"(address), "r"(v) : "memory");
}

/// red.shared::cta.max (9.7.13.6): largest of the CTA's values.
__device__ __forceinline__ void red_shared_max_u32(unsigned* address, unsigned v) {
    const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(address));
    asm volatile("red.relaxed.cta.shared::cta.max.u32 [%0], %1;" ::"r"(shared), "r"(v) : "memory");
}

}  // namespace nvfp4r::ptx
