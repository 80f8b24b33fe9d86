// The Blackwell kernel's constants: how K and the experts are shared out, what lies in a stage of the ring, in tensor
// memory and in shared memory. The host sizes memory by the same formulas (router_params.h).
#pragma once

#include "descriptors.cuh"
#include "isa/mbarrier.cuh"
#include "join.cuh"
#include "select.cuh"
#include "token_tile.cuh"

namespace nvfp4r {

inline constexpr unsigned kThreads = kPlan.warps * kWarp;
inline constexpr bool kScaled = kPlan.gate_form == GateForm::Nvfp4;
inline constexpr unsigned kStepK = step_k(kPlan.gate_form);
inline constexpr unsigned kStepBytes = 32;  // of a row, in every kind of multiply
static_assert(kRowSteps * kStepBytes == kOperandRow && kOperandRow == kSwizzleRow,
              "an operand row is one swizzled row of shared memory");
inline constexpr unsigned kRows = kPlan.chunks_per_warp;  // operand rows of a stage, a tile each
inline constexpr unsigned kSteps = stage_steps(kPlan);
inline constexpr unsigned kStageK = stage_k(kPlan);
inline constexpr unsigned kKSteps = ceil_div(kPlan.hidden, kStepK);
inline constexpr unsigned kStageCount = ceil_div(kKSteps, kSteps);
inline constexpr unsigned kStagesPerSlice = ceil_div(kStageCount, kPlan.slices);
static_assert((kPlan.slices - 1) * kStagesPerSlice < kStageCount, "every slice has work");
inline constexpr unsigned kBlocks = kPlan.expert_tiles;  // 128-expert blocks of this CTA
inline constexpr unsigned kAllBlocks = ceil_div(kPlan.experts, kMmaExperts);
inline constexpr unsigned kGroups = ceil_div(kAllBlocks, kBlocks);
inline constexpr bool kJoins = kGroups * kPlan.slices > 1;

// Warps.
inline constexpr unsigned kLoadWarp = 0, kMultiplyWarp = 1, kTmemWarp = 2, kFirstTokenWarp = 4;
inline constexpr unsigned kTokenWarps = kPlan.warps - kFirstTokenWarp;
inline constexpr unsigned kTokenThreads = kTokenWarps * kWarp;
static_assert(kTokenWarps >= 4 && kTokenWarps % 4 == 0,
              "a warp reads the quarter of the lanes that its number mod 4 names");

// A stage of the ring: tiles of gate codes and of token codes, one for each operand row, then scale atoms.
inline constexpr unsigned kGateTileBytes = kMmaExperts * kSwizzleRow;
inline constexpr unsigned kTokenTileBytes = kTileTokens * kSwizzleRow;
inline constexpr unsigned kTokenAtoms = ceil_div(kTileTokens, kMmaExperts);  // scale atoms of a K step
inline constexpr unsigned kGateOffset = 0;
inline constexpr unsigned kTokenOffset = kGateOffset + kPlan.gate_planes * kBlocks * kRows * kGateTileBytes;
inline constexpr unsigned kGateScaleOffset = kTokenOffset + kPlan.token_planes * kRows * kTokenTileBytes;
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

/// Behind the ring.
struct BlackwellShared {
    unsigned long long copied[kPlan.stages], written[kPlan.stages], empty[kPlan.stages], done;
    unsigned tmem;
    float token_scale[kTileTokens];
    SelectingSpace<kJoins>::Type space;
};
static_assert(sizeof(BlackwellShared) <= blackwell_control_bytes(kPlan),
              "the host sizes shared memory by the same formula");

/// The mbarriers' shared addresses; those of a ring are kBarrierBytes apart, one a stage.
struct Barriers {
    unsigned copied, written, empty, done;
};
inline constexpr unsigned kBarrierBytes = 8;

/// Where the CTA stands in the grid.
struct Work {
    unsigned group, slice;
    unsigned first_block, blocks;       // of 128 experts
    unsigned first_stage, stage_count;  // of K
};

__device__ __forceinline__ Work work_of_cta() {
    const unsigned group = blockIdx.x / kPlan.slices, slice = blockIdx.x % kPlan.slices;
    const unsigned first = slice * kStagesPerSlice;
    return {group,           slice,
            group * kBlocks, min(kBlocks, kAllBlocks - group * kBlocks),
            first,           min(kStagesPerSlice, kStageCount - first)};
}

/// Buffer and phase parity of the i-th stage of a CTA.
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

/// NVFP4 tokens come by TMA where rows start and lie as a tensor map can say; else thread by thread.
__device__ __forceinline__ bool copies_tokens(const RouterParams& p) {
    return kScaled && kPlan.token_form == TokenForm::Nvfp4 && (kPlan.plain || p.hidden_map);
}

}  // namespace nvfp4r
