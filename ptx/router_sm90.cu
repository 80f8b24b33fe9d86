// The router on Hopper for small batches: one launch, mma.sync from registers, K split over warps and CTAs, partial sums
// joined through self-validating packets in global memory.
//
// Grid: x = expert groups * slices producing CTAs, then CTAs that only select; y = token tiles. Where tokens are quantised
// by their own amax, the slices of a group are a cluster as a rule, and no CTA only selects.
//
// | who                       | does                                              | waits for                               |
// |---------------------------|---------------------------------------------------|-----------------------------------------|
// | producing CTA, warp w     | chunks of its K slice: 16 * expert_tiles experts  | griddepcontrol.wait (before any token)  |
// |   < warps_m * warps_k     | x the tile's tokens, accumulators in registers    |                                         |
// | cluster, all warps        | amax of the CTA's slice to all its CTAs           | two cluster barriers: all have started, |
// |                           |                                                   | all have sent                           |
// | producing CTA, all warps  | sum over warps, one packet a token and expert     | CTA barrier 1: partial sums are written |
// | thread 0 of every CTA     | takes the start ticket of the tile                | nothing                                 |
// | CTA with one of the last  | joins the slices of its tokens and selects        | its packets (poll); barriers of the     |
// |   `rows` tickets          |                                                   | selecting warps in select.cuh           |
//
// Packets, their join and the progress guarantee: join.cuh.
//
// Order of the K sum, the same for every launch of a plan: within a 64-wide chunk four mma steps ascending, step s
// adding k = 16c+4s .. +3 for c = 0..3 at once, gate planes outermost and token planes innermost; chunks of a warp
// ascending in one accumulator; then fp32 sums over warps ascending and over slices ascending. Warps w * warps_m and on of
// slice t share chunks t * chunks_per_slice + w * chunks_per_warp and on, each with its own experts.
#include "gate_tile.cuh"
#include "isa/cluster.cuh"
#include "isa/launch.cuh"
#include "isa/memory.cuh"
#include "join.cuh"
#include "select.cuh"
#include "token_tile.cuh"

