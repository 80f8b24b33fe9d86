// Everything that changes which experts a row gets: padding, images, hash tables, replay, corrections of the logit.
#include <cmath>

#include "contract/contract_case.hpp"

namespace contract {
namespace {

Case small(uint32_t tokens = 4) {
    Case c = columns(NVFP4R_SCORE_SIGMOID, 2, 8, 64, tokens, 60);
    c.settings.renormalise = 0;
    return c;
}

void set_row(Case& c, size_t row, std::vector<int32_t> ids, std::vector<float> weights) {
    for (size_t i = 0; i < ids.size(); ++i) {
        c.ids[row * c.width() + i] = ids[i];
        c.weights[row * c.width() + i] = weights[i];
    }
}

void make_padding(Case& c, uint32_t row) {
    make_token_nan(c, row);  // its hidden values are never looked at
    set_row(c, row, {-1, -1}, {0, 0});
    for (uint32_t e = 0; e < c.experts(); ++e) c.logits[row * c.experts() + e] = 0.0f;
}

Case masked() {
    Case c = small();
    c.mask = {1, 0, 1, 0};
    make_padding(c, 1);
    make_padding(c, 3);
    return c;
}

Case valid_rows() {
    Case c = small();
    c.num_valid = 3;
    make_padding(c, 3);
    return c;
}

Case more_valid_than_rows() {
    Case c = small();
    c.num_valid = 100;
    return c;
}

Case both_paddings() {
    Case c = small();
    c.num_valid = 2;
    c.mask = {0, 1, 1, 1};
    for (const uint32_t row : {0u, 2u, 3u}) make_padding(c, row);
    return c;
}

Case image() {
    Case c = dial(NVFP4R_SCORE_SIGMOID, 1, {0, 0, 0, 0});
    c.tokens = 2;
    c.x_codes.insert(c.x_codes.end(), c.x_codes.begin(), c.x_codes.begin() + 32);
    c.x_scales.insert(c.x_scales.end(), c.x_scales.begin(), c.x_scales.begin() + 4);
    c.bias = {0, 1, 0, 0};
    c.image_bias = {0, 0, 0, 1};
    c.settings.use_bias = 1;
    c.image_mask = {0, 1};
    c.ids = {1, 3};
    c.weights = {0.5f, 0.5f};
    return c;
}

Case image_without_bias() {
    Case c = small(2);
    c.image_mask = {0, 1};
    c.status = NVFP4R_INVALID_ARGUMENT;
    c.refusal = {"image_mask", "image_bias"};
    return c;
}

Case hash() {
    Case c = dial(NVFP4R_SCORE_SIGMOID, 2, {0, 0, 0, -2});
    c.settings.renormalise = 1;
    c.table = {1, 3, 0, 2, 3, 0};  // vocabulary of 3
    c.token_ids = {0};
    c.ids = {1, 3};
    c.weights = {0.80748973f, 0.19251027f};
    return c;
}

Case a59_token() {
    Case c = hash();
    c.token_ids = {3};  // the vocabulary's size
    c.ids = {-1, -1};
    c.weights = {0, 0};
    c.flags = NVFP4R_FLAG_BAD_TABLE_ID;
    return c;
}

Case a59_entry() {
    Case c = hash();
    c.table[1] = 4;  // E
    c.ids = {1, -1};
    c.weights = {1, 0};
    c.flags = NVFP4R_FLAG_BAD_TABLE_ID;
    return c;
}

Case hash_without_tokens() {
    Case c = hash();
    c.token_ids.clear();
    c.status = NVFP4R_INVALID_ARGUMENT;
    c.refusal = {"token_ids", "hash table"};
    return c;
}

Case hash_of_another_k() {
    Case c = hash();
    c.settings.top_k = 3;
    c.table = {0, 1, 2};
    c.token_ids = {0};
    c.ids = {0, 1, 2};
    c.weights = same(3, 1.0f / 3);
    return c;
}

Case forced() {
    Case c = dial(NVFP4R_SCORE_SIGMOID, 2, {0, 0, 0, -2});
    c.forced_ids = {3, 2};
    c.ids = {3, 2};
    c.weights = {0.11920292f, 0.5f};
    return c;
}

Case forced_bad() {
    Case c = forced();
    c.forced_ids = {-5, 2};
    c.ids = {-1, 2};
    c.weights = {0, 0.5f};
    c.flags = NVFP4R_FLAG_BAD_FORCED_ID;
    return c;
}

Case softmax_after() {
    Case c = dial(NVFP4R_SCORE_IDENTITY, 2, {1, 3, 2, -1});
    c.settings.weighting = NVFP4R_WEIGHT_SOFTMAX_AFTER;
    c.ids = {1, 2};
    c.weights = {0.73105858f, 0.26894142f};
    return c;
}

Case softmax_after_with_linear_bias() {
    Case c = softmax_after();
    c.linear_bias = {4, 0, 0, 0};
    c.ids = {0, 1};
    c.weights = {0.88079708f, 0.11920292f};  // 5 and 3
    c.logits = {5, 3, 2, -1};
    return c;
}

Case sigmoid_after() {
    Case c = dial(NVFP4R_SCORE_IDENTITY, 1, {1, 3, 2, -1});
    c.settings.weighting = NVFP4R_WEIGHT_SIGMOID_AFTER;
    c.ids = {1};
    c.weights = {0.95257413f};
    return c;
}

Case soft_cap() {
    Case c = dial(NVFP4R_SCORE_IDENTITY, 2, {200, 0, 15, -15});
    c.settings.logit_soft_cap = 30.0f;
    c.ids = {0, 2};
    c.weights = {29.999903f, 13.863515f};  // 30 tanh(200/30), 30 tanh(1/2)
    c.logits = {29.999903f, 0, 13.863515f, -13.863515f};
    c.logit_tolerance = 1e-6;
    return c;
}

Case expert_factor() {
    Case c = dial(NVFP4R_SCORE_SOFTMAX, 2, {0, 0, 0, 0});
    c.settings.renormalise = 1;
    c.expert_factor = {3, 0.5f, 7, 7};
    c.ids = {0, 1};
    c.weights = {1.5f, 0.25f};
    return c;
}

Case eps() {
    Case c = dial(NVFP4R_SCORE_SIGMOID, 2, {0, 0, 0, 0});
    c.settings.renormalise = 1;
    c.settings.renormalise_eps = 1.0f;
    c.ids = {0, 1};
    c.weights = {0.25f, 0.25f};
    return c;
}

Case shared_slots() {
    Case c = dial(NVFP4R_SCORE_SIGMOID, 2, {0, 1, 2, 3});
    c.settings.shared_slots = 2;
    c.settings.shared_weight = 0.75f;
    c.ids = {3, 2, 4, 5};
    c.weights = {0.95257413f, 0.88079708f, 0.75f, 0.75f};
    return c;
}

Case shared_slots_of_padding() {
    Case c = shared_slots();
    c.num_valid = 0;
    c.ids = {-1, -1, -1, -1};
    c.weights = {0, 0, 0, 0};
    return c;
}

Case replicas(int32_t invariant) {
    Case c = dial(NVFP4R_SCORE_SIGMOID, 2, {0, 1, 2, 3});
    c.tokens = 2;
    c.x_codes.insert(c.x_codes.end(), c.x_codes.begin(), c.x_codes.begin() + 32);
    c.x_scales.insert(c.x_scales.end(), c.x_scales.begin(), c.x_scales.begin() + 4);
    c.settings.batch_invariant = invariant;
    c.logit_to_physical = {0, 0, 1, 0, 2, 5, 3, 4};  // experts 2 and 3 have two replicas each
    c.replica_count = {1, 1, 2, 2};
    c.replicas = 2;
    c.experts_physical = 6;
    c.logical_ids = {3, 2, 3, 2};
    c.ids = invariant ? std::vector<int32_t>{3, 2, 3, 2} : std::vector<int32_t>{3, 5, 4, 2};
    c.tokens_per_expert = invariant ? std::vector<int32_t>{0, 0, 2, 2, 0, 0} : std::vector<int32_t>{0, 0, 1, 1, 1, 1};
    return c;
}

Case bad_replica() {
    Case c = replicas(0);
    c.logit_to_physical[5] = 6;
    c.status = NVFP4R_INVALID_ARGUMENT;
    c.refusal = {"logit_to_physical[2][1] 6", "below 6"};
    return c;
}

Case bad_replica_count() {
    Case c = replicas(0);
    c.replica_count[1] = 0;
    c.status = NVFP4R_INVALID_ARGUMENT;
    c.refusal = {"replica_count[1] 0"};
    return c;
}

}  // namespace

std::vector<Entry> feature_cases() {
    return {
        {"padding rows by mask", masked},
        {"padding rows by num_valid", valid_rows},
        {"num_valid above the number of rows", more_valid_than_rows},
        {"padding rows by both", both_paddings},
        {"image rows use the image bias", image},
        {"an image mask without image bias is refused", image_without_bias},
        {"hash layer", hash},
        {"hash layer with k = 3", hash_of_another_k},
        {"A59 a token id of the vocabulary's size", a59_token},
        {"A59 a table entry outside the experts", a59_entry},
        {"a hash layer without token ids is refused", hash_without_tokens},
        {"forced ids", forced},
        {"a forced id outside the experts", forced_bad},
        {"softmax over the chosen", softmax_after},
        {"softmax over the chosen, linear bias", softmax_after_with_linear_bias},
        {"sigmoid of the chosen", sigmoid_after},
        {"soft cap", soft_cap},
        {"per-expert factor", expert_factor},
        {"renormalise with a large eps", eps},
        {"shared slots", shared_slots},
        {"shared slots of padding rows", shared_slots_of_padding},
        {"replicas in turn", [] { return replicas(0); }},
        {"replicas, batch invariant", [] { return replicas(1); }},
        {"a physical id outside its range is refused", bad_replica},
        {"a replica count of 0 is refused", bad_replica_count},
    };
}

}  // namespace contract
