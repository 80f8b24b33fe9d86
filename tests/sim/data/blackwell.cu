// Parser input: inline assembly as kernels for sm_100a write it: TMA, mbarrier, tcgen05, scoped registers and labels.
#include <cuda.h>

#include <cstdint>

__device__ inline uint32_t shared(const void* p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ inline void wait(uint32_t bar, uint32_t parity) {
    asm volatile(
        "{\n.reg .pred P1;\nWAIT: mbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n@P1 bra DONE; bra "
        "WAIT;\nDONE:\n}" ::"r"(bar),
        "r"(parity)
        : "memory");
}

extern "C" __global__ void __launch_bounds__(128, 1)
    multiply(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float* out, uint64_t desc) {
    extern __shared__ __align__(1024) uint8_t tiles[];
    __shared__ __align__(8) uint64_t full, done;
    __shared__ uint32_t tmem;
    if (threadIdx.x == 0) {
        asm volatile(
            "mbarrier.init.shared::cta.b64 [%0], 1; mbarrier.init.shared::cta.b64 [%1], 1;" ::"r"(shared(&full)),
            "r"(shared(&done)));
        asm volatile("fence.mbarrier_init.release.cluster;");
    }
    __syncwarp();
    if (threadIdx.x < 32) {
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 64;" ::"r"(shared(&tmem))
                     : "memory");
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
    }
    __syncthreads();
    asm volatile("tcgen05.fence::after_thread_sync;");
    const uint32_t t = tmem;
    if (threadIdx.x == 0) {
        asm volatile("prefetch.tensormap [%0];" ::"l"(&a));
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared(&full)), "r"(20480)
                     : "memory");
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::
                "r"(shared(tiles)),
            "l"(&a), "r"(shared(&full)), "r"(0), "r"(int(blockIdx.x * 128))
            : "memory");
        asm volatile(
            "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
            " [%0], [%1, {%3, %4, 0}], [%2], %5;" ::"r"(shared(tiles + 16384)),
            "l"(&b), "r"(shared(&full)), "r"(0), "r"(0), "l"(0x12F0000000000000ull)
            : "memory");
        wait(shared(&full), 0);
        asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(t + 32), "l"(desc));
        asm volatile(
            "{ .reg .pred p; setp.ne.b32 p, %5, 0;\n"
            "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16 [%0], %1, %2, %3, [%4], [%6], p; }" ::"r"(t),
            "l"(desc), "l"(desc + 2), "r"(0x08020480), "r"(t + 32), "r"(0), "r"(t + 36));
        asm volatile(
            "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(shared(&done)));
    }
    wait(shared(&done), 0);
    asm volatile("tcgen05.fence::after_thread_sync;");
    uint32_t r[4];
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(t + ((threadIdx.x / 32) << 21)));
    asm volatile("tcgen05.wait::ld.sync.aligned;");
    for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = __uint_as_float(r[i]);
    __syncthreads();
    if (threadIdx.x < 32) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 64;" ::"r"(t));
}
