#include "gpu_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "cpu/score.hpp"
#include "cpu/select.hpp"
#include "cpu/weigh.hpp"
#include "driver/driver_api.hpp"
#include "format/number.hpp"
#include "format/nvfp4.hpp"

namespace nvfp4r::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr uint32_t kPoison = 0x7fc0dead;
constexpr uint32_t kVocabulary = 50, kReplicas = 3;

/// Everything a case's calls point to.
struct Tensors {
    std::vector<float> weight, bias, linear_bias, image_bias, factor;
    std::vector<int64_t> table;
    std::vector<uint8_t> hidden, hidden_scales, mask, image_mask;
    std::vector<float> hidden_global;
    std::vector<int32_t> token_ids, forced, physical, counts;
    int32_t num_valid = 0;
    int64_t stride = 0;
};

uint32_t element_bytes(nvfp4r_dtype type) {
    return type == NVFP4R_F32 ? 4 : 2;
}

void put_value(std::vector<uint8_t>& bytes, nvfp4r_dtype type, size_t index, float value) {
    if (type == NVFP4R_F32) {
        std::memcpy(bytes.data() + index * 4, &value, 4);
        return;
    }
    const uint16_t bits = type == NVFP4R_BF16 ? f32_to_bf16(value) : f32_to_f16(value);
    std::memcpy(bytes.data() + index * 2, &bits, 2);
}

void make_hidden(const GpuCase& c, std::mt19937& random, Tensors& t) {
    const uint32_t hidden = c.settings.hidden;
    std::normal_distribution<float> normal;
    t.stride = hidden + c.stride_padding;
    std::vector<float> row(hidden);
    if (c.hidden_type == NVFP4R_E2M1) {
        t.hidden.assign(static_cast<size_t>(c.tokens * t.stride / 2), 0xff);
        t.hidden_scales.resize(static_cast<size_t>(c.tokens) * hidden / kBlock);
        t.hidden_global.resize(c.tokens);
    } else {
        t.hidden.resize(static_cast<size_t>(c.tokens * t.stride + c.misalign) * element_bytes(c.hidden_type));
        for (int64_t i = 0; i < c.tokens * t.stride + c.misalign; ++i) put_value(t.hidden, c.hidden_type, i, kNan);
    }
    for (int64_t r = 0; r < c.tokens; ++r) {
        for (float& v : row) v = normal(random) * (r % 3 == 1 ? 8.0f : 0.5f);
        if (c.hidden_type == NVFP4R_E2M1) {
            t.hidden_global[r] = 0.01f * static_cast<float>(1 + r % 5);
            quantise_row(row, t.hidden_global[r], NVFP4R_BLOCK_AMAX, t.hidden.data() + r * t.stride / 2,
                         t.hidden_scales.data() + r * hidden / kBlock);
            if (r < c.nan_rows) t.hidden_scales[r * hidden / kBlock + 1] = 0x7f;
            continue;
        }
        if (r < c.nan_rows) row[hidden / 2] = kNan;
        const bool padding = (c.mask && r % 4 == 2) || (c.num_valid && r >= c.tokens - c.tokens / 3);
        for (uint32_t k = 0; k < hidden; ++k)
            put_value(t.hidden, c.hidden_type, static_cast<size_t>(c.misalign + r * t.stride + k),
                      padding ? kNan : row[k]);
    }
}

