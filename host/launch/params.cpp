#include "launch/params.hpp"

#include "launch/tensor_maps.hpp"

namespace nvfp4r {
namespace {

constexpr uintptr_t kVectorBytes = 16;     // one load of bf16, f16 or f32 tokens
constexpr uintptr_t kCodeVectorBytes = 8;  // one load of NVFP4 codes: a block

uint32_t value_bytes(nvfp4r_dtype type) {
    return type == NVFP4R_F32 ? 4 : 2;
}

bool rows_are_aligned(const nvfp4r_call& call) {
    const auto base = reinterpret_cast<uintptr_t>(call.hidden);
    const auto stride = static_cast<uint64_t>(call.hidden_stride);
    if (call.hidden_type == NVFP4R_E2M1) return base % kCodeVectorBytes == 0 && stride / 2 % kCodeVectorBytes == 0;
    return base % kVectorBytes == 0 && stride * value_bytes(call.hidden_type) % kVectorBytes == 0;
}

void set_tokens(const nvfp4r_call& call, const nvfp4r_settings& settings, RouterParams& p) {
    p.hidden = call.hidden;
    p.hidden_stride = call.hidden_stride;
    p.hidden_vector = rows_are_aligned(call);
    if (call.hidden_type == NVFP4R_E2M1) {
        p.hidden_scales = call.hidden_scales;
        p.hidden_map = maps_token_codes(call);
        p.hidden_scales_atoms = call.hidden_scale_layout == NVFP4R_SCALES_128X4;
        p.hidden_global_scales = call.hidden_global_scales;
        if (!call.hidden_global_scales) p.alpha *= call.hidden_global_scale;
    } else {
        p.hidden_global_scale = settings.activation_scale;
    }
    p.num_valid = call.num_valid;
    p.mask = call.mask;
    p.image_mask = call.image_mask;
    p.token_ids = call.token_ids;
    p.token_ids_wide = call.token_id_type == NVFP4R_I64;
    p.forced_ids = call.forced_ids;
    p.forced_stride = call.forced_stride;
    p.logit_to_physical = call.logit_to_physical;
    p.replica_count = call.replica_count;
    p.replicas = static_cast<int>(call.replicas);
    p.replica_by_row = settings.batch_invariant == 0;
}

void set_outputs(const nvfp4r_call& call, RouterParams& p) {
    p.weights = call.weights;
    p.weights_stride = call.weights_stride;
    p.weights_bf16 = call.weights && call.weights_type == NVFP4R_BF16;
    p.ids = call.ids;
    p.ids_stride = call.ids_stride;
    p.ids_wide = call.ids_type == NVFP4R_I64;
    p.ids_packed = call.ids_type == NVFP4R_PACKED;
    p.logits = call.logits;
    p.logits_stride = call.logits_stride;
    p.scores = call.scores;
    p.scores_stride = call.scores_stride;
    p.logical_ids = call.logical_ids;
    p.logical_ids_stride = call.logical_ids_stride;
    p.logical_ids_short = call.logical_ids_type == NVFP4R_I16;
    p.tokens_per_expert = call.tokens_per_expert;
    p.codes_out = call.hidden_codes_out;
    p.scales_out = call.hidden_scales_out;
    p.global_scales_out = call.hidden_global_scales_out;
    p.scales_out_atoms = call.hidden_scales_out_layout == NVFP4R_SCALES_128X4;
    p.error_flag = call.error_flag;
}

}  // namespace

TokenForm token_form(nvfp4r_dtype hidden_type) {
    switch (hidden_type) {
        case NVFP4R_BF16: return TokenForm::Bf16;
        case NVFP4R_F16: return TokenForm::F16;
        case NVFP4R_E2M1: return TokenForm::Nvfp4;
        default: return TokenForm::F32;
    }
}

bool is_plain(const nvfp4r_call& call, const nvfp4r_settings& settings, const DeviceGate& gate) {
    const bool gate_options = gate.linear_bias.address() || gate.expert_factor.address() || gate.table.address() ||
                              settings.logit_soft_cap != 0.0f || settings.shared_slots != 0;
    const bool inputs = call.num_valid || call.mask || call.image_mask || call.forced_ids || call.logit_to_physical;
    const bool outputs = call.logits || call.scores || call.logical_ids || call.tokens_per_expert ||
                         call.hidden_codes_out || call.hidden_scales_out || call.hidden_global_scales_out;
    return !gate_options && !inputs && !outputs && rows_are_aligned(call) &&
           (call.hidden_type != NVFP4R_E2M1 || maps_token_codes(call)) && call.weights &&
           call.weights_type == NVFP4R_F32 && call.ids_type == NVFP4R_I32;
}

RouterParams make_params(const nvfp4r_call& call, const nvfp4r_settings& settings, const DeviceGate& gate,
                         bool natural) {
    RouterParams p{};
    p.tokens = call.tokens;
    for (uint32_t q = 0; q < gate.planes; ++q) {
        p.gate_codes[q] = (natural ? gate.natural_codes : gate.codes)[q].as<void>();
        p.gate_scales[q] = gate.scales[q].as<void>();
    }
    if (settings.use_bias) {
        p.bias = gate.bias.as<float>();
        p.image_bias = gate.image_bias.as<float>();
    }
    p.linear_bias = gate.linear_bias.as<float>();
    p.expert_factor = gate.expert_factor.as<float>();
    p.table = gate.table.as<int>();
    p.vocabulary = static_cast<long long>(gate.vocabulary);
    p.table_k = static_cast<int>(gate.table_k);
    p.alpha = gate.alpha;
    set_tokens(call, settings, p);
    p.soft_cap = settings.logit_soft_cap;
    p.renormalise_eps = settings.renormalise_eps;
    p.routed_scaling = settings.routed_scaling;
    p.shared_weight = settings.shared_weight;
    p.shared_slots = static_cast<int>(settings.shared_slots);
    p.shared_first_id = static_cast<int>(call.experts_physical ? call.experts_physical : settings.experts);
    set_outputs(call, p);
    return p;
}

}  // namespace nvfp4r
