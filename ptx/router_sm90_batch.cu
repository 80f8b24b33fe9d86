// The router on Hopper for large batches: a CTA owns a tile of tokens and all experts, so nothing is joined across CTAs.
// Experts are the rows of wgmma, their weights dequantised into its register operand; tokens are its columns, converted
// once per CTA into swizzled shared memory.
//
// Grid: x = 1; y = token tiles. A warpgroup multiplies 64 experts; when E has more blocks of 64 than the CTA has
// warpgroups, the K loop runs once more for each further set of blocks (a pass).
//
// | who                | does                                                     | waits for                              |
// |--------------------|----------------------------------------------------------|----------------------------------------|
// | every thread       | tokens of stage s + 2 from global memory to registers,   | barrier of stage s: all warps have     |
// |                    | of stage s + 1 from registers to buffer (s + 1) % 3      | issued stage s - 1, whose wait left    |
// |                    |                                                          | nothing of stage s - 2 in flight       |
// | every lane         | copies its part of gate chunk n + depth - 1 to its own   | cp.async.wait_group: chunk n has come; |
// |                    | place in shared memory                                   | no other thread reads that place       |
// | every warpgroup    | dequantises chunk n while wgmma of chunk n - 1 runs      | wait_group 1: chunk n - 2 is done, and |
// |                    |                                                          | with it that fragment buffer           |
// | every warp, at end | selects its share of the tile's tokens, one at a time    | barrier: all logits are written        |
//
// A buffer is written before barrier s + 1 and read after it; the writers' fence.proxy.async makes it visible to wgmma.
//
// Order of the K sum: chunks ascending in one accumulator; inside a chunk as in router_sm90.cu.
#include "descriptors.cuh"
#include "gate_tile.cuh"
#include "isa/cp_async.cuh"
#include "isa/launch.cuh"
#include "isa/wgmma.cuh"
#include "select.cuh"
#include "token_tile.cuh"

