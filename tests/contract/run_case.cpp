#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <memory>

#include "contract/contract_case.hpp"
#include "format/number.hpp"
#include "format/nvfp4.hpp"

namespace contract {
namespace {

constexpr size_t kGuardBytes = 256;
constexpr unsigned char kGuard = 0xa5;
constexpr unsigned char kPoison = 0x7b;  // a huge id; a weight or logit of 1.3e36

/// Output memory with guard bytes on both sides, full of poison.
template <class T>
class Guarded {
  public:
    explicit Guarded(size_t count) : count_(count), bytes_(count * sizeof(T) + 2 * kGuardBytes, kGuard) {
        std::fill_n(bytes_.begin() + kGuardBytes, count * sizeof(T), kPoison);
    }
    T* data() { return count_ ? reinterpret_cast<T*>(bytes_.data() + kGuardBytes) : nullptr; }
    T operator[](size_t i) const {
        T value;
        std::memcpy(&value, bytes_.data() + kGuardBytes + i * sizeof(T), sizeof(T));
        return value;
    }
    bool poisoned(size_t i) const {
        const auto* at = bytes_.data() + kGuardBytes + i * sizeof(T);
        return std::all_of(at, at + sizeof(T), [](unsigned char b) { return b == kPoison; });
    }
    bool untouched() const {
        for (size_t i = 0; i < count_; ++i)
            if (!poisoned(i)) return false;
        return true;
    }
    bool guards_hold() const {
        return std::all_of(bytes_.begin(), bytes_.begin() + kGuardBytes, [](unsigned char b) { return b == kGuard; }) &&
               std::all_of(bytes_.end() - kGuardBytes, bytes_.end(), [](unsigned char b) { return b == kGuard; });
    }
    size_t size() const { return count_; }

  private:
    size_t count_;
    std::vector<unsigned char> bytes_;
};

struct DestroyGate {
    void operator()(nvfp4r_gate* gate) const { nvfp4r_gate_destroy(gate); }
};
struct DestroyRouter {
    void operator()(nvfp4r_router* router) const { nvfp4r_router_destroy(router); }
};

template <class T>
const T* or_null(const std::vector<T>& v) {
    return v.empty() ? nullptr : v.data();
}

nvfp4r_status make_gate(const Case& c, std::unique_ptr<nvfp4r_gate, DestroyGate>& gate) {
    nvfp4r_gate_desc desc = NVFP4R_GATE_DESC_INIT;
    desc.experts = static_cast<uint32_t>((c.weight.empty() ? c.w_codes.size() * 2 : c.weight.size()) / c.hidden_size());
    desc.hidden = c.hidden_size();
    if (c.weight.empty()) {
        desc.terms = 1;
        desc.codes[0] = c.w_codes.data();
        desc.scales[0] = c.w_scales.data();
        desc.global_scale = c.gw;
        desc.scale_rule = c.scale_rule;
    } else {
        desc.weight = c.weight.data();
        desc.weight_type = NVFP4R_F32;
    }
    desc.bias = or_null(c.bias);
    desc.linear_bias = or_null(c.linear_bias);
    desc.image_bias = or_null(c.image_bias);
    desc.expert_factor = or_null(c.expert_factor);
    if (!c.table.empty()) {
        desc.tid2eid = c.table.data();
        desc.table_type = NVFP4R_I64;
        desc.table_k = c.settings.top_k;
        desc.vocabulary = c.table.size() / c.settings.top_k;
    }
    nvfp4r_gate* made = nullptr;
    const nvfp4r_status status = nvfp4r_gate_create(&desc, &made);
    gate.reset(made);
    return status;
}

/// A case's outputs, each as large as the call may write.
struct Outputs {
    explicit Outputs(const Case& c)
        : stride(c.width() + c.extra_stride),
          rows(size_t{c.tokens}),
          ids64(c.ids_type == NVFP4R_I64 ? rows * stride : 0),
          ids32(c.ids_type == NVFP4R_I64 ? 0 : rows * stride),
          weights(c.weights_type == NVFP4R_F32 ? rows * stride : 0),
          weights16(c.weights_type == NVFP4R_BF16 ? rows * stride : 0),
          logits(c.logits.empty() ? 0 : rows * c.experts()),
          scores(c.logits.empty() ? 0 : rows * c.experts()),
          logical(c.logical_ids.empty() ? 0 : rows * c.settings.top_k),
          counts(c.tokens_per_expert.size()),
          permutation(c.permutation.size()),
          offsets(c.expert_offsets.size()),
          codes(c.codes_out.size()),
          scales(c.scales_out.size()),
          globals(c.globals_out.size()) {}

    size_t stride, rows;
    Guarded<int64_t> ids64;
    Guarded<int32_t> ids32;
    Guarded<float> weights;
    Guarded<uint16_t> weights16;
    Guarded<float> logits, scores;
    Guarded<int32_t> logical, counts, permutation, offsets;
    Guarded<uint8_t> codes, scales;
    Guarded<float> globals;
    uint32_t flags = 0;

