// What the TMA unit brings into a stage of the Blackwell kernel's ring: gate codes and their scales, and the codes of NVFP4
// tokens.
#pragma once

#include "isa/memory.cuh"
#include "isa/tma.cuh"
#include "sm100_layout.cuh"

namespace nvfp4r {

/// Stage i of the CTA, gate: announces all bytes of the stage, tokens' included. The gate does not depend on the
/// stream's previous kernel, so nothing here waits for it.
__device__ __forceinline__ void copy_gate(const RouterParams& p, const ptx::TensorMap& gate, const Work& work,
                                          unsigned i, unsigned ring, const Barriers& barriers,
                                          unsigned long long policy) {
    constexpr unsigned kPlaneRows = kAllBlocks * kMmaExperts;
    const Turn turn = turn_of(i);
    const unsigned k_stage = work.first_stage + i, steps = steps_of(k_stage), rows = ceil_div(steps, kRowSteps);
    const unsigned copied = barriers.copied + turn.stage * kBarrierBytes;
    const unsigned scale_bytes = kScaled ? steps * kScaleAtom : 0;
    const unsigned token_bytes = copies_tokens(p) ? rows * kTokenTileBytes : 0;
    ptx::mbarrier_arrive_expect_tx(
        copied, kPlan.gate_planes * work.blocks * (rows * kGateTileBytes + scale_bytes) + token_bytes);
    const unsigned stage = ring + turn.stage * kStageBytes;
    for (unsigned q = 0; q < kPlan.gate_planes; ++q)
        for (unsigned b = 0; b < work.blocks; ++b) {
            const unsigned tile = q * kBlocks + b, block = work.first_block + b;
            for (unsigned r = 0; r < rows; ++r)
                ptx::cp_async_bulk_tensor_2d(stage + kGateOffset + (tile * kRows + r) * kGateTileBytes, &gate,
                                             static_cast<int>((k_stage * kRows + r) * kSwizzleRow),
                                             static_cast<int>(q * kPlaneRows + block * kMmaExperts), copied, policy);
            if constexpr (kScaled) {
                const auto* scales = static_cast<const unsigned char*>(p.gate_scales[q]) +
                                     (static_cast<unsigned long long>(block) * kKSteps + k_stage * kSteps) * kScaleAtom;
                ptx::cp_async_bulk(stage + kGateScaleOffset + tile * kSteps * kScaleAtom, scales, scale_bytes, copied,
                                   policy);
            }
        }
}

/// Stage i of the CTA, NVFP4 tokens: the codes. What lies past M or K comes as zeros.
__device__ __forceinline__ void copy_tokens(const ptx::TensorMap& tokens, const Tile& tile, const Work& work,
                                            unsigned i, unsigned ring, const Barriers& barriers) {
    const Turn turn = turn_of(i);
    const unsigned k_stage = work.first_stage + i, rows = ceil_div(steps_of(k_stage), kRowSteps);
    const unsigned long long policy = ptx::createpolicy_evict_first();
    for (unsigned r = 0; r < rows; ++r)
        ptx::cp_async_bulk_tensor_2d(ring + turn.stage * kStageBytes + kTokenOffset + r * kTokenTileBytes, &tokens,
                                     static_cast<int>((k_stage * kRows + r) * kSwizzleRow),
                                     static_cast<int>(tile.first_row), barriers.copied + turn.stage * kBarrierBytes,
                                     policy);
}

/// Stages that the ring holds at once: their gate is on its way before the previous kernel ends.
__device__ __forceinline__ unsigned first_turns(const Work& work) {
    return min(kPlan.stages, work.stage_count);
}

__device__ __forceinline__ void copy_first_gate(const RouterParams& p, const ptx::TensorMap& gate, const Work& work,
                                                unsigned ring, const Barriers& barriers) {
    const unsigned long long policy = ptx::createpolicy_evict_last();
    for (unsigned i = 0; i < first_turns(work); ++i) copy_gate(p, gate, work, i, ring, barriers, policy);
}

/// Everything else, once the previous kernel has ended.
__device__ __forceinline__ void copy_stages(const RouterParams& p, const ptx::TensorMap& gate,
                                            const ptx::TensorMap& tokens, const Tile& tile, const Work& work,
                                            unsigned ring, const Barriers& barriers) {
    const unsigned long long policy = ptx::createpolicy_evict_last();
    const unsigned at_once = first_turns(work);
    if (copies_tokens(p))
        for (unsigned i = 0; i < at_once; ++i) copy_tokens(tokens, tile, work, i, ring, barriers);
    for (unsigned i = at_once; i < work.stage_count; ++i) {
        const Turn turn = turn_of(i);
        ptx::mbarrier_wait_parity(barriers.empty + turn.stage * kBarrierBytes, turn.parity ^ 1);
        copy_gate(p, gate, work, i, ring, barriers, policy);
        if (copies_tokens(p)) copy_tokens(tokens, tile, work, i, ring, barriers);
    }
}

}  // namespace nvfp4r
