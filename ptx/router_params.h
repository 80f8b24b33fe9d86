// What the host tells a kernel: the plan, baked in as constants when NVRTC compiles, and the parameter block of one
// launch. Read word for word by both sides, so it uses nothing but C++ itself.
#pragma once

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
    // The operands. Products: all pairs (gate plane i, token plane j) with i + j < product_order.
    GateForm gate_form;
    unsigned gate_planes;
    TokenForm token_form;
    unsigned token_planes;
    bool quantise_tokens;
    unsigned product_order;
    // The tile.
    unsigned token_tiles;      // tokens of a tile / 8
    unsigned expert_tiles;     // 16-expert tiles of a warp
    unsigned warps;            // of a CTA
    unsigned warps_k;          // warps that share a K slice; the others help to select
    unsigned slices;           // CTAs that share K
    unsigned chunks_per_warp;  // 64-wide K chunks of one warp
    unsigned ctas_per_sm;      // that must fit: caps the registers
};

inline constexpr unsigned kChunk = 64;       // k of one packed weight tile
inline constexpr unsigned kExpertTile = 16;  // experts of one packed weight tile: mma.m16n8k16
inline constexpr unsigned kTokenTile = 8;    // tokens of one multiply: mma.m16n8k16
inline constexpr unsigned kScaleBlock = 16;  // k that share a block scale
inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kMaxTileTokens = 32;         // decode: a bit each in the start ticket
inline constexpr unsigned kEmptyPacket = 0xffffffffu;  // a NaN that no arithmetic of the GPU produces
inline constexpr unsigned kCanonicalNan = 0x7fffffffu;

constexpr unsigned ceil_div(unsigned a, unsigned b) {
    return (a + b - 1) / b;
}
constexpr unsigned round_up(unsigned a, unsigned b) {
    return ceil_div(a, b) * b;
}

/// Bytes of the decode kernel's dynamic shared memory (struct DecodeShared of router_sm90.cu).
constexpr unsigned select_space_bytes(const KernelPlan& plan) {
    const unsigned lists = ceil_div(plan.experts, kWarp), candidates = lists * plan.top_k;
    return round_up(
        4 * lists * kWarp + 4 * round_up(candidates, 4) + 2 * round_up(candidates, 2) + 4 * plan.groups + 3 * 4 * kWarp,
        16);
}
constexpr unsigned decode_shared_bytes(const KernelPlan& plan) {
    const unsigned tokens = plan.token_tiles * kTokenTile, experts = plan.expert_tiles * kExpertTile;
    const unsigned partial = 4 * plan.warps_k * tokens * (experts + 4);
    const unsigned values = 4 * round_up(plan.experts, kWarp);
    return round_up(partial + values + select_space_bytes(plan) + 4 * tokens + 8 + 4, 16);
}

/// Dequantised weights come out as value * 2^-8 (nvfp4.cuh): the factor that puts it right.
inline constexpr float kNvfp4GateFactor = 256.0f;

/// One launch. Strides count elements of the tensor's own type.
struct RouterParams {
    long long tokens;
    // Gate, owned by the router and constant while it lives.
    const void* gate_codes[3];   // per plane
    const void* gate_scales[3];  // per plane; NVFP4 only
    const float* bias;           // [E] or null
    const float* linear_bias;
    const float* image_bias;
    const float* expert_factor;
    const int* table;  // [vocabulary, table_k] or null
    long long vocabulary;
    int table_k;
    float alpha;  // global scale of the gate times the factor of its form
    // Tokens.
    const void* hidden;
    long long hidden_stride;
    const unsigned char* hidden_scales;  // NVFP4 tokens
    const float* hidden_global_scales;   // NVFP4 tokens: one each, or null
    float hidden_global_scale;  // NVFP4 tokens: one for all. Quantised tokens: the static scale, 0: from the amax
    int hidden_scales_atoms;    // NVFP4 tokens: 1 = 128x4 layout
    int hidden_vector;          // 1: rows can be read 16 bytes at a time
    const int* num_valid;
    const unsigned char* mask;
    const unsigned char* image_mask;
    const void* token_ids;
    int token_ids_wide;  // 1: 64 bits each
    const int* forced_ids;
    long long forced_stride;
    const int* logit_to_physical;
    const int* replica_count;
    int replicas;
    int replica_by_row;  // 0: always slot 0
    // Arithmetic of the model.
    float soft_cap;  // 0: none
    float renormalise_eps;
    float routed_scaling;
    float shared_weight;
    int shared_slots;
    int shared_first_id;
    // Outputs.
    void* weights;
    long long weights_stride;
    int weights_bf16;
    int ids_wide;    // 1: 64 bits each
    int ids_packed;  // 1: id << 16 | bf16 weight
    void* ids;
    long long ids_stride;
    float* logits;
    long long logits_stride;
    float* scores;
    long long scores_stride;
    void* logical_ids;
    long long logical_ids_stride;
    int logical_ids_short;  // 1: 16 bits each
    int* tokens_per_expert;
    unsigned char* codes_out;
    unsigned char* scales_out;
    float* global_scales_out;
    int scales_out_atoms;
    unsigned* error_flag;
    // Join of the K slices: one launch slot's memory.
    unsigned* mailbox;            // [tile][token][slice][expert], kEmptyPacket between launches
    unsigned long long* tickets;  // [tile], 0 between launches
};

}  // namespace nvfp4r
