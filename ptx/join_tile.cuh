// Joining a token tile whose CTAs each multiply some experts over a slice of K: join.cuh's packets, tickets and progress,
// for many tokens at a time. A CTA selects a share of the tile's tokens: those at share, share + shares, ... The start
// ticket has a bit for each share.
//
// Packets: mailbox[tile][token][slice][expert], rows padded to four experts, so that a thread moves four at once.
#pragma once

#include "join.cuh"

namespace nvfp4r {

inline constexpr unsigned kExpertQuads = ceil_div(kPlan.experts, 4);
inline constexpr unsigned kShares = batch_shares(kPlan);
inline constexpr unsigned kShareTokens = batch_share_tokens(kPlan);
static_assert(kShares <= kShareBits, "a share that is handed over is a bit of the start ticket");

__device__ __forceinline__ ptx::Words4* packet_quad(const RouterParams& p, const Tile& tile, unsigned token,
                                                    unsigned slice, unsigned quad) {
    const unsigned long long row = static_cast<unsigned long long>(tile.index) * kTileTokens + token;
    return reinterpret_cast<ptx::Words4*>(p.mailbox) + (row * kPlan.slices + slice) * kExpertQuads + quad;
}

/// Four experts' packets summed in slice order; false as await_packets.
__device__ __forceinline__ bool join_quad(const RouterParams& p, const Tile& tile, unsigned token, unsigned quad,
                                          bool patient, float4& sum) {
    ptx::Words4 word[kPlan.slices];
    if (!await_packets(patient, word,
                       [&](unsigned s) { return ptx::ld_relaxed_gpu_v4(packet_quad(p, tile, token, s, quad)); }))
        return false;
    sum = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (unsigned s = 0; s < kPlan.slices; ++s) {
        sum.x += __uint_as_float(word[s].x);
        sum.y += __uint_as_float(word[s].y);
        sum.z += __uint_as_float(word[s].z);
        sum.w += __uint_as_float(word[s].w);
    }
    return true;
}

/// A share's packets into logits[place in the share * kStride + expert], then the mailbox empty again. False when the share was
/// handed over. The whole CTA; ends with a barrier.
template <unsigned kThreads, unsigned kStride>
__device__ __forceinline__ bool join_share(const RouterParams& p, const Tile& tile, unsigned share, bool patient,
                                           float* logits, unsigned& handed_over, unsigned thread) {
    constexpr unsigned kItems = kShareTokens * kExpertQuads;
    while (true) {
        bool complete = true;
#pragma unroll 1
        for (unsigned i = thread; i < kItems && complete; i += kThreads) {
            const unsigned place = i / kExpertQuads, quad = i % kExpertQuads, token = share + place * kShares;
            if (token >= tile.rows) break;
            float4 sum = {};
            complete = join_quad(p, tile, token, quad, patient, sum);
            *reinterpret_cast<float4*>(logits + place * kStride + 4 * quad) = sum;
        }
        if (ptx::bar_red_and(0, kThreads, complete)) break;
        if (thread == 0) handed_over = hand_over(p.tickets + tile.index, share);
        ptx::bar_sync();
        if (handed_over) return false;
        patient = true;
    }
    constexpr ptx::Words4 kEmptyQuad = {kEmptyPacket, kEmptyPacket, kEmptyPacket, kEmptyPacket};
#pragma unroll 1
    for (unsigned i = thread; i < kItems; i += kThreads) {
        const unsigned token = share + i / kExpertQuads * kShares;
        if (token >= tile.rows) break;
#pragma unroll
        for (unsigned s = 0; s < kPlan.slices; ++s)
            ptx::st_relaxed_gpu_v4(packet_quad(p, tile, token, s, i % kExpertQuads), kEmptyQuad);
    }
    return true;
}

}  // namespace nvfp4r