namespace nvfp4r {

inline constexpr unsigned kThreads = kPlan.warps * kWarp;
inline constexpr unsigned kWarpgroups = kPlan.warps / 4;
inline constexpr unsigned kGateTiles = ceil_div(kPlan.experts, kExpertTile);
inline constexpr unsigned kPasses = ceil_div(kPlan.experts, kWarpgroupExperts* kWarpgroups);
inline constexpr unsigned kStageChunks = batch_stage_chunks(kPlan);
inline constexpr unsigned kStages = ceil_div(kChunks, kStageChunks);
inline constexpr unsigned kStageBlocks = kStageChunks * kTileTokens * (kChunk / kScaleBlock);
inline constexpr unsigned kThreadBlocks = ceil_div(kStageBlocks, kThreads);  // token blocks a thread brings to a stage
inline constexpr unsigned kGateDepth = batch_gate_depth(kPlan);
inline constexpr unsigned kSelectWarps = batch_select_warps(kPlan);
inline constexpr unsigned kLogitStride = batch_logit_stride(kPlan);
inline constexpr unsigned kAccumulators = kTileTokens / 2;  // registers of a thread: 64 x kTileTokens over 128 threads

static_assert(kSelectWarps >= 1, "a token needs a warp");
static_assert(kPlan.warps % 4 == 0, "wgmma is issued by whole warpgroups");
static_assert(kChunk * 2 == kSwizzleRow, "a chunk of bf16 is one row of the 128-byte swizzle");

using TokenStage = unsigned char[kStageChunks][kTokenPlanes][kTileTokens * kSwizzleRow];

/// A gate chunk of all warps on its way. Only the lane itself writes and reads its words, so no barrier guards them.
struct GateSlot {
    ptx::Words4 quad[kPlan.gate_planes][GateTile::kQuads][kPlan.warps][kWarp];
    unsigned scales[kPlan.gate_planes][kPlan.warps][kWarp];  // NVFP4 only
};

struct BatchShared {
    union {
        alignas(1024) TokenStage tokens[kBatchBuffers];  // swizzle atoms are 1024 bytes
        SelectSpace select[kSelectWarps];                // after the last wgmma
    };
    GateSlot gate[kGateDepth];
    float logits[kTileTokens][kLogitStride];
    float token_scale[kTileTokens];
};
static_assert(sizeof(BatchShared) == batch_shared_bytes(kPlan), "the host sizes shared memory by the same formula");

/// The token blocks of one stage that a thread carries, in registers on their way.
struct Carried {
    RawBlock<kPlan.token_form> block[kThreadBlocks];
};

/// Where block i of a thread goes: row of the tile, chunk of the stage, 16-value block of the chunk.
struct Place {
    unsigned row, chunk, column;
};
__device__ __forceinline__ Place place_of(unsigned thread, unsigned i) {
    constexpr unsigned kColumns = kChunk / kScaleBlock;
    const unsigned item = thread + i * kThreads;
    return {item / kColumns % kTileTokens, item / kColumns / kTileTokens, item % kColumns};
}

/// Loads a thread's blocks of a stage; rows that are not routed and values past K are zero. `valid` has a bit a block.
__device__ __forceinline__ Carried load_stage(const RouterParams& p, const Tile& tile, unsigned stage, unsigned valid,
                                              unsigned thread) {
    Carried carried;
#pragma unroll
    for (unsigned i = 0; i < kThreadBlocks; ++i) {
        const Place at = place_of(thread, i);
        const unsigned k = (stage * kStageChunks + at.chunk) * kChunk + at.column * kScaleBlock;
        const bool present = (valid >> i & 1u) != 0 && k < kPlan.hidden;
        carried.block[i] = present ? load_block<kPlan.token_form>(p, tile.first_row + at.row, k, kPlan.hidden)
                                   : empty_block<kPlan.token_form>();
    }
    return carried;
}

/// Converts a thread's blocks and writes them where wgmma reads them. Step s of a chunk holds k = 16c+4s .. +3 of block c
/// in its columns 2c, 2c+1, 2c+8, 2c+9: the order in which the gate's tiles are packed (gate_tile.cuh).
__device__ __forceinline__ void store_stage(const RouterParams& p, BatchShared& shared, const Tile& tile,
                                            unsigned stage, bool write_codes, const Carried& carried, unsigned thread) {
    TokenStage& buffer = shared.tokens[stage % kBatchBuffers];
#pragma unroll
    for (unsigned i = 0; i < kThreadBlocks; ++i) {
        const Place at = place_of(thread, i);
        if (kStageBlocks % kThreads != 0 && at.chunk >= kStageChunks) continue;
        const unsigned k = (stage * kStageChunks + at.chunk) * kChunk + at.column * kScaleBlock;
        CodesOut out{false, tile.first_row + at.row, k};
        float scale = 1.0f;
        if constexpr (kPlan.quantise_tokens) {
            scale = shared.token_scale[at.row];
            out.write = write_codes && at.row < tile.rows && k < kPlan.hidden;
        }
        PlaneBlock planes[kTokenPlanes];
        token_planes(carried.block[i], p, scale, out, planes);
#pragma unroll
        for (unsigned q = 0; q < kTokenPlanes; ++q)
#pragma unroll
            for (unsigned j = 0; j < kScaleBlock / 2; ++j) {
                const unsigned byte = j / 2 * 32 + j % 2 * 16 + at.column * 4;
                *reinterpret_cast<unsigned*>(buffer[at.chunk][q] + swizzled_offset(at.row, byte)) = planes[q].word[j];
            }
    }
    ptx::fence_proxy_async_shared();
}

/// What a warp keeps in registers through the K loop. Plane q of chunk n uses fragments (n * planes + q) % 2, an index that
/// is a constant where the loop is unrolled.
struct WarpState {
    float acc[kAccumulators];
    GateFragments fragments[2];
    unsigned slot;               // of the gate ring: the current chunk's
    unsigned long long fetched;  // where in the packed planes this lane's next chunk to fetch is
};

/// Starts the copy of the lane's part of the next gate chunk. Every call is one group, also past the last chunk, so that
/// counting groups counts chunks.
__device__ __forceinline__ void fetch_gate(const RouterParams& p, BatchShared& shared, WarpState& state, bool present,
                                           unsigned slot, unsigned thread) {
    const unsigned warp = thread / kWarp, lane = thread % kWarp;
    if (present) {
#pragma unroll
        for (unsigned q = 0; q < kPlan.gate_planes; ++q) {
            const auto* codes = static_cast<const ptx::Words4*>(p.gate_codes[q]) + state.fetched * GateTile::kQuads;
#pragma unroll
            for (unsigned i = 0; i < GateTile::kQuads; ++i)
                ptx::cp_async_cg_16(
                    static_cast<unsigned>(__cvta_generic_to_shared(&shared.gate[slot].quad[q][i][warp][lane])),
                    codes + i);
            // The word with the scales of an even lane and its neighbour; each of the two keeps a copy.
            if constexpr (GateTile::kNvfp4)
                ptx::cp_async_ca_4(
                    static_cast<unsigned>(__cvta_generic_to_shared(&shared.gate[slot].scales[q][warp][lane])),
                    static_cast<const unsigned short*>(p.gate_scales[q]) + (state.fetched & ~1ull));
        }
    }
    state.fetched += kWarp;
    ptx::cp_async_commit_group();
}

/// The lane's part of a chunk that has come; zero past the experts.
__device__ __forceinline__ GateTile read_gate(const BatchShared& shared, unsigned expert_tile, unsigned slot,
                                              unsigned plane, unsigned thread) {
    const unsigned warp = thread / kWarp, lane = thread % kWarp;
    GateTile tile = {};
    if (expert_tile >= kGateTiles) return tile;
#pragma unroll
    for (unsigned i = 0; i < GateTile::kQuads; ++i) tile.quad[i] = shared.gate[slot].quad[plane][i][warp][lane];
    if constexpr (GateTile::kNvfp4) {
        const unsigned word = shared.gate[slot].scales[plane][warp][lane];
        tile.scales = lane % 2 ? word >> 16 : word & 0xffffu;
    }
    return tile;
}

/// wgmma reads its register operand after it was issued: until the wait the compiler must take it for used.
__device__ __forceinline__ void keep_registers(const GateFragments& fragments) {
#pragma unroll
    for (unsigned s = 0; s < kSteps; ++s)
#pragma unroll
        for (unsigned r = 0; r < 4; ++r) asm volatile("" ::"r"(fragments.a[s][r]) : "memory");
}

/// One chunk of a stage; kParity is the chunk's number modulo 2.
template <unsigned kParity>
__device__ __forceinline__ void multiply_chunk(const RouterParams& p, BatchShared& shared, WarpState& state,
                                               unsigned tokens, unsigned expert_tile, unsigned chunk, unsigned thread) {
    ptx::cp_async_wait_group<kGateDepth - 2>();
#pragma unroll
    for (unsigned q = 0; q < kPlan.gate_planes; ++q) {
        GateFragments& fragments = state.fragments[(kParity * kPlan.gate_planes + q) % 2];
        fragments = gate_fragments(read_gate(shared, expert_tile, state.slot, q, thread));
        ptx::wgmma_fence();
#pragma unroll
        for (unsigned s = 0; s < kSteps; ++s)
#pragma unroll
            for (unsigned j = 0; j < kTokenPlanes; ++j)
                if (q + j < kPlan.product_order) {
                    const unsigned long long b = wgmma_swizzled_tile(tokens + j * kTileTokens * kSwizzleRow);
                    ptx::Wgmma<kTileTokens>::m64k16_bf16(state.acc, fragments.a[s], advance(b, s * 32));
                }
        ptx::wgmma_commit_group();
        ptx::wgmma_wait_group<1>();
        keep_registers(state.fragments[(kParity * kPlan.gate_planes + q + 1) % 2]);
    }
    // The slot before the current one was read a chunk ago.
    const unsigned free = state.slot == 0 ? kGateDepth - 1 : state.slot - 1;
    fetch_gate(p, shared, state, chunk + kGateDepth - 1 < kChunks && expert_tile < kGateTiles, free, thread);
    state.slot = state.slot + 1 == kGateDepth ? 0 : state.slot + 1;
}

/// All chunks of a stage; kFirst is the first one's number modulo 2.
template <unsigned kFirst>
__device__ __forceinline__ void multiply_stage(const RouterParams& p, BatchShared& shared, WarpState& state,
                                               unsigned stage, unsigned expert_tile, unsigned thread) {
    const unsigned buffer = static_cast<unsigned>(__cvta_generic_to_shared(&shared.tokens[stage % kBatchBuffers]));
    constexpr unsigned kChunkBytes = sizeof(TokenStage) / kStageChunks;
#pragma unroll 1
    for (unsigned c = 0; c < kStageChunks; c += 2) {
        const unsigned chunk = stage * kStageChunks + c, tokens = buffer + c * kChunkBytes;
        if (chunk < kChunks) multiply_chunk<kFirst>(p, shared, state, tokens, expert_tile, chunk, thread);
        if (c + 1 < kStageChunks && chunk + 1 < kChunks)
            multiply_chunk<1 - kFirst>(p, shared, state, tokens + kChunkBytes, expert_tile, chunk + 1, thread);
    }
}

/// The accumulators of a warpgroup's 64 experts as sums over K.
__device__ __forceinline__ void store_sums(BatchShared& shared, const WarpState& state, unsigned expert_tile,
                                           unsigned lane) {
    const unsigned g = lane / 4, c = lane % 4;
#pragma unroll
    for (unsigned i = 0; i < kAccumulators; ++i) {
        const unsigned token = i / 4 * 8 + 2 * c + i % 2, expert = expert_tile * kExpertTile + g + i / 2 % 2 * 8;
        float sum = state.acc[i] * kGateFactor;
        if constexpr (kScaleTokens) sum *= shared.token_scale[token];
        if (expert < kPlan.experts) shared.logits[token][expert] = sum;
    }
}

/// The K loop for one set of expert blocks. Ends with all sums written and every buffer free.
__device__ __forceinline__ void multiply_pass(const RouterParams& p, BatchShared& shared, const Tile& tile,
                                              unsigned pass, unsigned valid, unsigned thread) {
    const unsigned warp = thread / kWarp, lane = thread % kWarp;
    const unsigned expert_tile = (pass * kWarpgroups + warp / 4) * (kWarpgroupExperts / kExpertTile) + warp % 4;
    const bool write_codes = pass == 0 && given(p.codes_out);
    WarpState state = {};
    state.fetched = static_cast<unsigned long long>(expert_tile) * kChunks * kWarp + lane;
#pragma unroll
    for (unsigned n = 0; n + 1 < kGateDepth; ++n)
        fetch_gate(p, shared, state, n < kChunks && expert_tile < kGateTiles, n, thread);
    Carried carried = load_stage(p, tile, 0, valid, thread);
    store_stage(p, shared, tile, 0, write_codes, carried, thread);
    if (kStages > 1) carried = load_stage(p, tile, 1, valid, thread);
    const auto advance_tokens = [&](unsigned stage) {
        ptx::bar_sync();
        if (stage + 1 < kStages) store_stage(p, shared, tile, stage + 1, write_codes, carried, thread);
        if (stage + 2 < kStages) carried = load_stage(p, tile, stage + 2, valid, thread);
    };
#pragma unroll 1
    for (unsigned stage = 0; stage < kStages; stage += 2) {
        advance_tokens(stage);
        multiply_stage<0>(p, shared, state, stage, expert_tile, thread);
        if (stage + 1 >= kStages) break;
        advance_tokens(stage + 1);
        multiply_stage<kStageChunks % 2>(p, shared, state, stage + 1, expert_tile, thread);
    }
    ptx::cp_async_wait_group<0>();
    ptx::wgmma_wait_group<0>();
    keep_registers(state.fragments[0]);
    keep_registers(state.fragments[1]);
    store_sums(shared, state, expert_tile, lane);
    ptx::bar_sync();
}

/// A warp routes one token of the tile.
__device__ __forceinline__ void route_token(const RouterParams& p, BatchShared& shared, const Tile& tile,
                                            unsigned token, unsigned warp, unsigned lane) {
    const long long row = tile.first_row + token;
    if (!row_is_valid(p, row)) return write_padding_row<kWarp>(p, row, lane);
    float* value = shared.logits[token];
#pragma unroll 4
    for (unsigned e = lane; e < kPlan.experts; e += kWarp)
        value[e] = correct_logit(p, p.alpha * value[e], row_linear_bias(p, e));
    const bool image = is_image_row(p, row);
    select_row<kWarp>(p, shared.select[warp], value, row, lane, [&](unsigned e) { return row_bias(p, image, e); });
}

}  // namespace nvfp4r

