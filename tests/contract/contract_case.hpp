// One case of the contract: a gate, settings, tokens, and what must come out. Cases know nothing of devices.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nvfp4router.h"

namespace contract {

struct Case {
    nvfp4r_settings settings = NVFP4R_SETTINGS_INIT;  // experts, hidden and score are set by the builders
    uint32_t tokens = 1;

    // Gate: NVFP4 bytes, or f32 values where `weight` is not empty.
    std::vector<uint8_t> w_codes, w_scales;
    float gw = 1.0f;
    nvfp4r_scale_rule scale_rule = NVFP4R_SCALE_MULTIPLIES;
    std::vector<float> weight;
    std::vector<float> bias, linear_bias, image_bias, expert_factor;
    std::vector<int64_t> table;  // [vocabulary, top_k]

    // Tokens: NVFP4 bytes, or bf16 where `hidden` is not empty.
    std::vector<uint8_t> x_codes, x_scales;
    float gx = 1.0f;
    std::vector<uint16_t> hidden;
    std::optional<int32_t> num_valid;
    std::vector<uint8_t> mask, image_mask;
    std::vector<int64_t> token_ids;
    std::vector<int32_t> forced_ids;
    std::vector<int32_t> logit_to_physical, replica_count;
    uint32_t replicas = 0, experts_physical = 0;

    // The call's shape.
    nvfp4r_dtype ids_type = NVFP4R_I32, weights_type = NVFP4R_F32;
    int64_t extra_stride = 0;  // unused elements after each row of ids and weights
    int64_t capacity = 0;      // of ids and weights
    uint32_t permutation_tile = 0;
    nvfp4r_scale_layout scales_out_layout = NVFP4R_SCALES_LINEAR;

    // Expectations. Empty vectors are not compared; ids, weights and logits may hold one row that all tokens share.
    nvfp4r_status status = NVFP4R_OK;
    std::vector<std::string> refusal;  // words that the text must have
    std::vector<int32_t> ids;
    std::vector<float> weights, logits;
    std::vector<float> rank;       // [tokens or 1, E], for devices that are compared with a margin
    double tolerance = 2e-6;       // relative, and absolute below 1
    double logit_tolerance = 0.0;  // 0: equal bits
    std::vector<int32_t> logical_ids, tokens_per_expert, permutation, expert_offsets;
    std::vector<uint8_t> codes_out, scales_out;
    std::vector<float> globals_out;
    uint32_t flags = 0;

    uint32_t experts() const { return settings.experts; }
    uint32_t hidden_size() const { return settings.hidden; }
    uint32_t width() const { return settings.top_k + settings.shared_slots; }
};

/// The logit dial: every token has a 1 at the start of each block, and the blocks of expert e add up to logits[e]
/// exactly. A NaN logit gets a NaN block scale. Logits must be sums of a few e2m1 * e4m3 values.
Case dial(nvfp4r_score score, uint32_t top_k, const std::vector<double>& logits, uint32_t min_hidden = 64);

/// Token t has a 1 at the start of block t % (hidden / 16) only, so its logits are the t-th column of random ones (all
/// multiples of 1/16, ties included). Expectations are filled in.
Case columns(nvfp4r_score score, uint32_t top_k, uint32_t experts, uint32_t hidden, uint32_t tokens, uint32_t seed);

/// Sets one token row to NaN through its first block scale.
void make_token_nan(Case& c, uint32_t token);

/// Fills ids, weights, logits and rank from logits [rows][E] by the contract, straightforwardly: scores in double
/// rounded to fp32, a stable sort, one formula for the weights. Knows bias, renormalise, scaling; no groups, no odd
/// values.
void expect(Case& c, const std::vector<std::vector<double>>& logits);

/// 0, 1, ... count - 1, and `count` equal values.
std::vector<int32_t> first_ids(uint32_t count);
std::vector<float> same(uint32_t count, float value);

struct Entry {
    const char* name;
    Case (*build)();
};
/// The table, in rooms.
std::vector<Entry> odd_value_cases();
std::vector<Entry> size_cases();
std::vector<Entry> score_cases();
std::vector<Entry> memory_cases();
std::vector<Entry> nvfp4_cases();
std::vector<Entry> feature_cases();
std::vector<Entry> output_cases();

/// One case for each preset with its real shape.
Case preset_case(uint32_t preset);

/// How a device is compared. Where `rank_margin` is not 0, an id may stand for another whose rank value is that near.
struct Device {
    nvfp4r_router_options options = NVFP4R_ROUTER_OPTIONS_INIT;
    double rank_margin = 0.0;
    double weight_margin = 0.0;  // added to the case's tolerance
    bool may_refuse = false;     // UNSUPPORTED counts as passed: what a device does not do yet is refused by name
};

/// Runs a case with poisoned and guarded outputs and CHECKs everything that it expects. On any status but NVFP4R_OK the
/// outputs must be as they were.
void run(const Case& c, const Device& device);

}  // namespace contract
