// The router on Hopper for small batches: one launch of plain CTAs, mma.sync from registers, K split over warps and
// CTAs, partial sums joined through self-validating packets in global memory.
//
// Grid: x = expert groups * slices producing CTAs, then CTAs that only select; y = token tiles.
//
// | who                       | does                                              | waits for |
// |---------------------------|---------------------------------------------------|-----------------------------------------|
// | producing CTA, warp w     | chunks of its K slice: 16 * expert_tiles experts  | griddepcontrol.wait (before any
// token)  | |   < warps_k               | x the tile's tokens, accumulators in registers    | | | producing CTA, all
// warps  | sum over warps, one packet a token and expert     | CTA barrier 1: partial sums are written | | thread 0 of
// every CTA     | takes the start ticket of the tile                | nothing                                 | | CTA
// with one of the last  | joins the slices of its tokens and selects        | its packets (poll); CTA barriers of     |
// |   `rows` tickets          |                                                   | select.cuh |
//
// Packets. mailbox[tile][token][slice][expert] holds kEmptyPacket (a NaN no arithmetic makes) or a partial sum; the
// word is its own flag, so a packet needs neither fence nor atomic. The selecting thread that reads a packet empties it
// again: every launch leaves the mailbox as it found it, and nothing is reset between launches.
//
// Progress. Only selecting CTAs wait, and only for packets. tickets[tile] counts the CTAs of the tile that have started
// (low half). The CTA that takes the last ticket knows that all others run or are done, and no producer waits, so it
// may poll for ever. A CTA that took an earlier ticket may be waiting for one that cannot start before it leaves: after
// kPatience polls it hands its tokens over (a bit each in the high half, by compare-and-swap) and ends, unless the last
// ticket is gone by then. The last starter sees the bits in its own ticket and selects those tokens too. So the launch
// ends however few CTAs fit, in whatever order they start. The last starter also sets the word back to 0.
//
// Order of the K sum, the same for every launch of a plan: within a 64-wide chunk four mma steps ascending, step s
// adding k = 16c+4s .. +3 for c = 0..3 at once, gate planes outermost and token planes innermost; chunks of a warp
// ascending in one accumulator; then fp32 sums over warps ascending and over slices ascending. Warp w of slice t has
// chunks t * chunks_per_slice + w * chunks_per_warp and on.
#include "gate_tile.cuh"
#include "isa/launch.cuh"
#include "isa/memory.cuh"
#include "select.cuh"
#include "tokens.cuh"

