// The router on Hopper for large batches. Experts are the rows of wgmma, their weights dequantised into its register
// operand; tokens are its columns, brought once per CTA into swizzled shared memory.
//
// Grid: x = expert groups * slices of K; y = token tiles. A warpgroup multiplies 64 experts. The CTA's warpgroups are
// `kGroupsM` sets of experts times kPlan.warps_k that take turns at the chunks of K.
//
// | who                | does                                                     | waits for                              |
// |--------------------|----------------------------------------------------------|----------------------------------------|
// | every thread       | copies its part of stage s + D - 2 into the ring of D    | barrier of stage s: every warp has     |
// |                    | stages: plain bf16 tokens by cp.async, others through    | issued stage s - 1, whose wait left    |
// |                    | registers one stage ahead                                | nothing of stage s - 2 in flight       |
// | every lane         | copies its part of its chunks' gate tiles to its own     | cp.async.wait_group: stage s has come; |
// |                    | place in the stage                                       | no other thread reads that place       |
// | every warpgroup    | dequantises a chunk while wgmma of its last one runs     | wait_group 1: the chunk before that is |
// |                    |                                                          | done, and with it that fragment buffer |
// | every warp, at end | adds the warpgroups' sums; where several CTAs share the  | barrier: all sums are written          |
// |                    | tile, sends them as packets and joins a share of tokens  | its packets (join_tile.cuh)            |
// | a warp a token     | selects                                                  | barrier: all logits are written        |
//
// A stage is written before barrier s and read after it; the writers' fence.proxy.async makes it visible to wgmma.
//
// Order of the K sum, the same for every launch of a plan: the chunks of a warpgroup ascending in one accumulator, in a
// chunk four steps of 16 k ascending, gate planes outermost and token planes innermost in a step's place; then
// warpgroups ascending, then slices ascending.
#include "descriptors.cuh"
#include "gate_tile.cuh"
#include "isa/cp_async.cuh"
#include "isa/launch.cuh"
#include "isa/wgmma.cuh"
#include "join_tile.cuh"
#include "select.cuh"
#include "token_tile.cuh"