Tensors make_tensors(const GpuCase& c) {
    Tensors t;
    std::mt19937 random(c.seed);
    std::normal_distribution<float> normal;
    const nvfp4r_settings& s = c.settings;
    t.weight.resize(size_t{s.experts} * s.hidden);
    const float size = 1.5f / std::sqrt(static_cast<float>(s.hidden));
    for (float& v : t.weight) v = bf16_to_f32(f32_to_bf16(normal(random) * size));
    if (c.duplicate_experts)
        for (uint32_t e = 1; e < s.experts; e += 2)
            std::copy_n(t.weight.begin() + (e - 1) * s.hidden, s.hidden, t.weight.begin() + e * s.hidden);
    const auto vector = [&](std::vector<float>& v, bool wanted, float centre, float spread) {
        if (!wanted) return;
        v.resize(s.experts);
        for (float& x : v) x = centre + spread * normal(random);
    };
    vector(t.bias, c.bias, 0.0f, c.duplicate_experts ? 0.0f : 0.3f);
    vector(t.linear_bias, c.linear_bias, 0.0f, 0.5f);
    vector(t.image_bias, c.image, 0.2f, 0.5f);
    vector(t.factor, c.factor, 1.0f, 0.1f);
    make_hidden(c, random, t);
    for (int64_t r = 0; r < c.tokens; ++r) {
        t.mask.push_back(r % 4 == 2 ? 0 : 1);
        t.image_mask.push_back(r % 2 ? 1 : 0);
        t.token_ids.push_back(r == 3 ? kVocabulary + 7 : static_cast<int32_t>(random() % kVocabulary));
    }
    t.num_valid = static_cast<int32_t>(c.tokens - c.tokens / 3);
    for (uint32_t i = 0; i < kVocabulary * s.top_k; ++i)
        t.table.push_back(i == 5 ? s.experts : static_cast<int64_t>(random() % s.experts));
    for (int64_t i = 0; i < c.tokens * s.top_k; ++i)
        t.forced.push_back(i == 2 ? -7 : static_cast<int32_t>(random() % s.experts));
    for (uint32_t e = 0; e < s.experts; ++e) {
        t.counts.push_back(1 + static_cast<int32_t>(e % kReplicas));
        for (uint32_t r = 0; r < kReplicas; ++r) t.physical.push_back(static_cast<int32_t>(e + r * s.experts));
    }
    return t;
}

nvfp4r_gate* make_gate(const GpuCase& c, const Tensors& t) {
    nvfp4r_gate_desc desc = NVFP4R_GATE_DESC_INIT;
    desc.experts = c.settings.experts;
    desc.hidden = c.settings.hidden;
    desc.weight = t.weight.data();
    desc.weight_type = NVFP4R_F32;
    const auto pointer = [](const std::vector<float>& v) { return v.empty() ? nullptr : v.data(); };
    desc.bias = pointer(t.bias);
    desc.linear_bias = pointer(t.linear_bias);
    desc.image_bias = pointer(t.image_bias);
    desc.expert_factor = pointer(t.factor);
    if (c.table) {
        desc.tid2eid = t.table.data();
        desc.table_type = NVFP4R_I64;
        desc.vocabulary = kVocabulary;
        desc.table_k = c.settings.top_k;
    }
    nvfp4r_gate* gate = nullptr;
    if (nvfp4r_gate_create(&desc, &gate) != NVFP4R_OK) throw std::runtime_error(nvfp4r_last_error());
    return gate;
}

/// One device's outputs.
struct Outputs {
    std::vector<uint8_t> weights, ids;
    std::vector<float> logits, scores;
    std::vector<int32_t> logical, per_expert;
    uint32_t flag = 0;
};

/// `plain`: nothing but weights and ids is asked for.
std::string route(const GpuCase& c, const Tensors& t, const nvfp4r_gate* gate, const nvfp4r_router_options& options,
                  Outputs& out, bool plain = false) {
    nvfp4r_router* router = nullptr;
    if (nvfp4r_router_create(gate, &c.settings, &options, &router) != NVFP4R_OK) return nvfp4r_last_error();
    const uint32_t width = c.settings.top_k + c.settings.shared_slots;
    const auto words = [](uint64_t count) { return std::vector<uint32_t>(count, kPoison); };
    const auto poison = words(static_cast<uint64_t>(c.tokens) * width * 2);
    out.weights.resize(poison.size() * 4);
    out.ids.resize(poison.size() * 4);
    std::memcpy(out.weights.data(), poison.data(), out.weights.size());
    std::memcpy(out.ids.data(), poison.data(), out.ids.size());
    out.logits.assign(static_cast<size_t>(c.tokens) * c.settings.experts, kNan);
    out.scores = out.logits;
    out.logical.assign(static_cast<size_t>(c.tokens) * c.settings.top_k, 0x7ffffff0);
    const uint32_t physical = c.replicas ? c.settings.experts * kReplicas : c.settings.experts;
    out.per_expert.assign(physical, 0x7ffffff0);

    nvfp4r_call call = NVFP4R_CALL_INIT;
    call.tokens = c.tokens;
    call.hidden_type = c.hidden_type;
    call.hidden_stride = t.stride;
    call.hidden = t.hidden.data() + (c.hidden_type == NVFP4R_E2M1 ? 0 : c.misalign * element_bytes(c.hidden_type));
    if (c.hidden_type == NVFP4R_E2M1) {
        call.hidden_scales = t.hidden_scales.data();
        call.hidden_global_scales = t.hidden_global.data();
    }
    if (c.mask) call.mask = t.mask.data();
    if (c.num_valid) call.num_valid = &t.num_valid;
    if (c.image) call.image_mask = t.image_mask.data();
    if (c.table) call.token_ids = t.token_ids.data(), call.token_id_type = NVFP4R_I32;
    if (c.forced) call.forced_ids = t.forced.data();
    if (c.replicas) {
        call.logit_to_physical = t.physical.data();
        call.replica_count = t.counts.data();
        call.replicas = kReplicas;
        call.experts_physical = physical;
    }
    call.weights = out.weights.data();
    call.weights_type = c.weights_type;
    call.ids = out.ids.data();
    call.ids_type = c.ids_type;
    if (!plain) {
        call.logits = out.logits.data();
        call.scores = out.scores.data();
        call.logical_ids = out.logical.data();
        call.tokens_per_expert = out.per_expert.data();
    }
    call.error_flag = &out.flag;
    const bool ok = nvfp4r_route(router, &call) == NVFP4R_OK;
    const std::string failure = ok ? "" : nvfp4r_last_error();
    nvfp4r_router_destroy(router);
    return failure;
}