namespace nvfp4r {

inline constexpr unsigned kThreads = kPlan.warps * kWarp;
inline constexpr unsigned kWarpExperts = kPlan.expert_tiles * kExpertTile;
inline constexpr unsigned kTileExperts = kPlan.warps_m * kWarpExperts;  // of a CTA
inline constexpr unsigned kGateTiles = ceil_div(kPlan.experts, kExpertTile);
inline constexpr unsigned kGroups = ceil_div(kPlan.experts, kTileExperts);
inline constexpr unsigned kProducers = kGroups * kPlan.slices;
inline constexpr unsigned kChunksPerSlice = ceil_div(kChunks, kPlan.slices);
// Packed tiles kept in flight by a warp: all of them where there are one or two, else two.
inline constexpr unsigned kRing = kPlan.chunks_per_warp < 2 ? 1 : 2;
inline constexpr unsigned kPartialStride =
    kTileExperts + 4;  // floats; keeps the fragments' stores off each other's banks

static_assert(kTileTokens <= kMaxTileTokens, "the start ticket has one bit a token");
static_assert(kPlan.warps_k * kPlan.chunks_per_warp >= kChunksPerSlice, "the warps cover the slice");
inline constexpr unsigned kMultiplyWarps = kPlan.warps_k * kPlan.warps_m;
static_assert(kMultiplyWarps <= kPlan.warps && kThreads <= 1024, "a CTA has at most 32 warps");

struct DecodeShared {
    alignas(16) float partial[kPlan.warps_k][kTileTokens][kPartialStride];
    JoinSpace join;
    float token_scale[kTileTokens];
    unsigned amax[kPlan.cluster > 1 ? kPlan.cluster : 1]
                 [kTileTokens];  // of each slice of K, where a cluster shares them
    unsigned slice_amax[kTileTokens];
};
static_assert(kPlan.cluster == 1 || kPlan.cluster == kPlan.slices, "a cluster has the slices of K of one expert group");
static_assert(sizeof(DecodeShared) == decode_shared_bytes(kPlan), "the host sizes shared memory by the same formula");

/// Chunk `u` of a warp that is number `place` of those that share K, or kChunks when there is none.
__device__ __forceinline__ unsigned warp_chunk(unsigned slice, unsigned place, unsigned u) {
    const unsigned in_slice = place * kPlan.chunks_per_warp + u;
    const unsigned chunk = slice * kChunksPerSlice + in_slice;
    return u < kPlan.chunks_per_warp && in_slice < kChunksPerSlice && chunk < kChunks ? chunk : kChunks;
}

using GateSlot = GateTile[kPlan.expert_tiles][kPlan.gate_planes];

/// Loads a chunk's gate tiles, from tile `first` on; what lies past the experts or past K is zero.
__device__ __forceinline__ void load_gate(const RouterParams& p, unsigned first, unsigned chunk, unsigned lane,
                                          GateSlot& slot) {
#pragma unroll
    for (unsigned m = 0; m < kPlan.expert_tiles; ++m)
#pragma unroll
        for (unsigned q = 0; q < kPlan.gate_planes; ++q) {
            const unsigned tile = first + m;
            slot[m][q] = chunk < kChunks && tile < kGateTiles ? load_gate_tile(p, q, tile, chunk, lane) : GateTile{};
        }
}

using Accumulators = float[kPlan.expert_tiles][kPlan.token_tiles][4];

using TokenBlocks = RawBlock<kPlan.token_form>[kPlan.token_tiles];

/// A lane's blocks of a chunk. What lies past K or belongs to no valid token is zero.
__device__ __forceinline__ void load_tokens(const RouterParams& p, const Tile& tile, unsigned valid, unsigned chunk,
                                            unsigned lane, TokenBlocks& raw) {
    const unsigned k = chunk * kChunk + lane % 4 * kScaleBlock;
#pragma unroll
    for (unsigned n = 0; n < kPlan.token_tiles; ++n) {
        const bool present = (valid >> n & 1u) != 0 && k < kPlan.hidden;
        const long long row = tile.first_row + n * kTokenTile + lane / 4;
        raw[n] = present ? load_block<kPlan.token_form>(p, row, k, kPlan.hidden) : empty_block<kPlan.token_form>();
    }
}

/// One chunk: tokens to fragments, then all their products.
__device__ __forceinline__ void multiply_chunk(const RouterParams& p, const DecodeShared& shared, const Tile& tile,
                                               bool writes_codes, unsigned chunk, unsigned lane, const GateSlot& slot,
                                               const TokenBlocks& raw, Accumulators& acc) {
    const unsigned k = chunk * kChunk + lane % 4 * kScaleBlock;
    PlaneBlock planes[kPlan.token_tiles][kTokenPlanes];
#pragma unroll
    for (unsigned n = 0; n < kPlan.token_tiles; ++n) {
        const unsigned token = n * kTokenTile + lane / 4;
        float scale = 1.0f;
        CodesOut out{false, tile.first_row + token, k};
        if constexpr (kPlan.quantise_tokens) {
            scale = shared.token_scale[token];
            out.write = writes_codes && given(p.codes_out) && token < tile.rows && k < kPlan.hidden;
        }
        token_planes(raw[n], p, scale, out, planes[n]);
    }
#pragma unroll
    for (unsigned m = 0; m < kPlan.expert_tiles; ++m)
#pragma unroll
        for (unsigned q = 0; q < kPlan.gate_planes; ++q) {
            const GateFragments fragments = gate_fragments(slot[m][q]);
#pragma unroll
            for (unsigned n = 0; n < kPlan.token_tiles; ++n) multiply_tile(acc[m][n], fragments, q, planes[n]);
        }
}

/// Global scales from the tokens' amax, where the CTAs of a cluster have the slices of K: each finds the amax of its slice
/// and tells the others, by a store in a row of its own: 0.2 to 0.4 us faster on an H200 than red.max to one row. `raw` is
/// the warp's first chunk. The whole CTA; ends with a barrier.
__device__ __forceinline__ void share_token_scales(const RouterParams& p, DecodeShared& shared, const Tile& tile,
                                                   unsigned valid, unsigned slice, unsigned place,
                                                   const TokenBlocks& raw, unsigned thread) {
    const unsigned lane = thread % kWarp;
    ptx::bar_sync();  // slice_amax is 0
    if (thread / kWarp < kMultiplyWarps) {
        unsigned amax[kPlan.token_tiles];
#pragma unroll
        for (unsigned n = 0; n < kPlan.token_tiles; ++n) amax[n] = block_amax(raw[n]);
#pragma unroll 1
        for (unsigned u = 1; u < kPlan.chunks_per_warp; ++u) {
            TokenBlocks next;
            load_tokens(p, tile, valid, warp_chunk(slice, place, u), lane, next);
#pragma unroll
            for (unsigned n = 0; n < kPlan.token_tiles; ++n) amax[n] = max(amax[n], block_amax(next[n]));
        }
#pragma unroll
        for (unsigned n = 0; n < kPlan.token_tiles; ++n) {
            float largest = __uint_as_float(amax[n]);  // of the token's 64 k: four lanes
            largest = fmaxf(largest, ptx::shfl_sync_bfly(largest, 1));
            largest = fmaxf(largest, ptx::shfl_sync_bfly(largest, 2));
            if (lane % 4 == 0)
                ptx::red_shared_max_u32(&shared.slice_amax[n * kTokenTile + lane / 4], __float_as_uint(largest));
        }
    }
    ptx::bar_sync();
    ptx::barrier_cluster_wait();  // the others have started
    for (unsigned i = thread; i < kTileTokens * kPlan.cluster; i += kThreads)
        ptx::st_shared_cluster_u32(&shared.amax[slice][i % kTileTokens], i / kTileTokens,
                                   shared.slice_amax[i % kTileTokens]);
    ptx::barrier_cluster_arrive();
    ptx::barrier_cluster_wait();
    for (unsigned t = thread; t < kTileTokens; t += kThreads) {
        unsigned amax = 0;
#pragma unroll
        for (unsigned s = 0; s < kPlan.cluster; ++s) amax = max(amax, shared.amax[s][t]);
        shared.token_scale[t] = global_scale_of(__uint_as_float(amax));
    }
    ptx::bar_sync();
}

/// The warp's accumulators to shared memory: lane (g, c) has experts g, g + 8 and tokens 2c, 2c + 1 of each 16 x 8
/// tile.
__device__ __forceinline__ void store_partial(DecodeShared& shared, unsigned place, unsigned warp_m, unsigned lane,
                                              const Accumulators& acc) {
    const unsigned g = warp_m * kWarpExperts + lane / 4, c = lane % 4;
#pragma unroll
    for (unsigned m = 0; m < kPlan.expert_tiles; ++m)
#pragma unroll
        for (unsigned n = 0; n < kPlan.token_tiles; ++n)
#pragma unroll
            for (unsigned i = 0; i < 4; ++i)
                shared.partial[place][n * kTokenTile + 2 * c + i % 2][m * kExpertTile + g + i / 2 * 8] = acc[m][n][i];
}

/// Sums over the CTA's warps and sends them.
__device__ __forceinline__ void send_packets(const RouterParams& p, const DecodeShared& shared, const Tile& tile,
                                             unsigned group, unsigned slice, unsigned thread) {
#pragma unroll 1
    for (unsigned i = thread; i < tile.rows * kTileExperts; i += kThreads) {
        const unsigned token = i / kTileExperts, expert = group * kTileExperts + i % kTileExperts;
        if (expert >= kPlan.experts) continue;
        float sum = shared.partial[0][token][i % kTileExperts];
#pragma unroll
        for (unsigned w = 1; w < kPlan.warps_k; ++w) sum += shared.partial[w][token][i % kTileExperts];
        sum *= kGateFactor;
        if constexpr (kScaleTokens) sum *= shared.token_scale[token];
        send_packet(p, tile, token, slice, expert, sum);
    }
}

}  // namespace nvfp4r

