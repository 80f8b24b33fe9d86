// The router on Blackwell: one launch from hidden states to experts. Experts are the rows of the block-scaled FP4 multiply
// (128 a block), tokens its columns, partial sums of the K slices joined through packets in global memory (join.cuh).
//
// Grid: x = expert groups * K slices, y = token tiles. Every CTA multiplies its experts x its K slice x the tile's tokens.
//
// | warp      | does                                                   | waits for                                  |
// |-----------|--------------------------------------------------------|--------------------------------------------|
// | 0, a lane | gate codes (TMA tensor) and scales (TMA bulk) to stages | empty[stage]; not for the previous kernel  |
// | 1, a lane | scales to TMEM, multiplies, frees stages, signals end   | gate_full[stage], tokens_full[stage]       |
// | 2         | allocates and frees TMEM                                | the CTA barriers around the work           |
// | 4 ..      | tokens to NVFP4 in shared memory, then accumulators out | griddepcontrol.wait, empty[stage], done    |
// | all       | join, score, select, write (join.cuh, select.cuh)       | packets of the tile's other CTAs           |
//
// | mbarrier            | arrivals                          | phase ends when                                        |
// |---------------------|-----------------------------------|--------------------------------------------------------|
// | gate_full[stage]    | 1 (producer) + bytes of the stage | the stage's codes and scales have landed               |
// | tokens_full[stage]  | token warps                       | the stage's token tile is written and fenced           |
// | empty[stage]        | 1 (commit)                        | every multiply that read the stage is done             |
// | done                | 1 (commit)                        | the accumulators are complete                          |
//
// Order of the K sum, the same for every launch of a plan: stages ascending; in a stage the products of terms (W1X1; W2X1,
// W1X2; ...), each over the stage's K steps ascending, all in one accumulator; then fp32 sums over slices ascending.
#include "descriptors.cuh"
#include "isa/launch.cuh"
#include "isa/mbarrier.cuh"
#include "isa/memory.cuh"
#include "isa/tcgen05.cuh"
#include "isa/tma.cuh"
#include "isa/warp.cuh"
#include "join.cuh"
#include "select.cuh"
#include "token_tile.cuh"