float out_weight(const GpuCase& c, const Outputs& out, size_t at) {
    if (c.weights_type == NVFP4R_F32) {
        float value;
        std::memcpy(&value, out.weights.data() + at * 4, 4);
        return value;
    }
    uint16_t bits;
    std::memcpy(&bits, out.weights.data() + at * 2, 2);
    return bf16_to_f32(bits);
}

int64_t out_id(const GpuCase& c, const Outputs& out, size_t at) {
    if (c.ids_type == NVFP4R_I64) {
        int64_t id;
        std::memcpy(&id, out.ids.data() + at * 8, 8);
        return id;
    }
    int32_t id;
    std::memcpy(&id, out.ids.data() + at * 4, 4);
    return c.ids_type == NVFP4R_PACKED ? (id >> 16) : id;
}

bool close(float a, float b, float relative, float absolute) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) == std::isnan(b);
    return a == b || std::fabs(a - b) <= absolute + relative * std::fabs(b);
}

/// What the contract makes of one row's logits, with its own scores.
struct Expected {
    std::vector<float> acts, rank, weights;
    std::vector<int32_t> chosen;
};

Expected expected_row(const GpuCase& c, const Tensors& t, int64_t row, std::span<const float> logits) {
    const nvfp4r_settings& s = c.settings;
    Expected e;
    e.acts.resize(s.experts);
    e.rank.resize(s.experts);
    e.weights.resize(s.top_k);
    e.chosen.resize(s.top_k);
    score_row(s.score, logits, e.acts);
    const bool image = c.image && t.image_mask[row];
    const std::vector<float>& bias = image ? t.image_bias : t.bias;
    for (uint32_t i = 0; i < s.experts; ++i) e.rank[i] = e.acts[i] + (s.use_bias ? bias[i] : 0.0f);
    if (c.forced || c.table) {
        for (uint32_t r = 0; r < s.top_k; ++r) {
            const int64_t token = t.token_ids[row];
            const int64_t id =
                c.forced ? t.forced[row * s.top_k + r] : (token < kVocabulary ? t.table[token * s.top_k + r] : -1);
            e.chosen[r] = id >= 0 && id < s.experts ? static_cast<int32_t>(id) : -1;
        }
    } else {
        std::vector<uint32_t> order(s.experts), groups(std::max(s.groups, 1u));
        std::vector<float> group_scores(groups.size());
        select_row(s, e.rank, {order, groups, group_scores}, e.chosen);
    }
    return e;
}