namespace nvfp4r {

inline constexpr unsigned kThreads = kPlan.warps * kWarp;
inline constexpr unsigned kGroupsK = kPlan.warps_k;
inline constexpr unsigned kGroupsM = kPlan.warps / 4 / kGroupsK;
inline constexpr unsigned kGateTiles = ceil_div(kPlan.experts, kExpertTile);
inline constexpr unsigned kSliceChunks = ceil_div(kChunks, kPlan.slices);
inline constexpr unsigned kStageChunks = kPlan.chunks_per_warp;
inline constexpr unsigned kOwnChunks = kStageChunks / kGroupsK;  // of a stage, for one warpgroup
inline constexpr unsigned kStageCount = ceil_div(kSliceChunks, kStageChunks);
inline constexpr unsigned kDepth = kPlan.stages;
inline constexpr unsigned kSelectWarps = batch_select_warps(kPlan);
inline constexpr unsigned kSumStride = batch_sum_stride(kPlan);
inline constexpr unsigned kLogitStride = batch_logit_stride(kPlan);
inline constexpr unsigned kAccumulators = kTileTokens / 2;  // registers of a thread: 64 x kTileTokens over 128 threads
inline constexpr bool kJoined = batch_ctas(kPlan) > 1;
/// Plain bf16 tokens go from global to shared memory as they are.
inline constexpr bool kCopyTokens = kPlan.plain && kPlan.token_form == TokenForm::Bf16 && !kPlan.quantise_tokens;

static_assert(kPlan.warps % (4 * kGroupsK) == 0, "wgmma is issued by whole warpgroups");
static_assert(kStageChunks % kGroupsK == 0, "every warpgroup has as many chunks of a stage");
static_assert(kDepth >= 3, "one stage is multiplied, one may still be, one is written");
static_assert(kChunk * 2 == kSwizzleRow, "a chunk of bf16 is one row of the 128-byte swizzle");

using TokenStage = unsigned char[kStageChunks][kTokenPlanes][kTileTokens * kSwizzleRow];

struct Stage {
    alignas(1024) TokenStage tokens;  // swizzle atoms are 1024 bytes
    ptx::Words4 quad[kOwnChunks][kPlan.gate_planes][GateTile::kQuads][kPlan.warps][kWarp];
    ptx::Words2 scales[kOwnChunks][kPlan.gate_planes][kPlan.warps][kWarp];  // NVFP4 only: rows g, g + 8 of four blocks
};

struct Tail {
    union {
        alignas(16) float sums[kGroupsK][kTileTokens][kSumStride];
        float logits[kJoined ? kShareTokens : 1][kLogitStride];
    };
    SelectSpace select[kSelectWarps];
};

struct BatchShared {
    union {
        Stage stage[kDepth];
        Tail tail;  // after the last wgmma
    };
    float token_scale[kTileTokens];
    unsigned long long ticket;
    unsigned handed_over;
};
static_assert(sizeof(BatchShared) == batch_shared_bytes(kPlan), "the host sizes shared memory by the same formula");

__device__ __forceinline__ unsigned shared_address(const void* p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

/// The K chunks of this CTA.
struct Slice {
    unsigned first, chunks;
};

/// Where a thread's item i of a stage is, for items of 128 / kParts bytes of bf16: row of the tile, chunk of the stage, part
/// of the chunk.
struct Place {
    unsigned row, chunk, part;
};
template <unsigned kParts>
__device__ __forceinline__ Place place_of(unsigned thread, unsigned i) {
    const unsigned item = thread + i * kThreads;
    return {item / kParts % kTileTokens, item / kParts / kTileTokens, item % kParts};
}
template <unsigned kParts>
inline constexpr unsigned kThreadItems = ceil_div(kStageChunks* kTileTokens* kParts, kThreads);
template <unsigned kParts>
inline constexpr bool kItemsFit = kStageChunks* kTileTokens* kParts % kThreads == 0;

inline constexpr unsigned kUnits = 8;                             // 16-byte units of a chunk: what cp.async copies
inline constexpr unsigned kBlocks = kChunk / kScaleBlock;         // 16-value blocks of a chunk: what is converted
inline constexpr unsigned kThreadBlocks = kThreadItems<kBlocks>;  // that a thread brings to a stage
static_assert(kThreadBlocks <= 32, "the rows that are routed have a bit a block");

/// Starts the copies of a stage's plain bf16 tokens; rows past the tile and values past K become zero.
__device__ __forceinline__ void copy_tokens(const RouterParams& p, Stage& stage, const Tile& tile, const Slice& slice,
                                            unsigned number, unsigned thread) {
    constexpr unsigned kUnitValues = 8;
#pragma unroll
    for (unsigned i = 0; i < kThreadItems<kUnits>; ++i) {
        const Place at = place_of<kUnits>(thread, i);
        if (!kItemsFit<kUnits> && at.chunk >= kStageChunks) continue;
        const unsigned k = (slice.first + number * kStageChunks + at.chunk) * kChunk + at.part * kUnitValues;
        const bool present = at.row < tile.rows && k < kPlan.hidden;
        const long long row = tile.first_row + (present ? at.row : 0);
        const auto* source = static_cast<const unsigned short*>(p.hidden) + row * p.hidden_stride + (present ? k : 0);
        ptx::cp_async_cg_16_or_zero(shared_address(stage.tokens[at.chunk][0]) + swizzled_offset(at.row, at.part * 16),
                                    source, present);
    }
}

/// The token blocks of one stage that a thread carries, in registers on their way.
struct Carried {
    RawBlock<kPlan.token_form> block[kThreadBlocks];
};

/// Loads a thread's blocks of a stage; rows that are not routed and values past K are zero. `valid` has a bit a block.
__device__ __forceinline__ Carried load_tokens(const RouterParams& p, const Tile& tile, const Slice& slice,
                                               unsigned number, unsigned valid, unsigned thread) {
    Carried carried;
#pragma unroll
    for (unsigned i = 0; i < kThreadBlocks; ++i) {
        const Place at = place_of<kBlocks>(thread, i);
        const unsigned k = (slice.first + number * kStageChunks + at.chunk) * kChunk + at.part * kScaleBlock;
        const bool present = (valid >> i & 1u) != 0 && k < kPlan.hidden;
        carried.block[i] = present ? load_block<kPlan.token_form>(p, tile.first_row + at.row, k, kPlan.hidden)
                                   : empty_block<kPlan.token_form>();
    }
    return carried;
}

/// Converts a thread's blocks and writes them where wgmma reads them, in the natural order of K.
__device__ __forceinline__ void store_tokens(const RouterParams& p, BatchShared& shared, Stage& stage, const Tile& tile,
                                             const Slice& slice, unsigned number, bool write_codes,
                                             const Carried& carried, unsigned thread) {
#pragma unroll
    for (unsigned i = 0; i < kThreadBlocks; ++i) {
        const Place at = place_of<kBlocks>(thread, i);
        if (!kItemsFit<kBlocks> && at.chunk >= kStageChunks) continue;
        const unsigned chunk = number * kStageChunks + at.chunk;
        const unsigned k = (slice.first + chunk) * kChunk + at.part * kScaleBlock;
        CodesOut out{false, tile.first_row + at.row, k};
        float scale = 1.0f;
        if constexpr (kPlan.quantise_tokens) {
            scale = shared.token_scale[at.row];
            out.write = write_codes && at.row < tile.rows && chunk < slice.chunks && k < kPlan.hidden;
        }
        PlaneBlock planes[kTokenPlanes];
        token_planes(carried.block[i], p, scale, out, planes);
#pragma unroll
        for (unsigned q = 0; q < kTokenPlanes; ++q)
#pragma unroll
            for (unsigned h = 0; h < 2; ++h) {
                const unsigned* w = planes[q].word + 4 * h;
                *reinterpret_cast<uint4*>(stage.tokens[at.chunk][q] +
                                          swizzled_offset(at.row, at.part * 32 + h * 16)) = {w[0], w[1], w[2], w[3]};
            }
    }
    ptx::fence_proxy_async_shared();
}

/// What a warp keeps in registers through the K loop. Plane q of its chunk n uses fragments (n * planes + q) % 2, an index
/// that is a constant where the loop is unrolled.
struct WarpState {
    float acc[kAccumulators];
    GateFragments fragments[2];
};

/// Starts the copies of the lane's part of a stage's gate tiles.
__device__ __forceinline__ void copy_gate(const RouterParams& p, Stage& stage, const Slice& slice, unsigned expert_tile,
                                          unsigned number, unsigned thread) {
    const unsigned warp = thread / kWarp, lane = thread % kWarp;
#pragma unroll
    for (unsigned u = 0; u < kOwnChunks; ++u) {
        const unsigned chunk = number * kStageChunks + u * kGroupsK + warp / 4 % kGroupsK;
        if (chunk >= slice.chunks || expert_tile >= kGateTiles) continue;
        const unsigned at = (expert_tile * kChunks + slice.first + chunk) * kWarp + lane;
#pragma unroll
        for (unsigned q = 0; q < kPlan.gate_planes; ++q) {
            const auto* codes = static_cast<const ptx::Words4*>(p.gate_codes[q]) +
                                static_cast<unsigned long long>(at) * GateTile::kQuads;
#pragma unroll
            for (unsigned i = 0; i < GateTile::kQuads; ++i)
                ptx::cp_async_cg_16(shared_address(&stage.quad[u][q][i][warp][lane]), codes + i);
            // Four lanes share the scales of their two rows; each keeps a copy.
            if constexpr (GateTile::kNvfp4)
                ptx::cp_async_ca_8(shared_address(&stage.scales[u][q][warp][lane]),
                                   static_cast<const unsigned short*>(p.gate_scales[q]) + (at & ~3u));
        }
    }
}

/// The fragments of one plane of a chunk that has come: step s is block s of the chunk, so it has one scale a row.
__device__ __forceinline__ GateFragments read_gate(const Stage& stage, unsigned expert_tile, unsigned u, unsigned plane,
                                                   unsigned thread) {
    const unsigned warp = thread / kWarp, lane = thread % kWarp;
    GateFragments f = {};
    if (kGateTiles % (kWarpgroupExperts / kExpertTile) != 0 && expert_tile >= kGateTiles) return f;
    if constexpr (GateTile::kNvfp4) {
        const ptx::Words4 codes = stage.quad[u][plane][0][warp][lane];
        const ptx::Words2 scales = stage.scales[u][plane][warp][lane];
        const unsigned word[kSteps] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
        for (unsigned s = 0; s < kSteps; ++s) {
            const unsigned pair = (s < 2 ? scales.x : scales.y) >> (s % 2 * 16);
            dequantise_word(word[s], gate_scale(pair & 0xffu), gate_scale(pair >> 8 & 0xffu), f.a[s]);
        }
    } else {
#pragma unroll
        for (unsigned s = 0; s < kSteps; ++s) {
            const ptx::Words4 v = stage.quad[u][plane][s % GateTile::kQuads][warp][lane];
            f.a[s][0] = v.x, f.a[s][1] = v.y, f.a[s][2] = v.z, f.a[s][3] = v.w;
        }
    }
    return f;
}

/// wgmma reads its register operand after it was issued: until the wait the compiler must take it for used.
__device__ __forceinline__ void keep_registers(const GateFragments& fragments) {
#pragma unroll
    for (unsigned s = 0; s < kSteps; ++s)
#pragma unroll
        for (unsigned r = 0; r < 4; ++r) asm volatile("" ::"r"(fragments.a[s][r]) : "memory");
}

/// Own chunk u of a stage; kParity is the number modulo 2 of the warpgroup's chunk.
template <unsigned kParity>
__device__ __forceinline__ void multiply_chunk(const Stage& stage, WarpState& state, unsigned tokens,
                                               unsigned expert_tile, unsigned u, unsigned thread) {
#pragma unroll
    for (unsigned q = 0; q < kPlan.gate_planes; ++q) {
        GateFragments& fragments = state.fragments[(kParity * kPlan.gate_planes + q) % 2];
        fragments = read_gate(stage, expert_tile, u, q, thread);
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
    // With several gate planes the compiler copies fragments where the paths around a chunk meet: none may still be wgmma's
    // there.
    if constexpr (kPlan.gate_planes > 1) {
        ptx::wgmma_wait_group<0>();
        keep_registers(state.fragments[0]);
        keep_registers(state.fragments[1]);
    }
}

/// The warpgroup's chunks of a stage; kFirst is the first one's number modulo 2.
template <unsigned kFirst>
__device__ __forceinline__ void multiply_stage(const Stage& stage, WarpState& state, const Slice& slice,
                                               unsigned number, unsigned expert_tile, unsigned thread) {
    const bool has_experts = expert_tile - thread / kWarp % 4 < kGateTiles;  // the warpgroup
    const unsigned turn = thread / (4 * kWarp) % kGroupsK;
    const unsigned tokens = shared_address(&stage.tokens);
    constexpr unsigned kChunkBytes = sizeof(TokenStage) / kStageChunks;
#pragma unroll
    for (unsigned u = 0; u < kOwnChunks; ++u) {
        const unsigned c = u * kGroupsK + turn;
        if (!has_experts || number * kStageChunks + c >= slice.chunks) continue;
        if ((kFirst + u) % 2 == 0)
            multiply_chunk<0>(stage, state, tokens + c * kChunkBytes, expert_tile, u, thread);
        else
            multiply_chunk<1>(stage, state, tokens + c * kChunkBytes, expert_tile, u, thread);
    }
}

/// The accumulators of a warpgroup's 64 experts as its part of the sums over K.
__device__ __forceinline__ void store_sums(BatchShared& shared, const WarpState& state, unsigned thread) {
    const unsigned lane = thread % kWarp, warpgroup = thread / (4 * kWarp);
    const unsigned row = warpgroup / kGroupsK * kWarpgroupExperts + thread / kWarp % 4 * kExpertTile + lane / 4;
#pragma unroll
    for (unsigned i = 0; i < kAccumulators; ++i) {
        const unsigned token = i / 4 * 8 + 2 * (lane % 4) + i % 2;
        float sum = state.acc[i] * kGateFactor;
        if constexpr (kScaleTokens) sum *= shared.token_scale[token];
        shared.tail.sums[warpgroup % kGroupsK][token][row + i / 2 % 2 * 8] = sum;
    }
}

/// The K loop. Ends with all sums written.
__device__ __forceinline__ void multiply(const RouterParams& p, BatchShared& shared, const Tile& tile,
                                         const Slice& slice, unsigned group, unsigned valid, unsigned thread) {
    const unsigned block = group * kGroupsM + thread / kWarp / (4 * kGroupsK);  // of 64 experts
    const unsigned expert_tile = block * (kWarpgroupExperts / kExpertTile) + thread / kWarp % 4;
    const bool write_codes = group == 0 && given(p.codes_out);
    WarpState state = {};
    Carried carried;
    const auto copy_stage = [&](unsigned number) {
        if (number < kStageCount) {
            Stage& stage = shared.stage[number % kDepth];
            copy_gate(p, stage, slice, expert_tile, number, thread);
            if constexpr (kCopyTokens) copy_tokens(p, stage, tile, slice, number, thread);
        }
        ptx::cp_async_commit_group();
    };
#pragma unroll
    for (unsigned n = 0; n + 2 < kDepth; ++n) copy_stage(n);
    if constexpr (!kCopyTokens) {
        carried = load_tokens(p, tile, slice, 0, valid, thread);
        store_tokens(p, shared, shared.stage[0], tile, slice, 0, write_codes, carried, thread);
        if (kStageCount > 1) carried = load_tokens(p, tile, slice, 1, valid, thread);
    }
    const auto advance_stage = [&](unsigned number) {
        ptx::cp_async_wait_group<kDepth - 3>();
        if constexpr (kCopyTokens) ptx::fence_proxy_async_shared();
        ptx::bar_sync();
        copy_stage(number + kDepth - 2);
        if constexpr (!kCopyTokens) {
            if (number + 1 < kStageCount)
                store_tokens(p, shared, shared.stage[(number + 1) % kDepth], tile, slice, number + 1, write_codes,
                             carried, thread);
            if (number + 2 < kStageCount) carried = load_tokens(p, tile, slice, number + 2, valid, thread);
        }
    };
#pragma unroll 1
    for (unsigned number = 0; number < kStageCount; number += 2) {
        advance_stage(number);
        multiply_stage<0>(shared.stage[number % kDepth], state, slice, number, expert_tile, thread);
        if (number + 1 >= kStageCount) break;
        advance_stage(number + 1);
        multiply_stage<kOwnChunks % 2>(shared.stage[(number + 1) % kDepth], state, slice, number + 1, expert_tile,
                                       thread);
    }
    ptx::cp_async_wait_group<0>();
    ptx::wgmma_wait_group<0>();
    keep_registers(state.fragments[0]);
    keep_registers(state.fragments[1]);
    // The compiler knows nothing of the wait: without this it may use the accumulators above it.
#pragma unroll
    for (unsigned i = 0; i < kAccumulators; ++i) asm volatile("" : "+f"(state.acc[i])::"memory");
    ptx::bar_sync();  // the sums go where the stages were
    store_sums(shared, state, thread);
    ptx::bar_sync();
}

/// Adds the warpgroups' sums; sends them where CTAs share the tile, else leaves them in sums[0].
__device__ __forceinline__ void finish_sums(const RouterParams& p, BatchShared& shared, const Tile& tile,
                                            unsigned group, unsigned slice, unsigned thread) {
    if constexpr (kJoined || kGroupsK > 1) {
        constexpr unsigned kQuads = kGroupsM * kWarpgroupExperts / 4;
#pragma unroll 1
        for (unsigned i = thread; i < tile.rows * kQuads; i += kThreads) {
            const unsigned token = i / kQuads, quad = i % kQuads;
            float4 sum = *reinterpret_cast<const float4*>(&shared.tail.sums[0][token][4 * quad]);
#pragma unroll
            for (unsigned w = 1; w < kGroupsK; ++w) {
                const float4 v = *reinterpret_cast<const float4*>(&shared.tail.sums[w][token][4 * quad]);
                sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
            }
            if constexpr (kJoined) {
                if (group * kQuads + quad < kExpertQuads)
                    ptx::st_relaxed_gpu_v4(
                        packet_quad(p, tile, token, slice, group * kQuads + quad),
                        {packet_word(sum.x), packet_word(sum.y), packet_word(sum.z), packet_word(sum.w)});
            } else {
                *reinterpret_cast<float4*>(&shared.tail.sums[0][token][4 * quad]) = sum;
            }
        }
    }
}

/// A warp routes one token of the tile.
__device__ __forceinline__ void route_token(const RouterParams& p, BatchShared& shared, const Tile& tile, float* value,
                                            unsigned token, unsigned warp, unsigned lane) {
    const long long row = tile.first_row + token;
    if (!row_is_valid(p, row)) return write_padding_row<kWarp>(p, row, lane);
#pragma unroll 4
    for (unsigned e = lane; e < kPlan.experts; e += kWarp)
        value[e] = correct_logit(p, p.alpha * value[e], row_linear_bias(p, e));
    const bool image = is_image_row(p, row);
    select_row<kWarp>(p, shared.tail.select[warp], value, row, lane, [&](unsigned e) { return row_bias(p, image, e); });
}

/// Joins and selects the tokens that fall to this CTA.
__device__ __forceinline__ void select_shares(const RouterParams& p, BatchShared& shared, const Tile& tile,
                                              unsigned thread) {
    const unsigned warp = thread / kWarp, lane = thread % kWarp;
    const unsigned long long ticket = shared.ticket;
    const unsigned from_end = gridDim.x - 1 - static_cast<unsigned>(ticket);
    const bool last = from_end == 0;
    if (last && thread == 0) ptx::st_relaxed_gpu_u64(p.tickets + tile.index, 0);
    unsigned todo = last ? static_cast<unsigned>(ticket >> 32) : 0u;
    if (from_end < kShares) todo |= 1u << from_end;
#pragma unroll 1
    for (unsigned share = 0; share < kShares; ++share) {
        if ((todo >> share & 1u) == 0) continue;
        if constexpr (kJoined) {
            if (!join_share<kThreads, kLogitStride>(p, tile, share, last, shared.tail.logits[0], shared.handed_over,
                                                    thread))
                continue;
#pragma unroll 1
            for (unsigned j = warp; j < kShareTokens && warp < kSelectWarps; j += kSelectWarps)
                if (share + j * kShares < tile.rows)
                    route_token(p, shared, tile, shared.tail.logits[j], share + j * kShares, warp, lane);
            ptx::bar_sync();  // the next share's logits go to the same place
        }
    }
}

}  // namespace nvfp4r

extern "C" __global__ void __launch_bounds__(nvfp4r::kThreads, 1)
    nvfp4_router(const __grid_constant__ nvfp4r::KernelParams params) {
    using namespace nvfp4r;
    const RouterParams& p = with_options(params);
    extern __shared__ __align__(1024) unsigned char memory[];
    BatchShared& shared = *reinterpret_cast<BatchShared*>(memory);
    const unsigned thread = threadIdx.x;
    const unsigned group = blockIdx.x / kPlan.slices, slice = blockIdx.x % kPlan.slices;
    const Tile tile = tile_of_cta(p);
    ptx::griddepcontrol_launch_dependents();
    ptx::griddepcontrol_wait();
    unsigned long long ticket = 0;
    if constexpr (kJoined)
        if (thread == 0) ticket = take_ticket(p, tile);
    if constexpr (kScaleTokens) find_token_scales<kThreads>(p, shared.token_scale, tile, thread);
    unsigned valid = 0;
    if constexpr (!kCopyTokens) {
#pragma unroll
        for (unsigned i = 0; i < kThreadBlocks; ++i) {
            const Place at = place_of<kBlocks>(thread, i);
            valid |= static_cast<unsigned>(at.chunk < kStageChunks && row_is_valid(p, tile.first_row + at.row)) << i;
        }
    }
    const unsigned first = slice * kSliceChunks, left = kChunks - first;
    const Slice part{first, left < kSliceChunks ? left : kSliceChunks};
    multiply(p, shared, tile, part, group, valid, thread);
    if (given(p.global_scales_out) && kPlan.quantise_tokens && blockIdx.x == 0)
        for (unsigned t = thread; t < tile.rows; t += kThreads)
            p.global_scales_out[tile.first_row + t] =
                row_is_valid(p, tile.first_row + t) ? shared.token_scale[t] : 0.0f;
    finish_sums(p, shared, tile, group, slice, thread);
    if constexpr (kJoined) {
        if (thread == 0) shared.ticket = ticket;
        ptx::bar_sync();
        select_shares(p, shared, tile, thread);
    } else {
        if constexpr (kGroupsK > 1) ptx::bar_sync();
#pragma unroll 1
        for (unsigned t = thread / kWarp; t < tile.rows && thread / kWarp < kSelectWarps; t += kSelectWarps)
            route_token(p, shared, tile, shared.tail.sums[0][t], t, thread / kWarp, thread % kWarp);
    }
}
