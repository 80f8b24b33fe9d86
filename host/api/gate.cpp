#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "api/check.hpp"
#include "api/handles.hpp"
#include "api/status.hpp"
#include "api/versioned.hpp"
#include "format/checkpoint.hpp"
#include "format/number.hpp"
#include "format/nvfp4.hpp"

using namespace nvfp4r;

namespace {

constexpr uint8_t kScaleMagnitude = 0x7f;  // block scales are unsigned: the sign bit has no meaning
constexpr uint64_t kMaxVocabulary = uint64_t{1} << 32;

float as_multiplier(float scale, nvfp4r_scale_rule rule) {
    return rule == NVFP4R_SCALE_DIVIDES ? 1.0f / scale : scale;
}

void check_shape(const nvfp4r_gate_desc& desc) {
    if (desc.experts < 1 || desc.experts > NVFP4R_MAX_EXPERTS)
        fail(NVFP4R_INVALID_ARGUMENT, "desc.experts {}: must be 1 to {}", desc.experts, NVFP4R_MAX_EXPERTS);
    if (desc.hidden < kBlock || desc.hidden > NVFP4R_MAX_HIDDEN || desc.hidden % kBlock != 0)
        fail(NVFP4R_INVALID_ARGUMENT, "desc.hidden {}: must be a multiple of {} from {} to {}", desc.hidden, kBlock,
             kBlock, NVFP4R_MAX_HIDDEN);
    if (desc.terms > NVFP4R_MAX_TERMS)
        fail(NVFP4R_INVALID_ARGUMENT, "desc.terms {}: at most {}", desc.terms, NVFP4R_MAX_TERMS);
    if ((desc.weight != nullptr) == (desc.terms > 0))
        fail(NVFP4R_INVALID_ARGUMENT, "desc.weight and desc.terms {}: give either a weight or NVFP4 terms", desc.terms);
}

void copy_weight(const nvfp4r_gate_desc& desc, Gate& gate) {
    check_enum("desc.weight_type", desc.weight_type, {NVFP4R_BF16, NVFP4R_F16, NVFP4R_F32},
               "F32 (1), BF16 (2) or F16 (3)");
    const int64_t stride = desc.weight_stride ? desc.weight_stride : desc.hidden;
    if (stride < desc.hidden || stride > std::numeric_limits<int32_t>::max())
        fail(NVFP4R_INVALID_ARGUMENT, "desc.weight_stride {}: must be 0 or from {} (hidden) to 2^31 - 1", stride,
             desc.hidden);
    gate.weight_type = desc.weight_type;
    gate.weight.resize(uint64_t{desc.experts} * desc.hidden);
    const auto* bytes = static_cast<const char*>(desc.weight);
    for (uint32_t e = 0; e < desc.experts; ++e) {
        for (uint32_t k = 0; k < desc.hidden; ++k) {
            const int64_t index = e * stride + k;
            float& to = gate.weight[uint64_t{e} * desc.hidden + k];
            if (desc.weight_type == NVFP4R_F32) {
                std::memcpy(&to, bytes + index * 4, sizeof(to));
            } else {
                uint16_t bits;
                std::memcpy(&bits, bytes + index * 2, sizeof(bits));
                to = desc.weight_type == NVFP4R_BF16 ? bf16_to_f32(bits) : f16_to_f32(bits);
            }
        }
    }
}

void copy_terms(const nvfp4r_gate_desc& desc, Gate& gate) {
    check_scale("desc.global_scale", desc.global_scale);
    const float global = as_multiplier(desc.global_scale, desc.scale_rule);
    check_scale("1 / desc.global_scale", global);
    gate.weight_type = NVFP4R_E2M1;
    const uint32_t cols = desc.hidden / kBlock;
    for (uint32_t t = 0; t < desc.terms; ++t) {
        if (!desc.codes[t] || !desc.scales[t])
            fail(NVFP4R_INVALID_ARGUMENT, "desc.codes[{}] and desc.scales[{}]: NULL, but desc.terms is {}", t, t,
                 desc.terms);
        Nvfp4Matrix term{desc.experts, desc.hidden, {}, {}, global};
        term.codes.assign(desc.codes[t], desc.codes[t] + uint64_t{desc.experts} * desc.hidden / 2);
        const uint64_t bytes = scale_bytes(desc.experts, cols, desc.scale_layout);
        term.scales = scales_from_layout({desc.scales[t], bytes}, desc.experts, cols, desc.scale_layout);
        for (uint8_t& scale : term.scales) scale &= kScaleMagnitude;
        gate.terms.push_back(std::move(term));
    }
}

void copy_table(const nvfp4r_gate_desc& desc, Gate& gate) {
    if (!desc.tid2eid) return;
    check_enum("desc.table_type", desc.table_type, {NVFP4R_I32, NVFP4R_I64}, "I32 (8) or I64 (9)");
    if (desc.vocabulary < 1 || desc.vocabulary > kMaxVocabulary)
        fail(NVFP4R_INVALID_ARGUMENT, "desc.vocabulary {}: must be 1 to {}", desc.vocabulary, kMaxVocabulary);
    if (desc.table_k < 1 || desc.table_k > NVFP4R_MAX_TOP_K)
        fail(NVFP4R_INVALID_ARGUMENT, "desc.table_k {}: must be 1 to {}", desc.table_k, NVFP4R_MAX_TOP_K);
    gate.vocabulary = desc.vocabulary;
    gate.table_k = desc.table_k;
    gate.table.resize(desc.vocabulary * desc.table_k);
    if (desc.table_type == NVFP4R_I64) {
        std::memcpy(gate.table.data(), desc.tid2eid, gate.table.size() * sizeof(int64_t));
        return;
    }
    for (size_t i = 0; i < gate.table.size(); ++i) {
        int32_t id;
        std::memcpy(&id, static_cast<const char*>(desc.tid2eid) + i * sizeof(id), sizeof(id));
        gate.table[i] = id;
    }
}

std::vector<float> copy_vector(const float* values, uint32_t count) {
    std::vector<float> copy(values ? count : 0);
    if (values) std::memcpy(copy.data(), values, count * sizeof(float));
    return copy;
}

Gate gate_from(const nvfp4r_gate_desc& desc) {
    check_shape(desc);
    check_enum("desc.scale_layout", desc.scale_layout, {NVFP4R_SCALES_LINEAR, NVFP4R_SCALES_128X4, NVFP4R_SCALES_8X4},
               "linear (0) or 128x4 (1)");
    check_enum("desc.scale_rule", desc.scale_rule, {NVFP4R_SCALE_MULTIPLIES, NVFP4R_SCALE_DIVIDES},
               "multiplies (0) or divides (1)");
    Gate gate;
    gate.experts = desc.experts;
    gate.hidden = desc.hidden;
    if (desc.terms > 0)
        copy_terms(desc, gate);
    else
        copy_weight(desc, gate);
    if (desc.input_scale != 0.0f) {
        check_scale("desc.input_scale", desc.input_scale);
        gate.input_scale = as_multiplier(desc.input_scale, desc.scale_rule);
        check_scale("1 / desc.input_scale", gate.input_scale);
    }
    gate.bias = copy_vector(desc.bias, desc.experts);
    gate.linear_bias = copy_vector(desc.linear_bias, desc.experts);
    gate.image_bias = copy_vector(desc.image_bias, desc.experts);
    gate.expert_factor = copy_vector(desc.expert_factor, desc.experts);
    copy_table(desc, gate);
    return gate;
}

nvfp4r_gate* new_handle(Gate gate) {
    auto handle = std::make_unique<nvfp4r_gate>();
    handle->gate = std::make_shared<const Gate>(std::move(gate));
    return handle.release();
}

}  // namespace

