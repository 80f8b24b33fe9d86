// Everything that the tensor core of a Blackwell SM does for the router, issued by one thread.
#pragma once

#include "isa/tcgen05.cuh"
#include "sm100_layout.cuh"

namespace nvfp4r {

inline constexpr unsigned kInstruction = instruction_descriptor < kScaled ? Kind::Mxf4nvf4
                                                                          : Kind::Bf16 > (kMmaExperts, kTileTokens);

/// A stage's scale atoms to its own columns of tensor memory.
__device__ __forceinline__ void copy_scales(const Work& work, unsigned stage, unsigned steps, unsigned gate_scales,
                                            unsigned token_scales) {
    for (unsigned q = 0; q < kPlan.gate_planes; ++q)
        for (unsigned b = 0; b < work.blocks; ++b)
            for (unsigned s = 0; s < steps; ++s) {
                const unsigned atom = (q * kBlocks + b) * kSteps + s;
                ptx::tcgen05_cp_32x128b_warpx4(gate_scales + atom * kAtomColumns,
                                               scale_atom(stage + kGateScaleOffset + atom * kScaleAtom));
            }
    for (unsigned t = 0; t < kPlan.token_planes; ++t)
        for (unsigned a = 0; a < steps * kTokenAtoms; ++a) {
            const unsigned atom = t * kSteps * kTokenAtoms + a;
            ptx::tcgen05_cp_32x128b_warpx4(token_scales + atom * kAtomColumns,
                                           scale_atom(stage + kTokenScaleOffset + atom * kScaleAtom));
        }
}

/// The stage's products: gate term q with token term t, over the steps of K. `first`: of the CTA, overwrites D.
__device__ __forceinline__ void multiply_terms(const Work& work, unsigned q, unsigned t, bool first, unsigned steps,
                                               unsigned stage, unsigned tmem, unsigned gate_scales,
                                               unsigned token_scales) {
    const unsigned long long tokens = swizzled_tile(stage + kTokenOffset + t * kRows * kTokenTileBytes);
    for (unsigned b = 0; b < work.blocks; ++b) {
        const unsigned tile = q * kBlocks + b, d = tmem + b * kTileTokens;
        const unsigned long long gate = swizzled_tile(stage + kGateOffset + tile * kRows * kGateTileBytes);
        for (unsigned s = 0; s < steps; ++s) {
            const unsigned row = s / kRowSteps, in_row = s % kRowSteps * kStepBytes;
            const unsigned long long a = advance(gate, row * kGateTileBytes + in_row);
            const unsigned long long x = advance(tokens, row * kTokenTileBytes + in_row);
            const unsigned accumulate = !first || s != 0;
            if constexpr (kScaled)
                ptx::tcgen05_mma_mxf4nvf4_block16(
                    d, a, x, kInstruction, gate_scales + (tile * kSteps + s) * kAtomColumns,
                    token_scales + (t * kSteps + s) * kTokenAtoms * kAtomColumns, accumulate);
            else
                ptx::tcgen05_mma_f16(d, a, x, kInstruction, accumulate);
        }
    }
}

/// The CTA's slice of K, stage by stage.
__device__ __forceinline__ void multiply(const Work& work, unsigned ring, const Barriers& barriers, unsigned tmem) {
    for (unsigned i = 0; i < work.stage_count; ++i) {
        const Turn turn = turn_of(i);
        const unsigned steps = steps_of(work.first_stage + i);
        ptx::mbarrier_wait_parity(barriers.copied + turn.stage * kBarrierBytes, turn.parity);
        ptx::mbarrier_wait_parity(barriers.written + turn.stage * kBarrierBytes, turn.parity);
        // Also what orders this thread's first tensor operation after the allocation.
        ptx::tcgen05_fence_after_thread_sync();
        const unsigned stage = ring + turn.stage * kStageBytes;
        const unsigned gate_scales = tmem + kAccumulatorColumns + turn.stage * kStageColumns;
        const unsigned token_scales = gate_scales + kGateScaleColumns;
        if constexpr (kScaled) copy_scales(work, stage, steps, gate_scales, token_scales);
        for (unsigned order = 0; order < kPlan.product_order; ++order)
            for (unsigned t = 0; t <= order; ++t)
                if (order - t < kPlan.gate_planes && t < kPlan.token_planes)
                    multiply_terms(work, order - t, t, i == 0 && order == 0, steps, stage, tmem, gate_scales,
                                   token_scales);
        if (i + kPlan.stages < work.stage_count) ptx::tcgen05_commit(barriers.empty + turn.stage * kBarrierBytes);
    }
    ptx::tcgen05_commit(barriers.done);
}

}  // namespace nvfp4r
