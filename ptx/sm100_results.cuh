// From the accumulators to experts: packets to whoever selects a token (join.cuh), or selection in the same CTA.
#pragma once

#include "isa/launch.cuh"
#include "isa/tcgen05.cuh"
#include "sm100_layout.cuh"

namespace nvfp4r {

/// Eight tokens of one block's accumulator: the lane's expert is block * 128 + warp % 4 * 32 + lane.
__device__ __forceinline__ void read_accumulators(float (&d)[kSelectTokens], unsigned tmem, unsigned block,
                                                  unsigned first_token, unsigned warp) {
    const unsigned quarter = warp % 4 * kWarp << ptx::kTmemLaneShift;
    ptx::tcgen05_ld_32x32b_x8(d, tmem + quarter + block * kTileTokens + first_token);
    ptx::tcgen05_wait_ld(d);
}

/// Token warps: the accumulators as packets to whoever selects the token.
__device__ __forceinline__ void send_accumulators(const RouterParams& p, const Tile& tile, const Work& work,
                                                  unsigned tmem, unsigned warp, unsigned lane) {
    const unsigned warpgroup = (warp - kFirstTokenWarp) / 4;
    for (unsigned b = 0; b < work.blocks; ++b) {
        const unsigned expert = (work.first_block + b) * kMmaExperts + warp % 4 * kWarp + lane;
        for (unsigned t = warpgroup * kSelectTokens; t < kTileTokens; t += kTokenWarps / 4 * kSelectTokens) {
            if (t >= tile.rows) break;
            float d[kSelectTokens];
            read_accumulators(d, tmem, b, t, warp);
            if (expert >= kPlan.experts) continue;
#pragma unroll
            for (unsigned j = 0; j < kSelectTokens; ++j)
                if (t + j < tile.rows) send_packet(p, tile, t + j, work.slice, expert, d[j]);
        }
    }
}

/// With K or the experts shared out: token warps send, and later the whole CTA joins what falls to it.
__device__ __forceinline__ void use_accumulators(const RouterParams& p, JoinSpace& space, const float*,
                                                 const Tile& tile, const Work& work, unsigned tmem,
                                                 unsigned long long ticket, unsigned thread) {
    if (thread == 0) space.ticket = ticket;
    if (thread / kWarp >= kFirstTokenWarp) send_accumulators(p, tile, work, tmem, thread / kWarp, thread % kWarp);
}
__device__ __forceinline__ void finish(const RouterParams& p, JoinSpace& space, const float* token_scale,
                                       const Tile& tile, unsigned thread) {
    select_joined<kThreads>(p, space, tile, thread, [&](unsigned t) { return p.alpha * token_scale[t]; });
}

/// One warp routes one token, whose sums lie in `value`.
__device__ __forceinline__ void select_local(const RouterParams& p, float* value, SelectSpace& space, long long row,
                                             float scale, unsigned lane) {
    if (!row_is_valid(p, row)) return write_padding_row<kWarp>(p, row, lane);
    for (unsigned e = lane; e < kPlan.experts; e += kWarp)
        value[e] = correct_logit(p, scale * value[e], row_linear_bias(p, e));
    const bool image = is_image_row(p, row);
    select_row<kWarp>(p, space, value, row, lane, [&](unsigned e) { return row_bias(p, image, e); });
}

/// With everything in this CTA: eight tokens at a time from the accumulators to shared memory, then a warp a token.
__device__ __forceinline__ void use_accumulators(const RouterParams& p, LocalSpace& space, const float* token_scale,
                                                 const Tile& tile, const Work&, unsigned tmem, unsigned long long,
                                                 unsigned thread) {
    static_assert(kPlan.warps >= kSelectTokens, "a warp selects a token");
    const unsigned warp = thread / kWarp, lane = thread % kWarp;
    for (unsigned first = 0; first < tile.rows; first += kSelectTokens) {
        if (warp >= kFirstTokenWarp && warp < kFirstTokenWarp + 4)
            for (unsigned b = 0; b < kBlocks; ++b) {
                const unsigned expert = b * kMmaExperts + warp % 4 * kWarp + lane;
                float d[kSelectTokens];
                read_accumulators(d, tmem, b, first, warp);
                if (expert < kPlan.experts)
#pragma unroll
                    for (unsigned j = 0; j < kSelectTokens; ++j) space.value[j][expert] = d[j];
            }
        ptx::bar_sync();
        const unsigned token = first + warp;
        if (warp < kSelectTokens && token < tile.rows)
            select_local(p, space.value[warp], space.select[warp], tile.first_row + token, p.alpha * token_scale[token],
                         lane);
        ptx::bar_sync();
    }
}
__device__ __forceinline__ void finish(const RouterParams&, LocalSpace&, const float*, const Tile&, unsigned) {}

}  // namespace nvfp4r
