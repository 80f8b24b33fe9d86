// Warp-level matrix multiply. Section numbers: PTX ISA 9.0.
#pragma once

namespace nvfp4r::ptx {

/// mma.sync.aligned.m16n8k16 bf16 -> f32 (9.7.14.5.8). With g = lane / 4, c = lane % 4:
/// a[0] = A[g][2c..], a[1] = A[g+8][2c..], a[2] = A[g][2c+8..], a[3] = A[g+8][2c+8..]; b0 = B[2c..][g], b1 =
/// B[2c+8..][g]; d[0..1] = D[g][2c..2c+1], d[2..3] = D[g+8][2c..2c+1].
__device__ __forceinline__ void mma_m16n8k16_bf16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
        "%2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace nvfp4r::ptx