namespace nvfp4r {

inline constexpr unsigned kThreads = kPlan.warps * kWarp;
inline constexpr bool kScaled = kPlan.gate_form == GateForm::Nvfp4;
inline constexpr unsigned kStepK = step_k(kPlan.gate_form);
inline constexpr unsigned kStepBytes = 32;  // of a row, in every kind of multiply
inline constexpr unsigned kSteps = kStepsPerStage;
inline constexpr unsigned kStageK = stage_k(kPlan.gate_form);
static_assert(kSteps * kStepBytes == kOperandRow && kOperandRow == kSwizzleRow,
              "a stage is one swizzled row of operands");
inline constexpr unsigned kKSteps = ceil_div(kPlan.hidden, kStepK);
inline constexpr unsigned kStageCount = ceil_div(kKSteps, kSteps);
inline constexpr unsigned kStagesPerSlice = ceil_div(kStageCount, kPlan.slices);
inline constexpr unsigned kBlocks = kPlan.expert_tiles;  // 128-expert blocks of this CTA
inline constexpr unsigned kAllBlocks = ceil_div(kPlan.experts, kMmaExperts);
inline constexpr unsigned kGroups = ceil_div(kAllBlocks, kBlocks);
inline constexpr unsigned kProducers = kGroups * kPlan.slices;
inline constexpr bool kJoins = kProducers > 1;

// Warps.
inline constexpr unsigned kLoadWarp = 0, kMultiplyWarp = 1, kTmemWarp = 2, kFirstTokenWarp = 4;
inline constexpr unsigned kTokenWarps = kPlan.warps - kFirstTokenWarp;
inline constexpr unsigned kTokenThreads = kTokenWarps * kWarp;
static_assert(kTokenWarps >= 4 && kTokenWarps % 4 == 0,
              "a warp reads the quarter of the lanes that its number mod 4 names");

// A stage of the ring.
inline constexpr unsigned kGateTileBytes = kMmaExperts * kSwizzleRow;
inline constexpr unsigned kTokenTileBytes = kTileTokens * kSwizzleRow;
inline constexpr unsigned kTokenAtoms = ceil_div(kTileTokens, kMmaExperts);  // scale atoms of a K step
inline constexpr unsigned kGateOffset = 0;
inline constexpr unsigned kTokenOffset = kGateOffset + kPlan.gate_planes * kBlocks * kGateTileBytes;
inline constexpr unsigned kGateScaleOffset = kTokenOffset + kPlan.token_planes * kTokenTileBytes;
inline constexpr unsigned kTokenScaleOffset =
    kGateScaleOffset + (kScaled ? kPlan.gate_planes * kBlocks * kSteps * kScaleAtom : 0);
inline constexpr unsigned kStageBytes =
    round_up(kTokenScaleOffset + (kScaled ? kPlan.token_planes * kSteps * kTokenAtoms * kScaleAtom : 0), kSwizzleAtom);
static_assert(kStageBytes == blackwell_stage_bytes(kPlan), "the host sizes shared memory by the same formula");
static_assert(kGateTileBytes % kSwizzleAtom == 0 && kTokenTileBytes % kSwizzleAtom == 0,
              "tiles start on swizzle atoms");

// Tensor memory: accumulators, then each stage's own scale columns, so that no copy meets a multiply still reading.
inline constexpr unsigned kAccumulatorColumns = kBlocks * kTileTokens;
inline constexpr unsigned kAtomColumns = 4;
inline constexpr unsigned kGateScaleColumns = kPlan.gate_planes * kBlocks * kSteps * kAtomColumns;
inline constexpr unsigned kTokenScaleColumns = kPlan.token_planes * kSteps * kTokenAtoms * kAtomColumns;
inline constexpr unsigned kStageColumns = kScaled ? kGateScaleColumns + kTokenScaleColumns : 0;
static_assert(kAccumulatorColumns + kPlan.stages * kStageColumns <= kPlan.tmem_columns,
              "the plan allocates enough columns");
static_assert(kPlan.tmem_columns >= 32 && kPlan.tmem_columns <= 512 &&
                  (kPlan.tmem_columns & (kPlan.tmem_columns - 1)) == 0,
              "tcgen05.alloc takes powers of two from 32 to 512");

inline constexpr unsigned kInstruction = instruction_descriptor < kScaled ? Kind::Mxf4nvf4
                                                                          : Kind::Bf16 > (kMmaExperts, kTileTokens);

/// Selection without a join: a warp a token.
struct LocalSpace {
    float value[kSelectTokens][kPaddedExperts];
    SelectSpace select[kSelectTokens];
};

template <bool>
struct SelectingSpace {
    using Type = LocalSpace;
};
template <>
struct SelectingSpace<true> {
    using Type = JoinSpace;
};

struct BlackwellShared {
    unsigned long long gate_full[kPlan.stages], tokens_full[kPlan.stages], empty[kPlan.stages], done;
    unsigned tmem;
    float token_scale[kTileTokens];
    SelectingSpace<kJoins>::Type space;
};
static_assert(sizeof(BlackwellShared) <= blackwell_control_bytes(kPlan),
              "the host sizes shared memory by the same formula");

/// Where the CTA stands in the grid and in the ring.
struct Work {
    unsigned group, slice;
    unsigned first_stage, stage_count;  // of K, in units of kStageK
};

__device__ __forceinline__ Work work_of_cta() {
    const unsigned group = blockIdx.x / kPlan.slices, slice = blockIdx.x % kPlan.slices;
    const unsigned first = slice * kStagesPerSlice;
    return {group, slice, first, min(kStagesPerSlice, kStageCount - first)};
}
static_assert((kPlan.slices - 1) * kStagesPerSlice < kStageCount, "every slice has work");

/// Stage buffer and phase parity of the i-th stage of a CTA.
struct Turn {
    unsigned stage, parity;
};
__device__ __forceinline__ Turn turn_of(unsigned i) {
    return {i % kPlan.stages, i / kPlan.stages & 1};
}

/// K steps of a stage that hold something of K; the last stage may be short.
__device__ __forceinline__ unsigned steps_of(unsigned k_stage) {
    return min(kSteps, kKSteps - k_stage * kSteps);
}

struct Barriers {
    unsigned gate_full, tokens_full, empty, done;  // shared addresses; + 8 a stage
};
inline constexpr unsigned kBarrierBytes = 8;

/// Warp 0: the gate does not depend on the stream's previous kernel, so nothing here waits for it.
/// Stages [from, to) of the CTA's K slice.
__device__ __forceinline__ void load_gate(const RouterParams& p, const ptx::TensorMap& gate, const Work& work,
                                          unsigned from, unsigned to, unsigned ring, const Barriers& barriers) {
    const unsigned long long policy = ptx::createpolicy_evict_last();
    constexpr unsigned kRows = kAllBlocks * kMmaExperts;  // of one plane
    const unsigned first_block = work.group * kBlocks;
    const unsigned blocks = min(kBlocks, kAllBlocks - first_block);
    for (unsigned i = from; i < to; ++i) {
        const Turn turn = turn_of(i);
        const unsigned k_stage = work.first_stage + i, steps = steps_of(k_stage);
        const unsigned full = barriers.gate_full + turn.stage * kBarrierBytes;
        if (i >= kPlan.stages) ptx::mbarrier_wait_parity(barriers.empty + turn.stage * kBarrierBytes, turn.parity ^ 1);
        const unsigned scale_bytes = kScaled ? steps * kScaleAtom : 0;
        ptx::mbarrier_arrive_expect_tx(full, kPlan.gate_planes * blocks * (kGateTileBytes + scale_bytes));
        const unsigned stage = ring + turn.stage * kStageBytes;
        for (unsigned q = 0; q < kPlan.gate_planes; ++q)
            for (unsigned b = 0; b < blocks; ++b) {
                const unsigned tile = q * kBlocks + b, block = first_block + b;
                ptx::cp_async_bulk_tensor_2d(stage + kGateOffset + tile * kGateTileBytes, &gate,
                                             static_cast<int>(k_stage * kSwizzleRow),
                                             static_cast<int>(q * kRows + block * kMmaExperts), full, policy);
                if constexpr (kScaled) {
                    const auto* scales =
                        static_cast<const unsigned char*>(p.gate_scales[q]) +
                        (static_cast<unsigned long long>(block) * kKSteps + k_stage * kSteps) * kScaleAtom;
                    ptx::cp_async_bulk(stage + kGateScaleOffset + tile * kSteps * kScaleAtom, scales, scale_bytes, full,
                                       policy);
                }
            }
    }
}

/// Warp 1: everything that the tensor core does.
__device__ __forceinline__ void multiply(const Work& work, unsigned ring, const Barriers& barriers, unsigned tmem) {
    const unsigned blocks = min(kBlocks, kAllBlocks - work.group * kBlocks);
    for (unsigned i = 0; i < work.stage_count; ++i) {
        const Turn turn = turn_of(i);
        const unsigned steps = steps_of(work.first_stage + i);
        ptx::mbarrier_wait_parity(barriers.gate_full + turn.stage * kBarrierBytes, turn.parity);
        ptx::mbarrier_wait_parity(barriers.tokens_full + turn.stage * kBarrierBytes, turn.parity);
        ptx::tcgen05_fence_after_thread_sync();
        const unsigned stage = ring + turn.stage * kStageBytes;
        const unsigned gate_scales = tmem + kAccumulatorColumns + turn.stage * kStageColumns;
        const unsigned token_scales = gate_scales + kGateScaleColumns;
        if constexpr (kScaled) {
            for (unsigned q = 0; q < kPlan.gate_planes; ++q)
                for (unsigned b = 0; b < blocks; ++b)
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
        for (unsigned order = 0; order < kPlan.product_order; ++order)
            for (unsigned t = 0; t <= order; ++t) {
                const unsigned q = order - t;  // gate term q with token term t
                if (q >= kPlan.gate_planes || t >= kPlan.token_planes) continue;
                const unsigned long long tokens = swizzled_tile(stage + kTokenOffset + t * kTokenTileBytes);
                for (unsigned b = 0; b < blocks; ++b) {
                    const unsigned tile = q * kBlocks + b;
                    const unsigned long long gate = swizzled_tile(stage + kGateOffset + tile * kGateTileBytes);
                    for (unsigned s = 0; s < steps; ++s) {
                        const unsigned accumulate = i != 0 || order != 0 || s != 0;
                        const unsigned d = tmem + b * kTileTokens;
                        if constexpr (kScaled)
                            ptx::tcgen05_mma_mxf4nvf4_block16(
                                d, advance(gate, s * kStepBytes), advance(tokens, s * kStepBytes), kInstruction,
                                gate_scales + (tile * kSteps + s) * kAtomColumns,
                                token_scales + (t * kSteps + s) * kTokenAtoms * kAtomColumns, accumulate);
                        else
                            ptx::tcgen05_mma_f16(d, advance(gate, s * kStepBytes), advance(tokens, s * kStepBytes),
                                                 kInstruction, accumulate);
                    }
                }
            }
        if (i + kPlan.stages < work.stage_count) ptx::tcgen05_commit(barriers.empty + turn.stage * kBarrierBytes);
    }
    ptx::tcgen05_commit(barriers.done);
}

/// Byte of the scale of (token, 16-block of the stage) among the stage's token scales of one term.
__device__ __forceinline__ unsigned token_scale_offset(unsigned token, unsigned block) {
    constexpr unsigned kBlocksPerStep = kStepK / kScaleBlock;
    const unsigned atom = block / kBlocksPerStep * kTokenAtoms + token / kMmaExperts;
    return atom * kScaleAtom + token % 32 * 16 + token % kMmaExperts / 32 * 4 + block % kBlocksPerStep;
}

/// One 16-block of a token into every plane of a stage.
__device__ __forceinline__ void write_token_block(const RouterParams& p, unsigned char* stage, unsigned token,
                                                  unsigned block, const RawBlock<kPlan.token_form>& raw, float scale,
                                                  const CodesOut& out) {
    if constexpr (!kScaled) {
        PlaneBlock planes[kPlan.token_planes];
        token_planes(raw, p, scale, out, planes);
#pragma unroll
        for (unsigned t = 0; t < kPlan.token_planes; ++t)
#pragma unroll
            for (unsigned half = 0; half < 2; ++half)
                *reinterpret_cast<uint4*>(stage + kTokenOffset + t * kTokenTileBytes +
                                          swizzled_offset(token, (2 * block + half) * 16)) =
                    make_uint4(planes[t].word[4 * half], planes[t].word[4 * half + 1], planes[t].word[4 * half + 2],
                               planes[t].word[4 * half + 3]);
    } else {
        float x[kScaleBlock];
        if constexpr (kPlan.quantise_tokens)
#pragma unroll
            for (unsigned i = 0; i < kScaleBlock; ++i) x[i] = block_value<kPlan.token_form>(raw, i);
#pragma unroll
        for (unsigned t = 0; t < kPlan.token_planes; ++t) {
            unsigned long long codes;
            unsigned scale_byte;
            if constexpr (kPlan.quantise_tokens) {
                const QuantisedBlock term = quantise_block(x, t == 0 ? block_magnitude(raw) : largest_bits(x), scale);
                if (t + 1 < kPlan.token_planes) residual_block(x, term, scale);
                codes = term.codes;
                scale_byte = term.scale;
                if (t == 0) write_codes(p, kPlan.hidden, out, term);
            } else {
                codes = raw.word[0] | static_cast<unsigned long long>(raw.word[1]) << 32;
                scale_byte = raw.word[2] & 0x7fu;  // a UE4M3 number: its sign bit is not looked at
            }
            *reinterpret_cast<unsigned long long*>(stage + kTokenOffset + t * kTokenTileBytes +
                                                   swizzled_offset(token, block * 8)) = codes;
            stage[kTokenScaleOffset + t * kSteps * kTokenAtoms * kScaleAtom + token_scale_offset(token, block)] =
                static_cast<unsigned char>(scale_byte);
        }
    }
}

/// Token warps: the CTA's K slice of the tile's tokens, stage by stage. Padding rows and what lies past K are zero.
__device__ __forceinline__ void write_tokens(const RouterParams& p, BlackwellShared& shared, unsigned char* ring,
                                             const Tile& tile, const Work& work, const Barriers& barriers,
                                             unsigned thread) {
    constexpr unsigned kStageBlocks = kStageK / kScaleBlock;
    for (unsigned i = 0; i < work.stage_count; ++i) {
        const Turn turn = turn_of(i);
        unsigned char* stage = ring + turn.stage * kStageBytes;
        ptx::mbarrier_wait_parity(barriers.empty + turn.stage * kBarrierBytes, turn.parity ^ 1);
#pragma unroll 1
        for (unsigned j = thread; j < kTileTokens * kStageBlocks; j += kTokenThreads) {
            const unsigned token = j / kStageBlocks, block = j % kStageBlocks;
            const unsigned k = (work.first_stage + i) * kStageK + block * kScaleBlock;
            const long long row = tile.first_row + token;
            const bool present = k < kPlan.hidden && row_is_valid(p, row);
            const RawBlock<kPlan.token_form> raw =
                present ? load_block<kPlan.token_form>(p, row, k, kPlan.hidden) : empty_block<kPlan.token_form>();
            const CodesOut out{p.codes_out && work.group == 0 && token < tile.rows && k < kPlan.hidden, row, k};
            write_token_block(p, stage, token, block, raw, shared.token_scale[token], out);
        }
        ptx::fence_proxy_async_shared();
        ptx::bar_warp_sync();
        if (thread % kWarp == 0) ptx::mbarrier_arrive(barriers.tokens_full + turn.stage * kBarrierBytes);
    }
}

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
    const unsigned blocks = min(kBlocks, kAllBlocks - work.group * kBlocks);
    const unsigned warpgroup = (warp - kFirstTokenWarp) / 4;
    for (unsigned b = 0; b < blocks; ++b) {
        const unsigned expert = (work.group * kBlocks + b) * kMmaExperts + warp % 4 * kWarp + lane;
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
        if (warp < kSelectTokens && token < tile.rows) {
            const long long row = tile.first_row + token;
            if (row_is_valid(p, row)) {
                float* value = space.value[warp];
                const float alpha = p.alpha * token_scale[token];
                for (unsigned e = lane; e < kPlan.experts; e += kWarp)
                    value[e] = correct_logit(p, alpha * value[e], row_linear_bias(p, e));
                const bool image = is_image_row(p, row);
                select_row<kWarp>(p, space.select[warp], value, row, lane,
                                  [&](unsigned e) { return row_bias(p, image, e); });
            } else {
                write_padding_row<kWarp>(p, row, lane);
            }
        }
        ptx::bar_sync();
    }
}
__device__ __forceinline__ void finish(const RouterParams&, LocalSpace&, const float*, const Tile&, unsigned) {}

}  // namespace nvfp4r