/// Compares one row's slots. Ids may differ only where the rank values are within the scores' rounding.
std::string check_slots(const GpuCase& c, const Tensors& t, const Outputs& gpu, int64_t row, Expected& e,
                        std::span<const float> logits) {
    const nvfp4r_settings& s = c.settings;
    const uint32_t width = s.top_k + s.shared_slots;
    std::vector<int32_t> taken(s.top_k);
    for (uint32_t r = 0; r < s.top_k; ++r) {
        taken[r] = gpu.logical[row * s.top_k + r];
        if (taken[r] == e.chosen[r]) continue;
        const bool both = taken[r] >= 0 && taken[r] < static_cast<int32_t>(s.experts) && e.chosen[r] >= 0;
        // With groups a near tie of groups changes the whole set; those rows are told apart by eye, not passed.
        if (!both || !close(e.rank[taken[r]], e.rank[e.chosen[r]], 2e-6f, 2e-6f))
            return fmt::format("row {} rank {}: id {} instead of {}", row, r, taken[r], e.chosen[r]);
        for (uint32_t q = 0; q < r; ++q)
            if (taken[q] == taken[r]) return fmt::format("row {}: id {} twice", row, taken[r]);
    }
    weigh_row(s, taken, logits, e.acts, t.factor, e.weights);
    for (uint32_t r = 0; r < s.top_k; ++r) {
        const float weight = out_weight(c, gpu, row * width + r);
        const float tolerance = c.weights_type == NVFP4R_BF16 ? 8e-3f : 4e-6f;
        if (!close(weight, e.weights[r], tolerance, 1e-30f))
            return fmt::format("row {} rank {}: weight {} instead of {}", row, r, weight, e.weights[r]);
        int64_t id = taken[r];
        if (c.replicas && id >= 0) id += int64_t{s.experts} * (s.batch_invariant ? 0 : (row + r) % t.counts[id]);
        if (out_id(c, gpu, row * width + r) != id)
            return fmt::format("row {} rank {}: physical id {} instead of {}", row, r, out_id(c, gpu, row * width + r),
                               id);
    }
    for (uint32_t r = s.top_k; r < width; ++r) {
        const uint32_t first = c.replicas ? s.experts * kReplicas : s.experts;
        if (out_id(c, gpu, row * width + r) != first + r - s.top_k) return fmt::format("row {}: shared slot id", row);
        if (out_weight(c, gpu, row * width + r) != s.shared_weight)
            return fmt::format("row {}: shared slot weight", row);
    }
    return "";
}

std::string check_padding(const GpuCase& c, const Outputs& gpu, int64_t row) {
    const uint32_t width = c.settings.top_k + c.settings.shared_slots;
    for (uint32_t r = 0; r < width; ++r)
        if (out_id(c, gpu, row * width + r) != -1 || out_weight(c, gpu, row * width + r) != 0.0f)
            return fmt::format("padding row {} slot {}: id {} weight {}", row, r, out_id(c, gpu, row * width + r),
                               out_weight(c, gpu, row * width + r));
    return "";
}

std::string compare(const GpuCase& c, const Tensors& t, const Outputs& gpu, const Outputs& cpu) {
    const nvfp4r_settings& s = c.settings;
    for (int64_t row = 0; row < c.tokens; ++row) {
        const size_t at = static_cast<size_t>(row) * s.experts;
        const std::span<const float> logits(gpu.logits.data() + at, s.experts);
        const bool padding = (c.mask && !t.mask[row]) || (c.num_valid && row >= t.num_valid);
        float largest = 0.0f;
        for (uint32_t e = 0; e < s.experts; ++e)
            if (std::isfinite(cpu.logits[at + e])) largest = std::max(largest, std::fabs(cpu.logits[at + e]));
        for (uint32_t e = 0; e < s.experts; ++e)
            if (!close(logits[e], cpu.logits[at + e], 1e-5f, 3e-6f * largest))
                return fmt::format("row {} expert {}: logit {} instead of {}", row, e, logits[e], cpu.logits[at + e]);
        if (padding) {
            if (const std::string failure = check_padding(c, gpu, row); !failure.empty()) return failure;
            continue;
        }
        Expected e = expected_row(c, t, row, logits);
        for (uint32_t i = 0; i < s.experts; ++i)
            if (!close(gpu.scores[at + i], e.acts[i], 2e-6f, 1e-37f))
                return fmt::format("row {} expert {}: score {} instead of {} for logit {}", row, i, gpu.scores[at + i],
                                   e.acts[i], logits[i]);
        if (const std::string failure = check_slots(c, t, gpu, row, e, logits); !failure.empty()) return failure;
    }
    std::vector<int32_t> counted(gpu.per_expert.size());
    const uint32_t width = s.top_k + s.shared_slots;
    for (int64_t row = 0; row < c.tokens; ++row)
        for (uint32_t r = 0; r < s.top_k; ++r)
            if (const int64_t id = out_id(c, gpu, row * width + r); id >= 0) ++counted.at(id);
    if (counted != gpu.per_expert) return "tokens_per_expert does not count the ids";
    if (gpu.flag != cpu.flag) return fmt::format("error flag {} instead of {}", gpu.flag, cpu.flag);
    return "";
}