extern "C" __global__ void __launch_bounds__(nvfp4r::kThreads, nvfp4r::kPlan.ctas_per_sm)
    nvfp4_router(const __grid_constant__ nvfp4r::KernelParams params) {
    using namespace nvfp4r;
    const RouterParams& p = with_options(params);
    extern __shared__ __align__(16) unsigned char memory[];
    DecodeShared& shared = *reinterpret_cast<DecodeShared*>(memory);
    const unsigned thread = threadIdx.x, warp = thread / kWarp, lane = thread % kWarp;
    const unsigned group = blockIdx.x / kPlan.slices, slice = blockIdx.x % kPlan.slices;
    const bool produces = blockIdx.x < kProducers;
    const Tile tile = tile_of_cta(p);

    // The gate does not depend on the stream's previous kernel: its tiles are on their way before the wait.
    GateSlot ring[kRing];
    const unsigned warp_m = warp % kPlan.warps_m, place = warp / kPlan.warps_m;
    const unsigned first_tile = (group * kPlan.warps_m + warp_m) * kPlan.expert_tiles;
    if (produces && warp < kMultiplyWarps)
#pragma unroll
        for (unsigned u = 0; u < kRing; ++u) load_gate(p, first_tile, warp_chunk(slice, place, u), lane, ring[u]);
    // A static scale needs no amax.
    const bool shares_amax = kPlan.cluster > 1 && !(p.hidden_global_scale > 0.0f);
    if (shares_amax) {
        ptx::barrier_cluster_arrive_relaxed();
        for (unsigned t = thread; t < kTileTokens; t += kThreads) shared.slice_amax[t] = 0;
    }
    ptx::griddepcontrol_launch_dependents();
    ptx::griddepcontrol_wait();
    const unsigned long long ticket = thread == 0 ? take_ticket(p, tile) : 0;

    if (produces) {
        unsigned valid = 0;
#pragma unroll
        for (unsigned n = 0; n < kPlan.token_tiles; ++n)
            valid |= static_cast<unsigned>(row_is_valid(p, tile.first_row + n * kTokenTile + lane / 4)) << n;
        TokenBlocks raw;
        if (warp < kMultiplyWarps) load_tokens(p, tile, valid, warp_chunk(slice, place, 0), lane, raw);
        if (shares_amax) {
            if constexpr (kPlan.cluster > 1) share_token_scales(p, shared, tile, valid, slice, place, raw, thread);
        } else if constexpr (kScaleTokens) {
            find_token_scales<kThreads>(p, shared.token_scale, tile, thread);
        }
        if (warp < kMultiplyWarps) {
            Accumulators acc = {};
#pragma unroll 1
            for (unsigned first = 0; first < kPlan.chunks_per_warp; first += kRing)
#pragma unroll
                for (unsigned j = 0; j < kRing; ++j) {
                    const unsigned chunk = warp_chunk(slice, place, first + j);
                    if (chunk == kChunks) continue;
                    if (first + j > 0) load_tokens(p, tile, valid, chunk, lane, raw);
                    multiply_chunk(p, shared, tile, first_tile == 0, chunk, lane, ring[j], raw, acc);
                    load_gate(p, first_tile, warp_chunk(slice, place, first + j + kRing), lane, ring[j]);
                }
            store_partial(shared, place, warp_m, lane, acc);
        }
        if (given(p.global_scales_out) && kPlan.quantise_tokens && blockIdx.x == 0)
            for (unsigned t = thread; t < tile.rows; t += kThreads)
                p.global_scales_out[tile.first_row + t] =
                    row_is_valid(p, tile.first_row + t) ? shared.token_scale[t] : 0.0f;
    }
    if (thread == 0) shared.join.ticket = ticket;
    ptx::bar_sync();
    if (produces) send_packets(p, shared, tile, group, slice, thread);
    constexpr unsigned kSelectThreads = select_threads(kThreads);
    if (thread < kSelectThreads)
        select_joined<kSelectThreads>(p, shared.join, tile, thread, [&](unsigned) { return p.alpha; });
}
