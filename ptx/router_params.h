// What the host tells a kernel: the plan, baked in as constants when NVRTC compiles, and the parameter block of one
// launch. Read word for word by both sides, so it uses nothing but C++ itself.
#pragma once

// NVRTC takes a function without this for one of the host.
#ifdef __CUDACC__
#define NVFP4R_ON_BOTH __host__ __device__
#else
#define NVFP4R_ON_BOTH
#endif

namespace nvfp4r {

/// The gate as the multiply reads it. Packed by host/plan/pack_gate.cpp.
enum class GateForm : unsigned {
    Nvfp4 = 0,  // e2m1 codes with e4m3 block scales, one plane a term
    Bf16 = 1    // bf16 values, one plane a part (a gate that bf16 does not hold exactly has two or three)
};

/// How tokens lie in memory.
enum class TokenForm : unsigned { Bf16 = 0, F16 = 1, F32 = 2, Nvfp4 = 3 };

/// Numbers are those of nvfp4r_score, nvfp4r_weighting and nvfp4r_group_score.
enum class Score : unsigned { SqrtSoftplus = 1, Sigmoid = 2, Softmax = 3, Identity = 4 };
enum class Weighting : unsigned { Score = 0, SoftmaxAfter = 1, SigmoidAfter = 2 };
enum class GroupScore : unsigned { Top2Sum = 0, Max = 1 };

/// Everything that is fixed when a kernel is compiled. Counts, not bytes.
struct KernelPlan {
    // The problem.
    unsigned experts, hidden, top_k;
    Score score;
    Weighting weighting;
    unsigned groups, groups_kept;  // groups 1: none
    GroupScore group_score;
    bool renormalise;
    // Calls that use none of the options (given(), below) have kernels of their own, without the code for them.
    bool plain;
    // The operands. Products: all pairs (gate plane i, token plane j) with i + j < product_order.
    GateForm gate_form;
    unsigned gate_planes;
    TokenForm token_form;
    unsigned token_planes;
    bool quantise_tokens;
    unsigned product_order;
    // The tile.
    unsigned token_tiles;      // tokens of a tile / 8
    unsigned expert_tiles;     // sm_90: 16-expert tiles of a warp; sm_100: 128-expert blocks of a CTA
    unsigned warps;            // of a CTA
    unsigned warps_m;          // decode: warps that share a chunk's experts
    unsigned warps_k;          // warps that share a K slice; the others help to select. Batch: warpgroups that share it
    unsigned slices;           // CTAs that share K
    unsigned chunks_per_warp;  // 64-wide K chunks of one warp; batch: of one stage; sm_100: operand rows of one stage
    unsigned ctas_per_sm;      // that must fit: caps the registers
    unsigned stages;           // of the shared-memory ring, where there is one
    unsigned tmem_columns;     // sm_100: allocated
    unsigned cluster;          // CTAs along K that find a token's amax together; 1: no cluster
};

inline constexpr unsigned kChunk = 64;       // k of one packed weight tile
inline constexpr unsigned kExpertTile = 16;  // experts of one packed weight tile: mma.m16n8k16
inline constexpr unsigned kTokenTile = 8;    // tokens of one multiply: mma.m16n8k16
inline constexpr unsigned kScaleBlock = 16;  // k that share a block scale
inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kMaxTileTokens = 32;         // decode: a bit each in the start ticket
inline constexpr unsigned kEmptyPacket = 0xffffffffu;  // a NaN that no arithmetic of the GPU produces
inline constexpr unsigned kCanonicalNan = 0x7fffffffu;

NVFP4R_ON_BOTH constexpr unsigned ceil_div(unsigned a, unsigned b) {
    return (a + b - 1) / b;
}
NVFP4R_ON_BOTH constexpr unsigned round_up(unsigned a, unsigned b) {
    return ceil_div(a, b) * b;
}

/// Bytes of SelectSpace (select.cuh) and JoinSpace (join.cuh).
NVFP4R_ON_BOTH constexpr unsigned select_space_bytes(const KernelPlan& plan) {
    const unsigned lists = ceil_div(plan.experts, kWarp), candidates = lists * plan.top_k;
    return round_up(4 * lists * kWarp + 4 * round_up(candidates, 4) + 4 * candidates + 2 * round_up(candidates, 2) +
                        4 * plan.groups + 3 * 4 * kWarp,
                    16);
}
NVFP4R_ON_BOTH constexpr unsigned join_space_bytes(const KernelPlan& plan) {
    return round_up(4 * round_up(plan.experts, kWarp) + select_space_bytes(plan) + 8 + 4, 16);
}

/// Dynamic shared memory of router_sm90.cu (struct DecodeShared).
NVFP4R_ON_BOTH constexpr unsigned decode_shared_bytes(const KernelPlan& plan) {
    const unsigned tokens = plan.token_tiles * kTokenTile, experts = plan.warps_m * plan.expert_tiles * kExpertTile;
    return round_up(
        4 * plan.warps_k * tokens * (experts + 4) + join_space_bytes(plan) + 4 * tokens * (plan.cluster + 2), 16);
}

// router_sm90_batch.cu: experts in blocks of one warpgroup's wgmma, tokens and gate in a ring of shared-memory stages.
inline constexpr unsigned kWarpgroupExperts = 64;
inline constexpr unsigned kShareBits = 32;  // of a start ticket: a bit for each CTA that selects

/// Experts of a CTA, and the CTAs that share a token tile: expert groups x slices of K.
NVFP4R_ON_BOTH constexpr unsigned batch_experts(const KernelPlan& plan) {
    return plan.warps / 4 / plan.warps_k * kWarpgroupExperts;
}
NVFP4R_ON_BOTH constexpr unsigned batch_ctas(const KernelPlan& plan) {
    return ceil_div(plan.experts, batch_experts(plan)) * plan.slices;
}
/// A tile's tokens are selected in shares, one a CTA.
NVFP4R_ON_BOTH constexpr unsigned batch_shares(const KernelPlan& plan) {
    const unsigned tokens = plan.token_tiles * kTokenTile, ctas = batch_ctas(plan);
    const unsigned most = tokens < kShareBits ? tokens : kShareBits;
    return ctas < most ? ctas : most;
}
NVFP4R_ON_BOTH constexpr unsigned batch_share_tokens(const KernelPlan& plan) {
    return ceil_div(plan.token_tiles * kTokenTile, batch_shares(plan));
}
/// A lane's part of one gate chunk in shared memory, one plane: codes, and the scales of its two rows.
NVFP4R_ON_BOTH constexpr unsigned batch_gate_lane_bytes(const KernelPlan& plan) {
    return (plan.gate_form == GateForm::Nvfp4 ? 16 : 64) + 8;
}
NVFP4R_ON_BOTH constexpr unsigned batch_token_stage_bytes(const KernelPlan& plan) {
    return plan.chunks_per_warp * plan.token_planes * plan.token_tiles * kTokenTile * kChunk * 2;
}
NVFP4R_ON_BOTH constexpr unsigned batch_gate_stage_bytes(const KernelPlan& plan) {
    return plan.chunks_per_warp / plan.warps_k * plan.gate_planes * plan.warps * kWarp * batch_gate_lane_bytes(plan);
}
NVFP4R_ON_BOTH constexpr unsigned batch_ring_bytes(const KernelPlan& plan) {
    return plan.stages * round_up(batch_token_stage_bytes(plan) + batch_gate_stage_bytes(plan), 1024);
}
/// Floats of a row of sums or of logits; the four more keep the accumulators' stores off each other's banks.
NVFP4R_ON_BOTH constexpr unsigned batch_sum_stride(const KernelPlan& plan) {
    return batch_experts(plan) + 4;
}
NVFP4R_ON_BOTH constexpr unsigned batch_logit_stride(const KernelPlan& plan) {
    return round_up(plan.experts, 4) + 4;
}
/// Where the ring was: sums over K of each warpgroup; where several CTAs share a tile, later the joined logits of a share.
NVFP4R_ON_BOTH constexpr unsigned batch_sums_bytes(const KernelPlan& plan) {
    const unsigned sums = 4 * plan.warps_k * plan.token_tiles * kTokenTile * batch_sum_stride(plan);
    const unsigned logits = batch_ctas(plan) > 1 ? 4 * batch_share_tokens(plan) * batch_logit_stride(plan) : 0;
    return round_up(sums > logits ? sums : logits, 16);
}
/// Warps that select: one a token of the share, as far as 64 KiB hold their tables.
NVFP4R_ON_BOTH constexpr unsigned batch_select_warps(const KernelPlan& plan) {
    constexpr unsigned kRoom = 64 << 10;
    const unsigned room = kRoom / select_space_bytes(plan), tokens = batch_share_tokens(plan);
    const unsigned most = plan.warps < tokens ? plan.warps : tokens;
    return room < 1 ? 1 : (room < most ? room : most);
}
/// Dynamic shared memory of router_sm90_batch.cu (struct BatchShared).
NVFP4R_ON_BOTH constexpr unsigned batch_shared_bytes(const KernelPlan& plan) {
    const unsigned tail = batch_sums_bytes(plan) + batch_select_warps(plan) * select_space_bytes(plan);
    const unsigned ring = batch_ring_bytes(plan);
    // The ring's alignment is the struct's.
    return round_up(round_up(ring > tail ? ring : tail, 1024) + 4 * plan.token_tiles * kTokenTile + 16, 1024);
}

// router_sm100.cu: experts in blocks of one multiply, K in stages of one or more 128-byte rows of operands.
inline constexpr unsigned kMmaExperts = 128;
inline constexpr unsigned kOperandRow = 128;  // bytes: 256 e2m1 or 64 bf16 values
inline constexpr unsigned kScaleAtom = 512;   // bytes: the scales of 128 rows and one K step
inline constexpr unsigned kRowSteps = 4;      // K steps of an operand row: 64 e2m1 or 16 bf16 values each
inline constexpr unsigned kSelectTokens = 8;  // selected at a time where nothing is joined, a warp each

NVFP4R_ON_BOTH constexpr unsigned step_k(GateForm form) {
    return form == GateForm::Nvfp4 ? 64 : 16;
}
NVFP4R_ON_BOTH constexpr unsigned row_k(GateForm form) {
    return kRowSteps * step_k(form);
}
NVFP4R_ON_BOTH constexpr unsigned stage_steps(const KernelPlan& plan) {
    return plan.chunks_per_warp * kRowSteps;
}
NVFP4R_ON_BOTH constexpr unsigned stage_k(const KernelPlan& plan) {
    return stage_steps(plan) * step_k(plan.gate_form);
}

/// Scale atoms of one stage: of every gate tile and of every token plane.
NVFP4R_ON_BOTH constexpr unsigned blackwell_stage_atoms(const KernelPlan& plan) {
    if (plan.gate_form != GateForm::Nvfp4) return 0;
    const unsigned token_atoms = ceil_div(plan.token_tiles * kTokenTile, kMmaExperts);
    return (plan.gate_planes * plan.expert_tiles + plan.token_planes * token_atoms) * stage_steps(plan);
}
/// Bytes of one stage of the ring: gate tiles, token tiles, their scale atoms.
NVFP4R_ON_BOTH constexpr unsigned blackwell_stage_bytes(const KernelPlan& plan) {
    const unsigned tokens = plan.token_tiles * kTokenTile;
    const unsigned rows = plan.gate_planes * plan.expert_tiles * kMmaExperts + plan.token_planes * tokens;
    return round_up(plan.chunks_per_warp * rows * kOperandRow + blackwell_stage_atoms(plan) * kScaleAtom, 1024);
}
/// Bytes after the ring (struct BlackwellShared).
NVFP4R_ON_BOTH constexpr unsigned blackwell_control_bytes(const KernelPlan& plan) {
    const unsigned tokens = plan.token_tiles * kTokenTile;
    const unsigned local = kSelectTokens * (4 * round_up(plan.experts, kWarp) + select_space_bytes(plan));
    const bool joins = plan.slices * ceil_div(ceil_div(plan.experts, kMmaExperts), plan.expert_tiles) > 1;
    return round_up(8 * (3 * plan.stages + 1) + 4 + 4 * tokens, 16) + (joins ? join_space_bytes(plan) : local);
}
/// Columns of tensor memory in use: accumulators, and four for each scale atom of each stage.
NVFP4R_ON_BOTH constexpr unsigned blackwell_columns(const KernelPlan& plan) {
    return plan.expert_tiles * plan.token_tiles * kTokenTile + plan.stages * 4 * blackwell_stage_atoms(plan);
}

/// Dequantised weights come out as value * 2^-8 (nvfp4.cuh): the factor that puts it right.
inline constexpr float kNvfp4GateFactor = 256.0f;

/// One launch, as far as a plain kernel needs it: a launch fetches its parameters from memory. Strides count elements of
/// the tensor's own type.
struct CallParams {
    long long tokens;     // M of the whole call
    long long first_row;  // of this launch's first tile
    const void* hidden;
    long long hidden_stride;
    unsigned* mailbox;            // [tile][token][slice][expert], kEmptyPacket between launches
    unsigned long long* tickets;  // [tile], 0 between launches
    void* weights;
    long long weights_stride;
    void* ids;
    long long ids_stride;
    const float* bias;  // [E] or null
    float alpha;        // global scale of the gate; times the tokens', when they share one
    float renormalise_eps;
    float routed_scaling;
    float hidden_global_scale;           // quantised tokens: the static scale, 0: from the amax
    const void* gate_codes[3];           // per plane; owned by the router and constant while it lives
    const void* gate_scales[3];          // per plane; NVFP4 only
    const unsigned char* hidden_scales;  // NVFP4 tokens
    const float* hidden_global_scales;   // NVFP4 tokens: one each, or null: alpha holds the one for all
    int hidden_scales_atoms;             // NVFP4 tokens: 1 = 128x4 layout
};

/// One launch with every option.
struct RouterParams : CallParams {
    // Options of the gate.
    const float* linear_bias;
    const float* image_bias;
    const float* expert_factor;
    const int* table;  // [vocabulary, table_k] or null
    long long vocabulary;
    int table_k;
    float soft_cap;  // 0: none
    float shared_weight;
    int shared_slots;
    int shared_first_id;
    // Options of the tokens.
    int hidden_vector;   // 1: rows can be read 16 bytes at a time
    int hidden_map;      // sm_100, NVFP4 tokens: 1 = the launch's second tensor map covers the codes
    int token_ids_wide;  // 1: 64 bits each
    const int* num_valid;
    const unsigned char* mask;
    const unsigned char* image_mask;
    const void* token_ids;
    const int* forced_ids;
    long long forced_stride;
    const int* logit_to_physical;
    const int* replica_count;
    int replicas;
    int replica_by_row;  // 0: always slot 0
    // Options of the outputs.
    int weights_bf16;
    int ids_wide;           // 1: 64 bits each
    int ids_packed;         // 1: id << 16 | bf16 weight
    int logical_ids_short;  // 1: 16 bits each
    float* logits;
    long long logits_stride;
    float* scores;
    long long scores_stride;
    void* logical_ids;
    long long logical_ids_stride;
    int* tokens_per_expert;
    unsigned char* codes_out;
    unsigned char* scales_out;
    float* global_scales_out;
    int scales_out_atoms;
    unsigned* error_flag;
};

}  // namespace nvfp4r
