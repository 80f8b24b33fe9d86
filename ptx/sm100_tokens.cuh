// The Blackwell kernel's tokens: global scales from the amax of whole rows, and the tile of a stage in the layout that the
// multiply reads, quantised on the way.
#pragma once

#include "isa/cluster.cuh"
#include "isa/launch.cuh"
#include "isa/memory.cuh"
#include "isa/warp.cuh"
#include "sm100_layout.cuh"

namespace nvfp4r {

inline constexpr unsigned kRowBlocks = kPlan.hidden / kScaleBlock;  // of a whole token

/// Before the setup's CTA barrier: zeros where amaxes will come, from other CTAs of the cluster too.
__device__ __forceinline__ void clear_amax(float (&token_scale)[kTileTokens], unsigned thread) {
    for (unsigned t = thread; t < kTileTokens; t += kThreads) token_scale[t] = 0.0f;
    if constexpr (kPlan.cluster > 1) ptx::barrier_cluster_arrive();
}

/// The largest magnitudes of the tile's tokens, as bits, to `amax` of every CTA of the cluster, whose CTAs read a share of
/// each row. All warps take part: several share a row where there are fewer rows than warps.
__device__ __forceinline__ void find_amax(const RouterParams& p, unsigned* amax, const Tile& tile, unsigned thread) {
    constexpr unsigned kWarps = kThreads / kWarp, kShare = ceil_div(kRowBlocks, kPlan.cluster);
    const unsigned first = kPlan.cluster > 1 ? ptx::cluster_ctarank() * kShare : 0;
    const unsigned end = min(first + kShare, kRowBlocks);
    const unsigned parts = tile.rows < kWarps ? kWarps / tile.rows : 1, lane = thread % kWarp;
    for (unsigned item = thread / kWarp; item < tile.rows * parts; item += kWarps) {
        const unsigned t = item / parts, part = item % parts;
        if (!row_is_valid(p, tile.first_row + t)) continue;
        unsigned largest = 0;
#pragma unroll 4
        for (unsigned b = first + part * kWarp + lane; b < end; b += parts * kWarp)
            largest =
                max(largest,
                    block_amax(load_block<kPlan.token_form>(p, tile.first_row + t, b * kScaleBlock, kPlan.hidden)));
        largest = ptx::redux_sync_max_u32(largest);
        if constexpr (kPlan.cluster > 1) {
            if (lane < kPlan.cluster) ptx::red_shared_cluster_max_u32(&amax[t], lane, largest);
        } else {
            if (lane == 0) ptx::red_shared_max_u32(&amax[t], largest);
        }
    }
}

/// Global scales of the tile's tokens: given ones, the static one, or from each row's amax. The whole CTA; ends with a
/// barrier where tokens are quantised, which takes the scales at once.
__device__ __forceinline__ void find_global_scales(const RouterParams& p, float (&token_scale)[kTileTokens],
                                                   const Tile& tile, unsigned thread) {
    if constexpr (kPlan.cluster > 1) ptx::barrier_cluster_wait();
    const bool from_amax = kPlan.quantise_tokens && !(p.hidden_global_scale > 0.0f);
    if constexpr (kPlan.quantise_tokens) {
        if (from_amax) {
            // Non-negative floats are in the order of their bits.
            find_amax(p, reinterpret_cast<unsigned*>(token_scale), tile, thread);
            if constexpr (kPlan.cluster > 1) {
                ptx::barrier_cluster_arrive();
                ptx::barrier_cluster_wait();
            } else {
                ptx::bar_sync();
            }
        }
    }
    for (unsigned t = thread; t < kTileTokens; t += kThreads) {
        float scale = kPlan.quantise_tokens ? p.hidden_global_scale : 1.0f;
        if (p.hidden_global_scales && t < tile.rows) scale = p.hidden_global_scales[tile.first_row + t];
        token_scale[t] = from_amax ? global_scale_of(token_scale[t]) : scale;
    }
    if constexpr (kPlan.quantise_tokens) ptx::bar_sync();
}

/// Byte of the scale of (token, 16-block of the stage) among the stage's token scales of one term.
__device__ __forceinline__ unsigned token_scale_offset(unsigned token, unsigned block) {
    constexpr unsigned kBlocksPerStep = kStepK / kScaleBlock;
    const unsigned atom = block / kBlocksPerStep * kTokenAtoms + token / kMmaExperts;
    return atom * kScaleAtom + token % 32 * 16 + token % kMmaExperts / 32 * 4 + block % kBlocksPerStep;
}

/// Byte of (token, 16-block of the stage) among the stage's token operands of one term; a block takes `bytes`.
__device__ __forceinline__ unsigned token_operand_offset(unsigned token, unsigned block, unsigned bytes) {
    const unsigned byte = block * bytes;
    return byte / kSwizzleRow * kTokenTileBytes + swizzled_offset(token, byte % kSwizzleRow);
}

/// One 16-block of bf16 planes.
__device__ __forceinline__ void write_planes(unsigned char* stage, unsigned token, unsigned block,
                                             const PlaneBlock (&planes)[kPlan.token_planes]) {
#pragma unroll
    for (unsigned t = 0; t < kPlan.token_planes; ++t)
#pragma unroll
        for (unsigned half = 0; half < 2; ++half)
            *reinterpret_cast<uint4*>(stage + kTokenOffset + t * kRows * kTokenTileBytes +
                                      token_operand_offset(token, 2 * block + half, 16)) =
                make_uint4(planes[t].word[4 * half], planes[t].word[4 * half + 1], planes[t].word[4 * half + 2],
                           planes[t].word[4 * half + 3]);
}

/// One 16-block of an NVFP4 term: codes and scale.
__device__ __forceinline__ void write_codes_and_scale(unsigned char* stage, unsigned term, unsigned token,
                                                      unsigned block, uint2 codes, unsigned scale) {
    *reinterpret_cast<uint2*>(stage + kTokenOffset + term * kRows * kTokenTileBytes +
                              token_operand_offset(token, block, 8)) = codes;
    stage[kTokenScaleOffset + term * kSteps * kTokenAtoms * kScaleAtom + token_scale_offset(token, block)] =
        static_cast<unsigned char>(scale);
}

/// One 16-block of a token into every plane of a stage.
__device__ __forceinline__ void write_token_block(const RouterParams& p, unsigned char* stage, unsigned token,
                                                  unsigned block, const RawBlock<kPlan.token_form>& raw, float scale,
                                                  const CodesOut& out) {
    if constexpr (!kScaled) {
        PlaneBlock planes[kPlan.token_planes];
        token_planes(raw, p, scale, out, planes);
        write_planes(stage, token, block, planes);
    } else if constexpr (kPlan.quantise_tokens) {
        float x[kScaleBlock];
#pragma unroll
        for (unsigned i = 0; i < kScaleBlock; ++i) x[i] = block_value<kPlan.token_form>(raw, i);
#pragma unroll
        for (unsigned t = 0; t < kPlan.token_planes; ++t) {
            const QuantisedBlock term = quantise_block(x, t == 0 ? block_magnitude(raw) : largest_bits(x), scale);
            if (t + 1 < kPlan.token_planes) residual_block(x, term, scale);
            if (t == 0) write_codes(p, kPlan.hidden, out, term);
            write_codes_and_scale(stage, t, token, block, make_uint2(term.word[0], term.word[1]), term.scale);
        }
    } else {
        write_codes_and_scale(stage, 0, token, block, make_uint2(raw.word[0], raw.word[1]),
                              raw.word[2] & 0x7fu);  // a UE4M3 number: its sign bit is not looked at
    }
}

/// The scales of tokens whose codes come by TMA. Padding rows have the scale 0, whatever their codes.
__device__ __forceinline__ void write_token_scale(const RouterParams& p, unsigned char* stage, unsigned token,
                                                  unsigned block, bool present, long long row, unsigned k) {
    stage[kTokenScaleOffset + token_scale_offset(token, block)] =
        static_cast<unsigned char>(present ? load_block_scale(p, row, k, kPlan.hidden) & 0x7fu : 0u);
}

/// Token warps: the CTA's K slice of the tile's tokens, stage by stage. Padding rows and what lies past K are zero.
__device__ __forceinline__ void write_tokens(const RouterParams& p, BlackwellShared& shared, unsigned char* ring,
                                             const Tile& tile, const Work& work, const Barriers& barriers,
                                             unsigned thread) {
    constexpr unsigned kStageBlocks = kStageK / kScaleBlock;
    for (unsigned i = 0; i < work.stage_count; ++i) {
        const Turn turn = turn_of(i);
        unsigned char* stage = ring + turn.stage * kStageBytes;
        if (i >= kPlan.stages) ptx::mbarrier_wait_parity(barriers.empty + turn.stage * kBarrierBytes, turn.parity ^ 1);
#pragma unroll 1
        for (unsigned j = thread; j < kTileTokens * kStageBlocks; j += kTokenThreads) {
            const unsigned token = j / kStageBlocks, block = j % kStageBlocks;
            const unsigned k = (work.first_stage + i) * kStageK + block * kScaleBlock;
            const long long row = tile.first_row + token;
            const bool present = k < kPlan.hidden && row_is_valid(p, row);
            if constexpr (kScaled && kPlan.token_form == TokenForm::Nvfp4) {
                if (copies_tokens(p)) {
                    write_token_scale(p, stage, token, block, present, row, k);
                    continue;
                }
            }
            const RawBlock<kPlan.token_form> raw =
                present ? load_block<kPlan.token_form>(p, row, k, kPlan.hidden) : empty_block<kPlan.token_form>();
            const CodesOut out{given(p.codes_out) && work.group == 0 && token < tile.rows && k < kPlan.hidden, row, k};
            write_token_block(p, stage, token, block, raw, shared.token_scale[token], out);
        }
        ptx::fence_proxy_async_shared();
        ptx::bar_warp_sync();
        if (thread % kWarp == 0) ptx::mbarrier_arrive(barriers.written + turn.stage * kBarrierBytes);
    }
}

/// tcgen05.cp reads whole atoms of 128 tokens: those past the tile have the scale 0 in every stage.
__device__ __forceinline__ void clear_token_scales(unsigned char* ring, unsigned thread) {
    constexpr unsigned kWords = kPlan.token_planes * kSteps * kTokenAtoms * kScaleAtom / 16;
    for (unsigned i = thread; i < kPlan.stages * kWords; i += kTokenThreads)
        *reinterpret_cast<uint4*>(ring + i / kWords * kStageBytes + kTokenScaleOffset + i % kWords * 16) =
            make_uint4(0, 0, 0, 0);
}

}  // namespace nvfp4r
