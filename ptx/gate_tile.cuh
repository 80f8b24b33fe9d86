// The gate's packed tiles, 16 experts x 64 k each, as a warp loads them and as mma.m16n8k16 wants them.
//
// Lane (g = lane / 4, c = lane % 4) of a tile holds rows g and g + 8 and the 16 values k = 16c .. 16c+15 of both. Step
// s of the tile's four mma steps multiplies k = 16c + 4s .. +3 of every c: the order of k inside a step is a
// permutation of the natural one, the same for gate and tokens, so a token's fragments are its own 16 consecutive
// values, and a 16-value NVFP4 block never leaves its lane.
#pragma once

#include "isa/memory.cuh"
#include "isa/mma.cuh"
#include "kernel_plan.h"
#include "nvfp4.cuh"
#include "token_tile.cuh"

namespace nvfp4r {

/// What a sum of products has to be multiplied by. It is no part of alpha, which may be near the largest f32.
inline constexpr float kGateFactor = kPlan.gate_form == GateForm::Nvfp4 ? kNvfp4GateFactor : 1.0f;
inline constexpr unsigned kSteps = kChunk / 16;
inline constexpr unsigned kChunks = (kPlan.hidden + kChunk - 1) / kChunk;

/// One tile of one plane in registers, still packed.
struct GateTile {
    static constexpr bool kNvfp4 = kPlan.gate_form == GateForm::Nvfp4;
    static constexpr unsigned kQuads = kNvfp4 ? 1 : 4;
    ptx::Words4 quad[kQuads];
    unsigned scales;  // NVFP4: byte 0 of row g, byte 1 of row g + 8
};

/// Loads the tile of 16 experts `expert_tile` at K chunk `chunk`.
__device__ __forceinline__ GateTile load_gate_tile(const RouterParams& p, unsigned plane, unsigned expert_tile,
                                                   unsigned chunk, unsigned lane) {
    GateTile tile;
    const unsigned long long at = (static_cast<unsigned long long>(expert_tile) * kChunks + chunk) * kWarp + lane;
    const auto* codes = static_cast<const ptx::Words4*>(p.gate_codes[plane]) + at * GateTile::kQuads;
#pragma unroll
    for (unsigned i = 0; i < GateTile::kQuads; ++i) tile.quad[i] = ptx::ld_global_nc_no_allocate_v4(codes + i);
    tile.scales = 0;
    if constexpr (GateTile::kNvfp4)
        tile.scales = ptx::ld_global_nc_u16(static_cast<const unsigned short*>(p.gate_scales[plane]) + at);
    return tile;
}

/// The A fragments of the tile's four steps.
struct GateFragments {
    unsigned a[kSteps][4];
};

__device__ __forceinline__ GateFragments gate_fragments(const GateTile& tile) {
    GateFragments f;
    if constexpr (GateTile::kNvfp4) {
        const unsigned upper = gate_scale(tile.scales & 0xffu), lower = gate_scale(tile.scales >> 8);
        dequantise_word(tile.quad[0].x, upper, lower, f.a[0]);
        dequantise_word(tile.quad[0].y, upper, lower, f.a[1]);
        dequantise_word(tile.quad[0].z, upper, lower, f.a[2]);
        dequantise_word(tile.quad[0].w, upper, lower, f.a[3]);
    } else {
#pragma unroll
        for (unsigned s = 0; s < kSteps; ++s) {
            const ptx::Words4& q = tile.quad[s % GateTile::kQuads];
            f.a[s][0] = q.x;
            f.a[s][1] = q.y;
            f.a[s][2] = q.z;
            f.a[s][3] = q.w;
        }
    }
    return f;
}

/// acc += tile * tokens over the tile's 64 k: steps ascending, and in each step the token planes in order.
__device__ __forceinline__ void multiply_tile(float (&acc)[4], const GateFragments& gate, unsigned gate_plane,
                                              const PlaneBlock (&tokens)[kTokenPlanes]) {
#pragma unroll
    for (unsigned s = 0; s < kSteps; ++s)
#pragma unroll
        for (unsigned q = 0; q < kTokenPlanes; ++q)
            if (gate_plane + q < kPlan.product_order)
                ptx::mma_m16n8k16_bf16(acc, gate.a[s], tokens[q].word[2 * s], tokens[q].word[2 * s + 1]);
}

}  // namespace nvfp4r