extern "C" __global__ void __launch_bounds__(nvfp4r::kThreads, 1)
    nvfp4_router(const __grid_constant__ nvfp4r::KernelParams params,
                 const __grid_constant__ nvfp4r::ptx::TensorMap gate) {
    using namespace nvfp4r;
    const RouterParams& p = with_options(params);
    extern __shared__ __align__(1024) unsigned char memory[];
    unsigned char* ring = memory;
    BlackwellShared& shared = *reinterpret_cast<BlackwellShared*>(memory + kPlan.stages * kStageBytes);
    const unsigned thread = threadIdx.x, warp = thread / kWarp, lane = thread % kWarp;
    const Work work = work_of_cta();
    const Tile tile = tile_of_cta(p);
    const unsigned ring_address = ptx::shared_address(ring);
    const Barriers barriers{ptx::shared_address(shared.gate_full), ptx::shared_address(shared.tokens_full),
                            ptx::shared_address(shared.empty), ptx::shared_address(&shared.done)};

    if (warp == kLoadWarp && lane == 0) {
        ptx::prefetch_tensormap(&gate);
        for (unsigned s = 0; s < kPlan.stages; ++s) {
            ptx::mbarrier_init(barriers.gate_full + s * kBarrierBytes, 1);
            ptx::mbarrier_init(barriers.tokens_full + s * kBarrierBytes, kTokenWarps);
            ptx::mbarrier_init(barriers.empty + s * kBarrierBytes, 1);
        }
        ptx::mbarrier_init(barriers.done, 1);
        ptx::fence_mbarrier_init();
    }
    if (warp == kTmemWarp) {
        ptx::tcgen05_alloc(ptx::shared_address(&shared.tmem), kPlan.tmem_columns);
        ptx::tcgen05_relinquish_alloc_permit();
    }
    if constexpr (kScaled) {
        // tcgen05.cp reads whole atoms of 128 tokens: those past the tile have the scale 0.
        constexpr unsigned kWords = kPlan.token_planes * kSteps * kTokenAtoms * kScaleAtom / 16;
        if (warp >= kFirstTokenWarp)
            for (unsigned i = thread - kFirstTokenWarp * kWarp; i < kPlan.stages * kWords; i += kTokenThreads)
                *reinterpret_cast<uint4*>(ring + i / kWords * kStageBytes + kTokenScaleOffset + i % kWords * 16) =
                    make_uint4(0, 0, 0, 0);
    }
    ptx::tcgen05_fence_before_thread_sync();
    ptx::bar_sync();
    ptx::tcgen05_fence_after_thread_sync();
    const unsigned tmem = shared.tmem;

    // The ring's first turn needs no stage freed, so the gate is on its way before the previous kernel ends.
    const unsigned at_once = min(kPlan.stages, work.stage_count);
    if (warp == kLoadWarp && ptx::elect_sync()) load_gate(p, gate, work, 0, at_once, ring_address, barriers);
    ptx::griddepcontrol_launch_dependents();
    ptx::griddepcontrol_wait();
    unsigned long long ticket = 0;
    if constexpr (kJoins)
        if (thread == 0) ticket = take_ticket(p, tile);
    find_token_scales<kThreads>(p, shared.token_scale, tile, thread);

    if (warp == kLoadWarp && ptx::elect_sync())
        load_gate(p, gate, work, at_once, work.stage_count, ring_address, barriers);
    if (warp == kMultiplyWarp && ptx::elect_sync()) multiply(work, ring_address, barriers, tmem);
    if (warp >= kFirstTokenWarp) {
        write_tokens(p, shared, ring, tile, work, barriers, thread - kFirstTokenWarp * kWarp);
        if (p.global_scales_out && kPlan.quantise_tokens && blockIdx.x == 0)
            for (unsigned t = thread - kFirstTokenWarp * kWarp; t < tile.rows; t += kTokenThreads)
                p.global_scales_out[tile.first_row + t] =
                    row_is_valid(p, tile.first_row + t) ? shared.token_scale[t] : 0.0f;
    }
    ptx::bar_warp_sync();
    ptx::mbarrier_wait_parity(barriers.done, 0);
    ptx::tcgen05_fence_after_thread_sync();

    use_accumulators(p, shared.space, shared.token_scale, tile, work, tmem, ticket, thread);
    ptx::tcgen05_fence_before_thread_sync();
    ptx::bar_sync();
    if (warp == kTmemWarp) {
        ptx::tcgen05_fence_after_thread_sync();
        ptx::tcgen05_dealloc(tmem, kPlan.tmem_columns);
    }
    finish(p, shared.space, shared.token_scale, tile, thread);
}
