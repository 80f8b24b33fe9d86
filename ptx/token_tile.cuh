// What the kernels do with the tokens of their tile, whatever multiplies them.
#pragma once

#include "isa/launch.cuh"
#include "isa/memory.cuh"
#include "isa/warp.cuh"
#include "kernel_plan.h"
#include "tokens.cuh"

namespace nvfp4r {

inline constexpr unsigned kTileTokens = kPlan.token_tiles * kTokenTile;
inline constexpr unsigned kTokenPlanes = kPlan.token_planes;
/// Whether tokens have a global scale each.
inline constexpr bool kScaleTokens = kPlan.quantise_tokens || kPlan.token_form == TokenForm::Nvfp4;

/// The tokens that the CTAs of one blockIdx.y share.
struct Tile {
    unsigned index;
    long long first_row;
    unsigned rows;
};

__device__ __forceinline__ Tile tile_of_cta(const RouterParams& p) {
    const long long first = p.first_row + static_cast<long long>(blockIdx.y) * kTileTokens;
    const long long left = p.tokens - first;
    return {blockIdx.y, first, left < kTileTokens ? static_cast<unsigned>(left) : kTileTokens};
}

/// A block of a token as planes, converted as the plan says. A template, so that only the plan's branch has to compile.
template <TokenForm kForm>
__device__ __forceinline__ void token_planes(const RawBlock<kForm>& raw, const RouterParams& p, float global_scale,
                                             const CodesOut& out, PlaneBlock (&planes)[kTokenPlanes]) {
    if constexpr (kForm == TokenForm::Nvfp4) {
        dequantise_block(raw, planes[0]);
    } else if constexpr (kPlan.quantise_tokens) {
        quantise_planes<kForm>(raw, global_scale, p, kPlan.hidden, out, planes);
    } else if constexpr (kForm == TokenForm::Bf16) {
#pragma unroll
        for (unsigned j = 0; j < kScaleBlock / 2; ++j) planes[0].word[j] = raw.word[j];
    } else {
        split_block<kForm>(raw, planes);
    }
}

/// Global scales of the tile's tokens: given ones, the static one, or from each row's amax. The whole CTA; ends with a
/// barrier.
template <unsigned kThreads>
__device__ __forceinline__ void find_token_scales(const RouterParams& p, float (&token_scale)[kTileTokens],
                                                  const Tile& tile, unsigned thread) {
    const bool from_amax = kPlan.quantise_tokens && !(p.hidden_global_scale > 0.0f);
    for (unsigned t = thread; t < kTileTokens; t += kThreads) {
        float scale = kPlan.quantise_tokens ? p.hidden_global_scale : 1.0f;
        if (p.hidden_global_scales && t < tile.rows) scale = p.hidden_global_scales[tile.first_row + t];
        token_scale[t] = from_amax ? 0.0f : scale;
    }
    if constexpr (kPlan.quantise_tokens) {
        if (from_amax) {
            ptx::bar_sync();
            // A warp takes a row, or where there are more warps than rows, a piece of one, with a few loads in flight.
            constexpr unsigned kWarps = kThreads / kWarp, kBlocks = kPlan.hidden / kScaleBlock;
            constexpr unsigned kParts = ceil_div(kBlocks, kWarp),
                               kInFlight = kPlan.token_form == TokenForm::F32 ? 2 : 4;
            const unsigned span = min(max(tile.rows * kParts / kWarps, 1u), kParts), pieces = ceil_div(kParts, span);
#pragma unroll 1
            for (unsigned item = thread / kWarp; item < tile.rows * pieces; item += kWarps) {
                const unsigned t = item / pieces, first = item % pieces * span, end = min(first + span, kParts);
                if (!row_is_valid(p, tile.first_row + t)) continue;
                unsigned amax = 0;
#pragma unroll 1
                for (unsigned part = first; part < end; part += kInFlight) {
                    RawBlock<kPlan.token_form> raw[kInFlight];
#pragma unroll
                    for (unsigned i = 0; i < kInFlight; ++i) {
                        const unsigned block = (part + i) * kWarp + thread % kWarp;
                        raw[i] =
                            part + i < end && block < kBlocks
                                ? load_block<kPlan.token_form>(p, tile.first_row + t, block * kScaleBlock, kPlan.hidden)
                                : empty_block<kPlan.token_form>();
                    }
#pragma unroll
                    for (unsigned i = 0; i < kInFlight; ++i) amax = max(amax, block_amax(raw[i]));
                }
                amax = ptx::redux_sync_max_u32(amax);
                // Non-negative floats are in the order of their bits.
                if (thread % kWarp == 0) ptx::red_shared_max_u32(reinterpret_cast<unsigned*>(&token_scale[t]), amax);
            }
            ptx::bar_sync();
            for (unsigned t = thread; t < kTileTokens; t += kThreads) token_scale[t] = global_scale_of(token_scale[t]);
        }
    }
    ptx::bar_sync();
}

}  // namespace nvfp4r