    template <class Visit>
    void each(Visit&& visit) const {
        visit(ids64), visit(ids32), visit(weights), visit(weights16), visit(logits), visit(scores), visit(logical),
            visit(counts), visit(permutation), visit(offsets), visit(codes), visit(scales), visit(globals);
    }
    bool untouched() const {
        bool all = flags == 0;
        each([&](const auto& buffer) { all = all && buffer.untouched(); });
        return all;
    }
    bool guards_hold() const {
        bool all = true;
        each([&](const auto& buffer) { all = all && buffer.guards_hold(); });
        return all;
    }

    int32_t id(const Case& c, size_t row, size_t slot) const {
        const size_t at = row * stride + slot;
        if (c.ids_type == NVFP4R_I64) return static_cast<int32_t>(ids64[at]);
        if (c.ids_type != NVFP4R_PACKED) return ids32[at];
        const auto packed = static_cast<uint32_t>(ids32[at]) >> 16;
        return packed == 0xffffu ? -1 : static_cast<int32_t>(packed);
    }
    float weight(const Case& c, size_t row, size_t slot) const {
        const size_t at = row * stride + slot;
        if (c.weights_type == NVFP4R_BF16) return nvfp4r::bf16_to_f32(weights16[at]);
        return weights[at];
    }
};

nvfp4r_call make_call(const Case& c, Outputs& out) {
    nvfp4r_call call = NVFP4R_CALL_INIT;
    call.tokens = c.tokens;
    if (c.hidden.empty()) {
        call.hidden = c.x_codes.data();
        call.hidden_type = NVFP4R_E2M1;
        call.hidden_scales = c.x_scales.data();
        call.hidden_global_scale = c.gx;
    } else {
        call.hidden = c.hidden.data();
        call.hidden_type = NVFP4R_BF16;
    }
    call.num_valid = c.num_valid ? &*c.num_valid : nullptr;
    call.mask = or_null(c.mask);
    call.image_mask = or_null(c.image_mask);
    call.token_ids = or_null(c.token_ids);
    call.token_id_type = NVFP4R_I64;
    call.forced_ids = or_null(c.forced_ids);
    call.logit_to_physical = or_null(c.logit_to_physical);
    call.replica_count = or_null(c.replica_count);
    call.replicas = c.replicas;
    call.experts_physical = c.experts_physical;
    call.ids_type = c.ids_type;
    call.ids = c.ids_type == NVFP4R_I64 ? static_cast<void*>(out.ids64.data()) : out.ids32.data();
    call.weights_type = c.weights_type;
    call.weights = c.weights_type == NVFP4R_BF16 ? static_cast<void*>(out.weights16.data()) : out.weights.data();
    call.ids_stride = call.weights_stride = static_cast<int64_t>(out.stride);
    call.ids_capacity = call.weights_capacity = c.capacity;
    call.logits = out.logits.data();
    call.scores = out.scores.data();
    call.logical_ids = out.logical.data();
    call.tokens_per_expert = out.counts.data();
    call.permutation = out.permutation.data();
    call.permutation_capacity = static_cast<int64_t>(out.permutation.size());
    call.permutation_tile = c.permutation_tile;
    call.expert_offsets = out.offsets.data();
    call.hidden_codes_out = out.codes.data();
    call.hidden_scales_out = out.scales.data();
    call.hidden_scales_out_layout = c.scales_out_layout;
    call.hidden_global_scales_out = out.globals.data();
    call.error_flag = &out.flags;
    return call;
}

bool near(float got, float wanted, double tolerance) {
    if (std::isnan(wanted)) return std::isnan(got);
    if (std::isinf(wanted)) return got == wanted;
    const double difference = std::fabs(static_cast<double>(got) - static_cast<double>(wanted));
    return difference <= tolerance * std::max(1.0, std::fabs(static_cast<double>(wanted)));
}

// Row `row` of values that may hold one row for all.
template <class T>
T at_row(const std::vector<T>& values, size_t width, size_t row, size_t i) {
    return values.size() == width ? values[i] : values[row * width + i];
}

// An id that is not the expected one passes where the device may differ and the two rank values are that near.
bool is_near_tie(const Case& c, const Device& device, size_t row, int32_t got, int32_t wanted) {
    const auto experts = static_cast<int32_t>(c.experts());
    if (device.rank_margin == 0 || c.rank.empty() || got < 0 || wanted < 0 || got >= experts) return false;
    const auto rank = [&](int32_t e) { return static_cast<double>(at_row(c.rank, c.experts(), row, e)); };
    return std::fabs(rank(got) - rank(wanted)) <= device.rank_margin;
}

void check_ids(const Case& c, const Device& device, const Outputs& out) {
    if (c.ids.empty()) return;
    size_t wrong = 0;
    for (size_t row = 0; row < out.rows; ++row) {
        for (size_t slot = 0; slot < c.width(); ++slot) {
            const int32_t wanted = at_row(c.ids, c.width(), row, slot);
            const int32_t got = out.id(c, row, slot);
            if (got != wanted && !is_near_tie(c, device, row, got, wanted) && ++wrong <= 3)
                UNSCOPED_INFO("row " << row << " slot " << slot << ": id " << got << ", expected " << wanted);
        }
    }
    CHECK(wrong == 0);
}

void check_weights(const Case& c, const Device& device, const Outputs& out) {
    if (c.weights.empty()) return;
    size_t wrong = 0;
    const double tolerance = c.tolerance + device.weight_margin + (c.weights_type == NVFP4R_BF16 ? 0x1p-8 : 0.0);
    for (size_t row = 0; row < out.rows; ++row) {
        for (size_t slot = 0; slot < c.width(); ++slot) {
            const float wanted = at_row(c.weights, c.width(), row, slot);
            const float got = out.weight(c, row, slot);
            if (!near(got, wanted, tolerance) && ++wrong <= 3)
                UNSCOPED_INFO("row " << row << " slot " << slot << ": weight " << got << ", expected " << wanted);
        }
    }
    CHECK(wrong == 0);
}

// What lies between a row's width and its stride belongs to the caller.
void check_between_rows(const Case& c, const Outputs& out) {
    size_t overwritten = 0;
    for (size_t row = 0; row < out.rows; ++row) {
        for (size_t at = row * out.stride + c.width(); at < (row + 1) * out.stride; ++at) {
            const bool ids = c.ids_type == NVFP4R_I64 ? out.ids64.poisoned(at) : out.ids32.poisoned(at);
            const bool weights = c.weights_type == NVFP4R_BF16 ? out.weights16.poisoned(at) : out.weights.poisoned(at);
            overwritten += !ids || !weights;
        }
    }
    CHECK(overwritten == 0);
}

void check_logits(const Case& c, const Outputs& out) {
    if (c.logits.empty()) return;
    size_t wrong = 0, left = 0;
    for (size_t row = 0; row < out.rows; ++row) {
        for (size_t e = 0; e < c.experts(); ++e) {
            const float wanted = at_row(c.logits, c.experts(), row, e);
            const float got = out.logits[row * c.experts() + e];
            const bool equal = c.logit_tolerance > 0 ? near(got, wanted, c.logit_tolerance)
                               : std::isnan(wanted)  ? std::isnan(got)
                                                     : std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(wanted);
            if (!equal && ++wrong <= 3)
                UNSCOPED_INFO("row " << row << " expert " << e << ": logit " << got << ", expected " << wanted);
            left += out.scores.poisoned(row * c.experts() + e);
        }
    }
    CHECK(wrong == 0);
    CHECK(left == 0);
}

template <class T>
void check_all(const char* what, const std::vector<T>& wanted, const Guarded<T>& got) {
    size_t wrong = 0;
    for (size_t i = 0; i < wanted.size(); ++i)
        if (got[i] != wanted[i] && ++wrong <= 3)
            UNSCOPED_INFO(what << "[" << i << "]: " << +got[i] << ", expected " << +wanted[i]);
    CHECK(wrong == 0);
}

void check_refusal(const Case& c, nvfp4r_status status) {
    const std::string text = nvfp4r_last_error();
    INFO("refused with: " << text);
    CHECK(status == c.status);
    for (const std::string& word : c.refusal) CHECK_THAT(text, Catch::Contains(word));
}

}  // namespace

void run(const Case& c, const Device& device) {
    Outputs out(c);
    std::unique_ptr<nvfp4r_gate, DestroyGate> gate;
    std::unique_ptr<nvfp4r_router, DestroyRouter> router;
    nvfp4r_status status = make_gate(c, gate);
    if (status == NVFP4R_OK) {
        nvfp4r_router* made = nullptr;
        status = nvfp4r_router_create(gate.get(), &c.settings, &device.options, &made);
        router.reset(made);
    }
    if (status == NVFP4R_OK) {
        const nvfp4r_call call = make_call(c, out);
        status = nvfp4r_route(router.get(), &call);
    }
    CHECK(out.guards_hold());
    if (status == NVFP4R_UNSUPPORTED && c.status == NVFP4R_OK && device.may_refuse) {
        CHECK(out.untouched());
        WARN("refused by name: " << nvfp4r_last_error());
        return;
    }
    if (status != NVFP4R_OK || c.status != NVFP4R_OK) {
        check_refusal(c, status);
        CHECK(out.untouched());
        return;
    }
    check_ids(c, device, out);
    check_weights(c, device, out);
    check_between_rows(c, out);
    check_logits(c, out);
    check_all("logical_ids", c.logical_ids, out.logical);
    check_all("tokens_per_expert", c.tokens_per_expert, out.counts);
    check_all("permutation", c.permutation, out.permutation);
    check_all("expert_offsets", c.expert_offsets, out.offsets);
    check_all("hidden_codes_out", c.codes_out, out.codes);
    check_all("hidden_scales_out", c.scales_out, out.scales);
    check_all("hidden_global_scales_out", c.globals_out, out.globals);
    CHECK(out.flags == c.flags);
}

}  // namespace contract