namespace nvfp4r {

inline constexpr unsigned kThreads = kPlan.warps * kWarp;
inline constexpr unsigned kTileTokens = kPlan.token_tiles * kTokenTile;
inline constexpr unsigned kTileExperts = kPlan.expert_tiles * kExpertTile;
inline constexpr unsigned kGateTiles = ceil_div(kPlan.experts, kExpertTile);
inline constexpr unsigned kGroups = ceil_div(kGateTiles, kPlan.expert_tiles);
inline constexpr unsigned kProducers = kGroups * kPlan.slices;
inline constexpr unsigned kChunksPerSlice = ceil_div(kChunks, kPlan.slices);
// Packed tiles kept in flight by a warp: all of them where there are one or two, else two.
inline constexpr unsigned kRing = kPlan.chunks_per_warp < 2 ? 1 : 2;
inline constexpr unsigned kPartialStride =
    kTileExperts + 4;                       // floats; keeps the fragments' stores off each other's banks
inline constexpr unsigned kPatience = 256;  // polls before a token is handed over: about 0.2 ms
inline constexpr bool kScaleTokens = kPlan.quantise_tokens || kPlan.token_form == TokenForm::Nvfp4;

static_assert(kTileTokens <= kMaxTileTokens, "the start ticket has one bit a token");
static_assert(kPlan.warps_k * kPlan.chunks_per_warp >= kChunksPerSlice, "the warps cover the slice");
static_assert(kPlan.warps_k <= kPlan.warps && kThreads <= 1024, "a CTA has at most 32 warps");

struct DecodeShared {
    alignas(16) float partial[kPlan.warps_k][kTileTokens][kPartialStride];
    float value[kPaddedExperts];
    SelectSpace select;
    float token_scale[kTileTokens];
    unsigned long long ticket;
    unsigned handed_over;
};
static_assert(sizeof(DecodeShared) == decode_shared_bytes(kPlan), "the host sizes shared memory by the same formula");

struct Tile {
    unsigned index;
    long long first_row;
    unsigned rows;
};

/// Global scales of the tile's tokens: given ones, the static one, or from each row's amax.
__device__ __forceinline__ void find_token_scales(const RouterParams& p, DecodeShared& shared, const Tile& tile,
                                                  unsigned thread) {
    if constexpr (!kScaleTokens) return;
    const bool from_amax = kPlan.quantise_tokens && !(p.hidden_global_scale > 0.0f);
    for (unsigned t = thread; t < kTileTokens; t += kThreads) {
        float scale = kPlan.quantise_tokens ? p.hidden_global_scale : 1.0f;
        if (p.hidden_global_scales && t < tile.rows) scale = p.hidden_global_scales[tile.first_row + t];
        shared.token_scale[t] = from_amax ? 0.0f : scale;
    }
    if constexpr (kPlan.quantise_tokens) {
        if (from_amax) {
            ptx::bar_sync();
            for (unsigned t = 0; t < tile.rows; ++t) {
                if (!row_is_valid(p, tile.first_row + t)) continue;
                unsigned amax = 0;
                for (unsigned b = thread; b < kPlan.hidden / kScaleBlock; b += kThreads)
                    amax = max(amax, block_amax(load_block<kPlan.token_form>(p, tile.first_row + t, b * kScaleBlock,
                                                                             kPlan.hidden)));
                amax = ptx::redux_sync_max_u32(amax);
                // Non-negative floats are in the order of their bits.
                if (thread % kWarp == 0)
                    ptx::red_shared_max_u32(reinterpret_cast<unsigned*>(&shared.token_scale[t]), amax);
            }
            ptx::bar_sync();
            for (unsigned t = thread; t < kTileTokens; t += kThreads)
                shared.token_scale[t] = global_scale_of(shared.token_scale[t]);
        }
    }
    ptx::bar_sync();
}

/// Chunk `u` of a warp, or kChunks when there is none.
__device__ __forceinline__ unsigned warp_chunk(unsigned slice, unsigned warp, unsigned u) {
    const unsigned in_slice = warp * kPlan.chunks_per_warp + u;
    const unsigned chunk = slice * kChunksPerSlice + in_slice;
    return u < kPlan.chunks_per_warp && in_slice < kChunksPerSlice && chunk < kChunks ? chunk : kChunks;
}

using GateSlot = GateTile[kPlan.expert_tiles][kPlan.gate_planes];

/// Loads a chunk's gate tiles; what lies past the experts or past K is zero.
__device__ __forceinline__ void load_gate(const RouterParams& p, unsigned group, unsigned chunk, unsigned lane,
                                          GateSlot& slot) {
#pragma unroll
    for (unsigned m = 0; m < kPlan.expert_tiles; ++m)
#pragma unroll
        for (unsigned q = 0; q < kPlan.gate_planes; ++q) {
            const unsigned tile = group * kPlan.expert_tiles + m;
            slot[m][q] = chunk < kChunks && tile < kGateTiles ? load_gate_tile(p, q, tile, chunk, lane) : GateTile{};
        }
}

using Accumulators = float[kPlan.expert_tiles][kPlan.token_tiles][4];

/// One chunk: tokens from global memory to fragments, then all its products.
__device__ __forceinline__ void multiply_chunk(const RouterParams& p, const DecodeShared& shared, const Tile& tile,
                                               unsigned valid, unsigned group, unsigned chunk, unsigned lane,
                                               const GateSlot& slot, Accumulators& acc) {
    const unsigned k = chunk * kChunk + lane % 4 * kScaleBlock;
    RawBlock<kPlan.token_form> raw[kPlan.token_tiles];
#pragma unroll
    for (unsigned n = 0; n < kPlan.token_tiles; ++n) {
        const bool present = (valid >> n & 1u) != 0 && k < kPlan.hidden;
        const long long row = tile.first_row + n * kTokenTile + lane / 4;
        raw[n] = present ? load_block<kPlan.token_form>(p, row, k, kPlan.hidden) : empty_block<kPlan.token_form>();
    }
    PlaneBlock planes[kPlan.token_tiles][kTokenPlanes];
#pragma unroll
    for (unsigned n = 0; n < kPlan.token_tiles; ++n) {
        const unsigned token = n * kTokenTile + lane / 4;
        float scale = 1.0f;
        CodesOut out{false, tile.first_row + token, k};
        if constexpr (kPlan.quantise_tokens) {
            scale = shared.token_scale[token];
            out.write = p.codes_out && group == 0 && token < tile.rows && k < kPlan.hidden;
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

/// The warp's accumulators to shared memory: lane (g, c) has experts g, g + 8 and tokens 2c, 2c + 1 of each 16 x 8
/// tile.
__device__ __forceinline__ void store_partial(DecodeShared& shared, unsigned warp, unsigned lane,
                                              const Accumulators& acc) {
    const unsigned g = lane / 4, c = lane % 4;
#pragma unroll
    for (unsigned m = 0; m < kPlan.expert_tiles; ++m)
#pragma unroll
        for (unsigned n = 0; n < kPlan.token_tiles; ++n)
#pragma unroll
            for (unsigned i = 0; i < 4; ++i)
                shared.partial[warp][n * kTokenTile + 2 * c + i % 2][m * kExpertTile + g + i / 2 * 8] = acc[m][n][i];
}

__device__ __forceinline__ unsigned* packet(const RouterParams& p, const Tile& tile, unsigned token, unsigned slice,
                                            unsigned expert) {
    const unsigned long long row = static_cast<unsigned long long>(tile.index) * kTileTokens + token;
    return p.mailbox + (row * kPlan.slices + slice) * kPlan.experts + expert;
}

/// Sums over the CTA's warps and sends them. Every row of the tile is sent, padding or not, and every packet sent is
/// emptied again by the row's selecting CTA.
__device__ __forceinline__ void send_packets(const RouterParams& p, const DecodeShared& shared, const Tile& tile,
                                             unsigned group, unsigned slice, unsigned thread) {
    for (unsigned i = thread; i < tile.rows * kTileExperts; i += kThreads) {
        const unsigned token = i / kTileExperts, expert = group * kTileExperts + i % kTileExperts;
        if (expert >= kPlan.experts) continue;
        float sum = shared.partial[0][token][i % kTileExperts];
#pragma unroll
        for (unsigned w = 1; w < kPlan.warps_k; ++w) sum += shared.partial[w][token][i % kTileExperts];
        if constexpr (kScaleTokens) sum *= shared.token_scale[token];
        const unsigned word = __float_as_uint(sum);
        ptx::st_relaxed_gpu_u32(packet(p, tile, token, slice, expert), word == kEmptyPacket ? kCanonicalNan : word);
    }
}

/// The sum of one expert's packets in slice order; false when kPatience polls did not find them all and `patient` is
/// not set. All packets are read again together: waiting for them one by one costs a round trip each.
__device__ __forceinline__ bool join_packets(const RouterParams& p, const Tile& tile, unsigned token, unsigned expert,
                                             bool patient, float& sum) {
    unsigned word[kPlan.slices];
    for (unsigned polls = 0; patient || polls < kPatience; ++polls) {
        bool complete = true;
#pragma unroll
        for (unsigned s = 0; s < kPlan.slices; ++s)
            word[s] = ptx::ld_relaxed_gpu_u32(packet(p, tile, token, s, expert));
#pragma unroll
        for (unsigned s = 0; s < kPlan.slices; ++s) complete = complete && word[s] != kEmptyPacket;
        if (!complete) continue;
        sum = __uint_as_float(word[0]);
#pragma unroll
        for (unsigned s = 1; s < kPlan.slices; ++s) sum += __uint_as_float(word[s]);
        return true;
    }
    return false;
}

/// Adds this CTA's token to those left for the last starter. False when that one has started: its ticket is the last
/// write of a count below the number of CTAs, and it sets the word to 0.
__device__ __forceinline__ bool hand_over(unsigned long long* ticket, unsigned token) {
    const unsigned long long mine = 1ull << (32 + token);
    unsigned long long seen = ptx::ld_relaxed_gpu_u64(ticket);
    while (true) {
        const unsigned started = static_cast<unsigned>(seen);
        if (started == 0 || started == gridDim.x) return false;
        const unsigned long long before = ptx::atom_relaxed_gpu_cas_u64(ticket, seen, seen | mine);
        if (before == seen) return true;
        seen = before;
    }
}

/// Joins and routes one token of the tile, or hands it over.
__device__ __forceinline__ void select_token(const RouterParams& p, DecodeShared& shared, const Tile& tile,
                                             unsigned token, bool patient, unsigned thread) {
    const long long row = tile.first_row + token;
    const bool valid = row_is_valid(p, row), image = is_image_row(p, row);
    // A thread's first expert is its only one as a rule: its constants are fetched while the packets are on their way.
    const float first_bias = thread < kPlan.experts ? row_bias(p, image, thread) : 0.0f;
    const float first_linear = thread < kPlan.experts ? row_linear_bias(p, thread) : 0.0f;
    while (true) {
        bool complete = true;
        for (unsigned e = thread; e < kPlan.experts && complete; e += kThreads) {
            float sum = 0.0f;
            complete = join_packets(p, tile, token, e, patient, sum);
            shared.value[e] = correct_logit(p, p.alpha * sum, e == thread ? first_linear : row_linear_bias(p, e));
        }
        if (ptx::bar_red_and(complete)) break;
        if (thread == 0) shared.handed_over = hand_over(p.tickets + tile.index, token);
        ptx::bar_sync();
        if (shared.handed_over) return;
        patient = true;
    }
    for (unsigned e = thread; e < kPlan.experts; e += kThreads)
#pragma unroll
        for (unsigned s = 0; s < kPlan.slices; ++s) ptx::st_relaxed_gpu_u32(packet(p, tile, token, s, e), kEmptyPacket);
    if (!valid) {
        write_padding_row<kThreads>(p, row, thread);
        return;
    }
    select_row<kThreads>(p, shared.select, shared.value, row, thread,
                         [&](unsigned e) { return e == thread ? first_bias : row_bias(p, image, e); });
}

}  // namespace nvfp4r

extern "C" __global__ void __launch_bounds__(nvfp4r::kThreads, nvfp4r::kPlan.ctas_per_sm)
    nvfp4_router(const __grid_constant__ nvfp4r::RouterParams p) {
    using namespace nvfp4r;
    extern __shared__ __align__(16) unsigned char memory[];
    DecodeShared& shared = *reinterpret_cast<DecodeShared*>(memory);
    const unsigned thread = threadIdx.x, warp = thread / kWarp, lane = thread % kWarp;
    const unsigned group = blockIdx.x / kPlan.slices, slice = blockIdx.x % kPlan.slices;
    const bool produces = blockIdx.x < kProducers;
    const long long first_row = static_cast<long long>(blockIdx.y) * kTileTokens;
    const long long left = p.tokens - first_row;
    const Tile tile{blockIdx.y, first_row, left < kTileTokens ? static_cast<unsigned>(left) : kTileTokens};

    // The gate does not depend on the stream's previous kernel: its tiles are on their way before the wait.
    GateSlot ring[kRing];
    if (produces && warp < kPlan.warps_k)
#pragma unroll
        for (unsigned u = 0; u < kRing; ++u) load_gate(p, group, warp_chunk(slice, warp, u), lane, ring[u]);
    ptx::griddepcontrol_launch_dependents();
    ptx::griddepcontrol_wait();
    unsigned long long ticket = 0;
    if (thread == 0) ticket = ptx::atom_relaxed_gpu_add_u64(p.tickets + tile.index, 1);

    if (produces) {
        find_token_scales(p, shared, tile, thread);
        if (warp < kPlan.warps_k) {
            unsigned valid = 0;
#pragma unroll
            for (unsigned n = 0; n < kPlan.token_tiles; ++n)
                valid |= static_cast<unsigned>(row_is_valid(p, first_row + n * kTokenTile + lane / 4)) << n;
            Accumulators acc = {};
#pragma unroll 1
            for (unsigned first = 0; first < kPlan.chunks_per_warp; first += kRing)
#pragma unroll
                for (unsigned j = 0; j < kRing; ++j) {
                    const unsigned chunk = warp_chunk(slice, warp, first + j);
                    if (chunk == kChunks) continue;
                    multiply_chunk(p, shared, tile, valid, group, chunk, lane, ring[j], acc);
                    load_gate(p, group, warp_chunk(slice, warp, first + j + kRing), lane, ring[j]);
                }
            store_partial(shared, warp, lane, acc);
        }
        if (p.global_scales_out && kPlan.quantise_tokens && blockIdx.x == 0)
            for (unsigned t = thread; t < tile.rows; t += kThreads)
                p.global_scales_out[first_row + t] = shared.token_scale[t];
    }
    if (thread == 0) shared.ticket = ticket;
    ptx::bar_sync();
    if (produces) send_packets(p, shared, tile, group, slice, thread);

    ticket = shared.ticket;
    const unsigned from_end = gridDim.x - 1 - static_cast<unsigned>(ticket);
    const bool last = from_end == 0;
    if (last && thread == 0) ptx::st_relaxed_gpu_u64(p.tickets + tile.index, 0);
    for (unsigned t = from_end; t < tile.rows; t += gridDim.x) select_token(p, shared, tile, t, last, thread);
    if (last)
        for (unsigned t = 0; t < tile.rows; ++t)
            if (ticket >> (32 + t) & 1) select_token(p, shared, tile, t, true, thread);
}
