// Asynchronous copies from global to shared memory by the threads themselves. Section numbers: PTX ISA 9.0.
#pragma once

namespace nvfp4r::ptx {

/// cp.async.cg (9.7.9.25.3.1): 16 bytes past the L1. `target` is a shared::cta address.
__device__ __forceinline__ void cp_async_cg_16(unsigned target, const void* source) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(source) : "memory");
}
/// The same; with `present` false nothing is read and the 16 bytes become zero.
__device__ __forceinline__ void cp_async_cg_16_or_zero(unsigned target, const void* source, bool present) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source), "r"(present ? 16u : 0u)
                 : "memory");
}
/// cp.async.ca (9.7.9.25.3.1): 8 bytes.
__device__ __forceinline__ void cp_async_ca_8(unsigned target, const void* source) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(target), "l"(source) : "memory");
}

/// cp.async.commit_group (9.7.9.25.3.2).
__device__ __forceinline__ void cp_async_commit_group() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/// cp.async.wait_group (9.7.9.25.3.3): at most kPending of this thread's groups are left; what the others copied is
/// visible to this thread.
template <unsigned kPending>
__device__ __forceinline__ void cp_async_wait_group() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace nvfp4r::ptx
