// mbarrier: the hardware's phase counter in shared memory. Section numbers: PTX ISA 9.0.
#pragma once

namespace nvfp4r::ptx {

/// A shared-memory address as the 32-bit instructions take it.
__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

/// mbarrier.init (9.7.13.15.9): `count` arrivals end a phase.
__device__ __forceinline__ void mbarrier_init(unsigned barrier, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

/// fence.mbarrier_init (9.7.13.4): initialised barriers become visible to the async proxy and to the cluster.
__device__ __forceinline__ void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// mbarrier.arrive (9.7.13.15.13), release at CTA scope.
__device__ __forceinline__ void mbarrier_arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/// mbarrier.arrive.expect_tx (9.7.13.15.13): one arrival, and `bytes` more to come by asynchronous copies.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/// mbarrier.try_wait.parity (9.7.13.15.16) until the phase of that parity has ended: acquire at CTA scope. A fresh barrier
/// counts as having ended the phase of parity 1.
__device__ __forceinline__ void mbarrier_wait_parity(unsigned barrier, unsigned parity) {
    unsigned done;
    do {
        asm volatile(
            "{\n\t.reg .pred done;\n\tmbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n\t"
            "selp.u32 %0, 1, 0, done;\n\t}"
            : "=r"(done)
            : "r"(barrier), "r"(parity)
            : "memory");
    } while (!done);
}

/// fence.proxy.async (9.7.13.4): earlier generic writes to shared memory become visible to TMA and tensor core reads.
__device__ __forceinline__ void fence_proxy_async_shared() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace nvfp4r::ptx