/// The case on the device that it names and on the CPU.
std::string route_both(const GpuCase& c, const Tensors& tensors, bool plain, Outputs& device, Outputs& cpu) {
    nvfp4r_gate* gate = make_gate(c, tensors);
    nvfp4r_router_options cpu_options = NVFP4R_ROUTER_OPTIONS_INIT;
    cpu_options.device = NVFP4R_DEVICE_CPU;
    std::string failure = route(c, tensors, gate, c.options, device, plain);
    if (failure.empty()) failure = route(c, tensors, gate, cpu_options, cpu, plain);
    nvfp4r_gate_destroy(gate);
    return failure;
}

}  // namespace

std::string cuda_missing() {
    try {
        int count = 0;
        const DriverApi& api = cuda_driver();
        check(api, api.cuDeviceGetCount(&count), "cuDeviceGetCount");
        return count > 0 ? "" : "the driver has no GPU";
    } catch (const std::exception& e) {
        return e.what();
    }
}

GpuCase gpu_case(uint32_t experts, uint32_t hidden, uint32_t top_k, nvfp4r_score score, nvfp4r_precision precision) {
    GpuCase c;
    c.settings.experts = experts;
    c.settings.hidden = hidden;
    c.settings.top_k = top_k;
    c.settings.score = score;
    c.settings.precision = precision;
    c.settings.renormalise = 1;
    c.options.device = NVFP4R_DEVICE_CUDA;
    c.name = fmt::format("E{} K{} k{} score {} precision {}", experts, hidden, top_k, static_cast<int>(score),
                         static_cast<int>(precision));
    return c;
}

GpuCase preset_case(const char* preset, int64_t tokens, nvfp4r_precision precision) {
    GpuCase c;
    if (nvfp4r_settings_preset(preset, &c.settings) != NVFP4R_OK) throw std::runtime_error(nvfp4r_last_error());
    c.settings.precision = precision;
    c.tokens = tokens;
    c.bias = c.settings.use_bias != 0;
    c.options.device = NVFP4R_DEVICE_CUDA;
    c.name = fmt::format("{} M{}", preset, tokens);
    return c;
}

std::string run_plain_case(const GpuCase& c) {
    Outputs gpu, cpu;
    if (const std::string failure = route_both(c, make_tensors(c), true, gpu, cpu); !failure.empty()) return failure;
    for (size_t i = 0; i < static_cast<size_t>(c.tokens) * c.settings.top_k; ++i) {
        if (out_id(c, gpu, i) != out_id(c, cpu, i))
            return fmt::format("slot {}: id {} instead of {}", i, out_id(c, gpu, i), out_id(c, cpu, i));
        if (!close(out_weight(c, gpu, i), out_weight(c, cpu, i), 1e-5f, 0.0f))
            return fmt::format("slot {}: weight {} instead of {}", i, out_weight(c, gpu, i), out_weight(c, cpu, i));
    }
    return "";
}

std::string run_gpu_case(const GpuCase& c) {
    const Tensors tensors = make_tensors(c);
    Outputs gpu, cpu;
    const std::string failure = route_both(c, tensors, false, gpu, cpu);
    return failure.empty() ? compare(c, tensors, gpu, cpu) : failure;
}

std::vector<uint32_t> logit_bits(const GpuCase& c, const nvfp4r_router_options& options) {
    const Tensors tensors = make_tensors(c);
    nvfp4r_gate* gate = make_gate(c, tensors);
    Outputs out;
    const std::string failure = route(c, tensors, gate, options, out);
    nvfp4r_gate_destroy(gate);
    if (!failure.empty()) throw std::runtime_error(failure);
    std::vector<uint32_t> bits(out.logits.size());
    std::memcpy(bits.data(), out.logits.data(), bits.size() * sizeof(uint32_t));
    return bits;
}

}  // namespace nvfp4r::test
