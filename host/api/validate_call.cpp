#include <algorithm>

#include "api/check.hpp"
#include "api/validate.hpp"
#include "cpu/rows.hpp"

namespace nvfp4r {
namespace {

// Keeps rows * stride * bytes far inside 64 bits.
constexpr int64_t kMaxStride = int64_t{1} << 32;
constexpr uint32_t kMaxPhysicalExperts = 65535;  // a PACKED id has 16 bits, and 0xffff is -1
constexpr uint32_t kMaxPermutationTile = 65536;

template <class T>
void check_pointer(const char* name, const T* pointer, size_t alignment) {
    if (reinterpret_cast<uintptr_t>(pointer) % alignment != 0)
        fail(NVFP4R_INVALID_ARGUMENT, "call.{} {}: must be aligned to {} bytes", name,
             static_cast<const void*>(pointer), alignment);
}

template <class T>
void need(const char* name, const T* pointer, const char* why) {
    if (!pointer) fail(NVFP4R_INVALID_ARGUMENT, "call.{} is NULL: {}", name, why);
}

size_t bytes_of(nvfp4r_dtype type) {
    switch (type) {
        case NVFP4R_I64: return 8;
        case NVFP4R_F32:
        case NVFP4R_I32:
        case NVFP4R_PACKED: return 4;
        case NVFP4R_BF16:
        case NVFP4R_F16:
        case NVFP4R_I16: return 2;
        default: return 1;
    }
}

void complete_stride(const char* name, int64_t& stride, int64_t width) {
    if (stride == 0) stride = width;
    if (stride < width || stride > kMaxStride)
        fail(NVFP4R_INVALID_ARGUMENT, "call.{} {}: must be 0 or from {} (the row's width) to 2^32", name, stride,
             width);
}

void check_capacity(const char* name, int64_t capacity, int64_t needed) {
    if (capacity != 0 && capacity < needed)
        fail(NVFP4R_INVALID_ARGUMENT, "call.{} {}: the call writes {} elements", name, capacity, needed);
}

void check_layout(const char* name, const nvfp4r_scale_layout& layout) {
    if (raw(layout) == NVFP4R_SCALES_8X4)
        fail(NVFP4R_UNSUPPORTED, "call.{}: the 8x4 layout is not supported; use linear (0) or 128x4 (1)", name);
    check_enum(name, layout, {NVFP4R_SCALES_LINEAR, NVFP4R_SCALES_128X4}, "linear (0) or 128x4 (1)");
}

void complete_hidden(nvfp4r_call& call, const nvfp4r_settings& settings) {
    need("hidden", call.hidden, "the tokens are needed");
    check_enum("call.hidden_type", call.hidden_type, {NVFP4R_F32, NVFP4R_BF16, NVFP4R_F16, NVFP4R_E2M1},
               "F32 (1), BF16 (2), F16 (3) or E2M1 (4)");
    check_pointer("hidden", call.hidden, bytes_of(call.hidden_type));
    complete_stride("hidden_stride", call.hidden_stride, settings.hidden);
    if (call.hidden_type != NVFP4R_E2M1) return;
    if (call.hidden_stride % 2 != 0)
        fail(NVFP4R_INVALID_ARGUMENT, "call.hidden_stride {}: packed codes need an even stride", call.hidden_stride);
    need("hidden_scales", call.hidden_scales, "E2M1 tokens need their block scales");
    check_layout("hidden_scale_layout", call.hidden_scale_layout);
    if (!call.hidden_global_scales) {
        check_scale("call.hidden_global_scale", call.hidden_global_scale);
        return;
    }
    check_pointer("hidden_global_scales", call.hidden_global_scales, sizeof(float));
    if (call.memory != NVFP4R_MEMORY_HOST) return;
    for (int64_t row = 0; row < call.tokens; ++row)
        if (!is_padding(call, row)) check_scale("call.hidden_global_scales", call.hidden_global_scales[row]);
}

void complete_ids_in(nvfp4r_call& call, const nvfp4r_settings& settings, const Gate& gate) {
    check_pointer("num_valid", call.num_valid, sizeof(int32_t));
    if (call.image_mask && (gate.image_bias.empty() || !settings.use_bias))
        fail(NVFP4R_INVALID_ARGUMENT, "call.image_mask: needs a gate with image_bias and settings.use_bias 1");
    if (call.forced_ids) {
        check_pointer("forced_ids", call.forced_ids, sizeof(int32_t));
        complete_stride("forced_stride", call.forced_stride, settings.top_k);
    } else if (!gate.table.empty()) {
        need("token_ids", call.token_ids, "this gate routes by a hash table of token ids");
        check_enum("call.token_id_type", call.token_id_type, {NVFP4R_I32, NVFP4R_I64}, "I32 (8) or I64 (9)");
        check_pointer("token_ids", call.token_ids, bytes_of(call.token_id_type));
    }
}

void complete_replicas(nvfp4r_call& call, const Gate& gate) {
    if (call.experts_physical == 0) call.experts_physical = gate.experts;
    if (call.experts_physical > kMaxPhysicalExperts)
        fail(NVFP4R_INVALID_ARGUMENT, "call.experts_physical {}: at most {}", call.experts_physical,
             kMaxPhysicalExperts);
    if (!call.logit_to_physical) {
        if (call.experts_physical != gate.experts)
            fail(NVFP4R_INVALID_ARGUMENT, "call.experts_physical {}: without logit_to_physical it is the gate's {}",
                 call.experts_physical, gate.experts);
        return;
    }
    need("replica_count", call.replica_count, "logit_to_physical needs it");
    if (call.replicas < 1 || call.replicas > kMaxPhysicalExperts)
        fail(NVFP4R_INVALID_ARGUMENT, "call.replicas {}: must be 1 to {}", call.replicas, kMaxPhysicalExperts);
    check_pointer("logit_to_physical", call.logit_to_physical, sizeof(int32_t));
    check_pointer("replica_count", call.replica_count, sizeof(int32_t));
    if (call.memory != NVFP4R_MEMORY_HOST) return;
    for (uint32_t e = 0; e < gate.experts; ++e) {
        const int32_t count = call.replica_count[e];
        if (count < 1 || static_cast<uint32_t>(count) > call.replicas)
            fail(NVFP4R_INVALID_ARGUMENT, "call.replica_count[{}] {}: must be 1 to {} (replicas)", e, count,
                 call.replicas);
        for (int32_t r = 0; r < count; ++r) {
            const int32_t id = call.logit_to_physical[static_cast<int64_t>(e) * call.replicas + r];
            if (id < 0 || static_cast<uint32_t>(id) >= call.experts_physical)
                fail(NVFP4R_INVALID_ARGUMENT, "call.logit_to_physical[{}][{}] {}: must be below {} (experts_physical)",
                     e, r, id, call.experts_physical);
        }
    }
}

void complete_rows_out(nvfp4r_call& call, const nvfp4r_settings& settings) {
    const int64_t width = settings.top_k + settings.shared_slots;
    need("ids", call.ids, "the chosen experts need a place");
    check_enum("call.ids_type", call.ids_type, {NVFP4R_I32, NVFP4R_I64, NVFP4R_PACKED},
               "I32 (8), I64 (9) or PACKED (10)");
    check_pointer("ids", call.ids, bytes_of(call.ids_type));
    complete_stride("ids_stride", call.ids_stride, width);
    check_capacity("ids_capacity", call.ids_capacity, (call.tokens - 1) * call.ids_stride + width);
    if (call.ids_type != NVFP4R_PACKED) need("weights", call.weights, "only PACKED ids carry the weights themselves");
    check_enum("call.weights_type", call.weights_type, {NVFP4R_F32, NVFP4R_BF16}, "F32 (1) or BF16 (2)");
    check_pointer("weights", call.weights, bytes_of(call.weights_type));
    complete_stride("weights_stride", call.weights_stride, width);
    check_capacity("weights_capacity", call.weights_capacity, (call.tokens - 1) * call.weights_stride + width);
}

void complete_optional_out(nvfp4r_call& call, const nvfp4r_settings& settings) {
    check_pointer("logits", call.logits, sizeof(float));
    complete_stride("logits_stride", call.logits_stride, settings.experts);
    check_pointer("scores", call.scores, sizeof(float));
    complete_stride("scores_stride", call.scores_stride, settings.experts);
    if (call.logical_ids) {
        check_enum("call.logical_ids_type", call.logical_ids_type, {NVFP4R_I16, NVFP4R_I32}, "I16 (7) or I32 (8)");
        check_pointer("logical_ids", call.logical_ids, bytes_of(call.logical_ids_type));
    }
    complete_stride("logical_ids_stride", call.logical_ids_stride, settings.top_k);
    if ((call.hidden_codes_out != nullptr) != (call.hidden_scales_out != nullptr))
        fail(NVFP4R_INVALID_ARGUMENT, "call.hidden_codes_out and call.hidden_scales_out: give both or neither");
    if (call.hidden_scales_out) check_layout("hidden_scales_out_layout", call.hidden_scales_out_layout);
    check_pointer("hidden_global_scales_out", call.hidden_global_scales_out, sizeof(float));
    check_pointer("error_flag", call.error_flag, sizeof(uint32_t));
}

void complete_permutation(nvfp4r_call& call, const nvfp4r_settings& settings) {
    check_pointer("tokens_per_expert", call.tokens_per_expert, sizeof(int32_t));
    check_pointer("expert_offsets", call.expert_offsets, sizeof(int32_t));
    if (call.permutation_tile == 0) call.permutation_tile = 1;
    if (call.permutation_tile > kMaxPermutationTile)
        fail(NVFP4R_INVALID_ARGUMENT, "call.permutation_tile {}: at most {}", call.permutation_tile,
             kMaxPermutationTile);
    if (!call.permutation) return;
    check_pointer("permutation", call.permutation, sizeof(int32_t));
    need("expert_offsets", call.expert_offsets, "a permutation is read through it");
    // The parts' lengths are known only after routing, so room for the worst case is asked for.
    const int64_t slots = call.tokens * settings.top_k;
    const int64_t tile = call.permutation_tile;
    const int64_t parts = std::min<int64_t>(slots, call.experts_physical);
    check_capacity("permutation_capacity", call.permutation_capacity, (slots + parts * (tile - 1)) / tile * tile);
}

}  // namespace

void complete_call(nvfp4r_call& call, const nvfp4r_settings& settings, const Gate& gate) {
    check_enum("call.memory", call.memory, {NVFP4R_MEMORY_HOST, NVFP4R_MEMORY_DEVICE}, "host (0) or device (1)");
    complete_ids_in(call, settings, gate);
    complete_hidden(call, settings);
    complete_replicas(call, gate);
    complete_rows_out(call, settings);
    complete_optional_out(call, settings);
    complete_permutation(call, settings);
}

}  // namespace nvfp4r