extern "C" __global__ void __launch_bounds__(nvfp4r::kThreads, 1)
    nvfp4_router(const __grid_constant__ nvfp4r::RouterParams p) {
    using namespace nvfp4r;
    extern __shared__ __align__(1024) unsigned char memory[];
    BatchShared& shared = *reinterpret_cast<BatchShared*>(memory);
    const unsigned thread = threadIdx.x;
    const Tile tile = tile_of_cta(p);
    ptx::griddepcontrol_launch_dependents();
    ptx::griddepcontrol_wait();
    if constexpr (kScaleTokens) find_token_scales<kThreads>(p, shared.token_scale, tile, thread);
    unsigned valid = 0;
#pragma unroll
    for (unsigned i = 0; i < kThreadBlocks; ++i) {
        const Place at = place_of(thread, i);
        valid |= static_cast<unsigned>(at.chunk < kStageChunks && row_is_valid(p, tile.first_row + at.row)) << i;
    }
#pragma unroll 1
    for (unsigned pass = 0; pass < kPasses; ++pass) multiply_pass(p, shared, tile, pass, valid, thread);
    if (given(p.global_scales_out) && kPlan.quantise_tokens)
        for (unsigned t = thread; t < tile.rows; t += kThreads)
            p.global_scales_out[tile.first_row + t] =
                row_is_valid(p, tile.first_row + t) ? shared.token_scale[t] : 0.0f;
#pragma unroll 1
    for (unsigned t = thread / kWarp; t < tile.rows && thread / kWarp < kSelectWarps; t += kSelectWarps)
        route_token(p, shared, tile, t, thread / kWarp, thread % kWarp);
}