nvfp4r_status nvfp4r_gate_create(const nvfp4r_gate_desc* desc, nvfp4r_gate** gate) {
    return guarded("nvfp4r_gate_create", [&] {
        if (!gate) fail(NVFP4R_INVALID_ARGUMENT, "gate: NULL");
        *gate = new_handle(gate_from(read_struct<nvfp4r_gate_desc>(desc, NVFP4R_GATE_DESC_INIT, "desc")));
    });
}

nvfp4r_status nvfp4r_gate_load(const char* path, int32_t layer, const nvfp4r_gate_options* options,
                               nvfp4r_gate** gate) {
    return guarded("nvfp4r_gate_load", [&] {
        if (!path) fail(NVFP4R_INVALID_ARGUMENT, "path: NULL");
        if (!gate) fail(NVFP4R_INVALID_ARGUMENT, "gate: NULL");
        const nvfp4r_gate_options defaults = NVFP4R_GATE_OPTIONS_INIT;
        *gate = new_handle(load_gate(path, layer, options ? read_struct(options, defaults, "options") : defaults));
    });
}

void nvfp4r_gate_destroy(nvfp4r_gate* gate) {
    delete gate;
}

nvfp4r_status nvfp4r_gate_get_info(const nvfp4r_gate* gate, nvfp4r_gate_info* info) {
    return guarded("nvfp4r_gate_get_info", [&] {
        if (!gate) fail(NVFP4R_INVALID_ARGUMENT, "gate: NULL");
        check_size(info, "info");
        const Gate& g = *gate->gate;
        nvfp4r_gate_info value = NVFP4R_GATE_INFO_INIT;
        value.experts = g.experts;
        value.hidden = g.hidden;
        value.weight_type = g.weight_type;
        value.terms = static_cast<uint32_t>(g.terms.size());
        value.layer = g.layer;
        value.has_bias = !g.bias.empty();
        value.has_linear_bias = !g.linear_bias.empty();
        value.has_image_bias = !g.image_bias.empty();
        value.has_expert_factor = !g.expert_factor.empty();
        value.has_table = !g.table.empty();
        value.vocabulary = g.vocabulary;
        value.table_k = g.table_k;
        write_struct(info, value);
    });
}
