// Fifth-generation tensor cores: tensor memory (TMEM), copies into it, multiplies, loads. Section numbers: PTX ISA 9.0.
// A TMEM address is lane << 16 | column; a cell has 32 bits, a CTA sees 128 lanes by 512 columns.
#pragma once

namespace nvfp4r::ptx {

inline constexpr unsigned kTmemLaneShift = 16;

/// tcgen05.alloc (9.7.16.7.1), one whole warp: `columns` (a power of two, 32..512); the address is stored at `result` in
/// shared memory. Blocks until the SM has them free.
__device__ __forceinline__ void tcgen05_alloc(unsigned result, unsigned columns) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(result), "r"(columns)
                 : "memory");
}
/// tcgen05.relinquish_alloc_permit (9.7.16.7.1), one whole warp: this CTA allocates no more, another on the SM may.
__device__ __forceinline__ void tcgen05_relinquish_alloc_permit() {
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
}
/// tcgen05.dealloc (9.7.16.7.1), one whole warp: with the address and columns of the alloc.
__device__ __forceinline__ void tcgen05_dealloc(unsigned address, unsigned columns) {
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address), "r"(columns) : "memory");
}

/// tcgen05.cp 32x128b.warpx4 (9.7.16.9.2), one thread: a 512-byte atom of scales (32 rows of 16 bytes) to four columns of
/// all four lane quarters.
__device__ __forceinline__ void tcgen05_cp_32x128b_warpx4(unsigned address, unsigned long long descriptor) {
    asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(address), "l"(descriptor) : "memory");
}

/// tcgen05.mma kind::mxf4nvf4, one scale for 16 values (9.7.16.10.9.1), one thread: D (+)= (A * SFA) (B * SFB) over K = 64.
/// `accumulate` 0 overwrites D.
__device__ __forceinline__ void tcgen05_mma_mxf4nvf4_block16(unsigned d, unsigned long long a, unsigned long long b,
                                                             unsigned instruction, unsigned scales_a, unsigned scales_b,
                                                             unsigned accumulate) {
    asm volatile(
        "{\n\t.reg .pred accumulate;\n\tsetp.ne.u32 accumulate, %6, 0;\n\t"
        "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16 [%0], %1, %2, %3, [%4], [%5], accumulate;\n\t}" ::
            "r"(d),
        "l"(a), "l"(b), "r"(instruction), "r"(scales_a), "r"(scales_b), "r"(accumulate)
        : "memory");
}

/// tcgen05.mma kind::f16 (9.7.16.10.9.1), one thread: D (+)= A B over K = 16, f16 or bf16 operands, fp32 accumulator.
__device__ __forceinline__ void tcgen05_mma_f16(unsigned d, unsigned long long a, unsigned long long b,
                                                unsigned instruction, unsigned accumulate) {
    asm volatile(
        "{\n\t.reg .pred accumulate;\n\tsetp.ne.u32 accumulate, %4, 0;\n\t"
        "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, accumulate;\n\t}" ::"r"(d),
        "l"(a), "l"(b), "r"(instruction), "r"(accumulate)
        : "memory");
}

/// tcgen05.commit (9.7.16.12.1), one thread: the barrier gets one arrival when this thread's earlier multiplies and copies
/// are done. Implies tcgen05.fence::before_thread_sync.
__device__ __forceinline__ void tcgen05_commit(unsigned barrier) {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier)
                 : "memory");
}

/// tcgen05.fence (9.7.16.11): order asynchronous tensor operations with what other threads synchronise on.
__device__ __forceinline__ void tcgen05_fence_before_thread_sync() {
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}
__device__ __forceinline__ void tcgen05_fence_after_thread_sync() {
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

/// tcgen05.ld 32x32b.x8 (9.7.16.8.1), one whole warp: lane l of the warp's quarter, columns c..c+7. The registers are
/// undefined until tcgen05.wait::ld.
__device__ __forceinline__ void tcgen05_ld_32x32b_x8(float (&d)[8], unsigned address) {
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]), "=f"(d[4]), "=f"(d[5]), "=f"(d[6]), "=f"(d[7])
                 : "r"(address)
                 : "memory");
}
/// tcgen05.wait::ld (9.7.16.8.4), one whole warp. The values pass through it, so that no use moves in front.
__device__ __forceinline__ void tcgen05_wait_ld(float (&d)[8]) {
    asm volatile("tcgen05.wait::ld.sync.aligned;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
                 :
                 : "memory");
}

}  // namespace nvfp4r::ptx
