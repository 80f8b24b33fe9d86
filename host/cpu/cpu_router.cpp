// The reference router: the whole contract on the CPU, the oracle of every other device.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "api/router_device.hpp"
#include "core/error.hpp"
#include "cpu/logits.hpp"
#include "cpu/outputs.hpp"
#include "cpu/parallel.hpp"
#include "cpu/rows.hpp"
#include "cpu/score.hpp"
#include "cpu/select.hpp"
#include "cpu/weigh.hpp"

namespace nvfp4r {
namespace {

// Rows that share one pass over the gate: enough to hide its traffic, few enough that their values stay in the cache.
constexpr uint32_t kBlockRows = 32;

int64_t load_id(const void* base, int64_t index, nvfp4r_dtype type) {
    if (type == NVFP4R_I64) {
        int64_t value;
        std::memcpy(&value, static_cast<const char*>(base) + index * 8, sizeof(value));
        return value;
    }
    int32_t value;
    std::memcpy(&value, static_cast<const char*>(base) + index * 4, sizeof(value));
    return value;
}

/// Buffers of one worker.
struct Workspace {
    Workspace(const LogitMaker& maker, const Gate& gate, const nvfp4r_settings& settings, const nvfp4r_call& call,
              uint32_t max_rows)
        : block(maker, call, max_rows),
          acts(gate.experts),
          rank(gate.experts),
          order(gate.experts),
          groups(settings.groups),
          group_scores(settings.groups),
          chosen(settings.top_k),
          weights(settings.top_k) {
        sources.reserve(max_rows);
    }

    LogitBlock block;
    std::vector<int64_t> sources;  // rows of the block that are no padding
    std::vector<float> acts, rank;
    std::vector<uint32_t> order, groups;
    std::vector<float> group_scores;
    std::vector<int32_t> chosen;
    std::vector<float> weights;
};

class CpuRouter final : public RouterDevice {
  public:
    CpuRouter(const RouterPlanInput& input, const nvfp4r_router_options& options)
        : gate_(input.gate),
          settings_(input.settings),
          threads_(options.threads),
          maker_(input, options.cpu_arithmetic) {
        const bool hardware = options.cpu_arithmetic == NVFP4R_CPU_HARDWARE;
        description_ =
            fmt::format("cpu, {} threads, {} arithmetic, {} experts x {} hidden", thread_count(threads_, INT32_MAX),
                        hardware ? "tensor-core" : "exact", gate_->experts, gate_->hidden);
    }

    std::string description() const override { return description_; }
    void prepare(int64_t) override {}
    void route(const nvfp4r_call& call) override;

  private:
    void route_block(const nvfp4r_call& call, int64_t first, int64_t last, Workspace& space,
                     std::span<int32_t> physical, std::atomic<uint32_t>& flags) const;
    void route_row(const nvfp4r_call& call, int64_t row, uint32_t block_row, Workspace& space,
                   std::span<int32_t> physical, std::atomic<uint32_t>& flags) const;
    void write_row(const nvfp4r_call& call, int64_t row, std::span<const int32_t> chosen,
                   std::span<const float> weights, std::span<int32_t> physical) const;
    void write_padding(const nvfp4r_call& call, int64_t row, std::span<int32_t> physical) const;

    std::span<const float> bias_of(const nvfp4r_call& call, int64_t row) const;
    bool ids_are_given(const nvfp4r_call& call) const { return call.forced_ids || !gate_->table.empty(); }
    uint32_t given_ids(const nvfp4r_call& call, int64_t row, std::span<int32_t> chosen) const;
    int32_t replica_of(const nvfp4r_call& call, int32_t expert, int64_t row, uint32_t slot) const;
    uint32_t physical_experts(const nvfp4r_call& call) const {
        return call.experts_physical ? call.experts_physical : gate_->experts;
    }

    std::shared_ptr<const Gate> gate_;
    nvfp4r_settings settings_;
    uint32_t threads_;
    LogitMaker maker_;
    std::string description_;
};

void CpuRouter::route(const nvfp4r_call& call) {
    if (call.memory != NVFP4R_MEMORY_HOST)
        fail(NVFP4R_UNSUPPORTED, "memory device (1): the CPU reads host memory only; copy the tensors, or use a GPU");
    maker_.check(call);
    const uint32_t wanted = thread_count(threads_, call.tokens);
    const int64_t block_rows = std::clamp<int64_t>((call.tokens + wanted - 1) / wanted, 1, kBlockRows);
    const int64_t blocks = (call.tokens + block_rows - 1) / block_rows;
    const uint32_t threads = thread_count(threads_, blocks);

    // Everything that can fail comes before the first write.
    std::vector<std::unique_ptr<Workspace>> spaces;
    for (uint32_t t = 0; t < threads; ++t)
        spaces.push_back(
            std::make_unique<Workspace>(maker_, *gate_, settings_, call, static_cast<uint32_t>(block_rows)));
    const bool lists = call.tokens_per_expert || call.expert_offsets;
    std::vector<int32_t> physical(lists ? static_cast<size_t>(call.tokens) * settings_.top_k : 0);
    std::vector<int64_t> counts(lists ? physical_experts(call) : 0);
    std::atomic<uint32_t> flags{0};

    clear_scale_padding(call, gate_->hidden);
    parallel_blocks(blocks, threads, [&](int64_t block, uint32_t worker) {
        const int64_t first = block * block_rows;
        route_block(call, first, std::min(first + block_rows, call.tokens), *spaces[worker], physical, flags);
    });
    if (lists) store_expert_lists(call, physical, physical_experts(call), counts);
    if (call.error_flag) *call.error_flag |= flags.load();
}

void CpuRouter::route_block(const nvfp4r_call& call, int64_t first, int64_t last, Workspace& space,
                            std::span<int32_t> physical, std::atomic<uint32_t>& flags) const {
    space.sources.clear();
    for (int64_t row = first; row < last; ++row) {
        if (is_padding(call, row))
            write_padding(call, row, physical);
        else
            space.sources.push_back(row);
    }
    maker_.make(call, space.sources, space.block);
    for (uint32_t i = 0; i < space.sources.size(); ++i) route_row(call, space.sources[i], i, space, physical, flags);
}

std::span<const float> CpuRouter::bias_of(const nvfp4r_call& call, int64_t row) const {
    if (!settings_.use_bias) return {};
    return call.image_mask && call.image_mask[row] ? gate_->image_bias : gate_->bias;
}

// Ids from the replay or the hash table; returns the error flags of this row.
uint32_t CpuRouter::given_ids(const nvfp4r_call& call, int64_t row, std::span<int32_t> chosen) const {
    uint32_t flags = 0;
    int64_t token = -1;
    if (!call.forced_ids) {
        token = load_id(call.token_ids, row, call.token_id_type);
        if (token < 0 || static_cast<uint64_t>(token) >= gate_->vocabulary) {
            std::ranges::fill(chosen, kNoExpert);
            return NVFP4R_FLAG_BAD_TABLE_ID;
        }
    }
    for (size_t slot = 0; slot < chosen.size(); ++slot) {
        const auto index = static_cast<int64_t>(slot);
        const int64_t id = call.forced_ids ? load_id(call.forced_ids, row * call.forced_stride + index, NVFP4R_I32)
                                           : gate_->table[static_cast<size_t>(token) * gate_->table_k + slot];
        const bool good = id >= 0 && id < gate_->experts;
        chosen[slot] = good ? static_cast<int32_t>(id) : kNoExpert;
        if (!good) flags |= call.forced_ids ? NVFP4R_FLAG_BAD_FORCED_ID : NVFP4R_FLAG_BAD_TABLE_ID;
    }
    return flags;
}

void CpuRouter::route_row(const nvfp4r_call& call, int64_t row, uint32_t block_row, Workspace& space,
                          std::span<int32_t> physical, std::atomic<uint32_t>& flags) const {
    const uint32_t experts = gate_->experts;
    const std::span<const float> bias = bias_of(call, row);
    const bool given = ids_are_given(call);
    if (given) {
        if (const uint32_t bad = given_ids(call, row, space.chosen)) flags |= bad;
    }
    maker_.rescore(space.block, block_row, bias,
                   given ? std::span<const int32_t>(space.chosen) : std::span<const int32_t>());
    const std::span<const float> logits(space.block.logits.data() + uint64_t{block_row} * experts, experts);
    score_row(settings_.score, logits, space.acts);
    if (!given) {
        // The sum in fp32 is the contract: near a bias of 8 or 12 it makes real ties.
        for (uint32_t e = 0; e < experts; ++e) space.rank[e] = bias.empty() ? space.acts[e] : space.acts[e] + bias[e];
        select_row(settings_, space.rank, {space.order, space.groups, space.group_scores}, space.chosen);
    }
    weigh_row(settings_, space.chosen, logits, space.acts, gate_->expert_factor, space.weights);
    write_row(call, row, space.chosen, space.weights, physical);
    if (call.logits) std::memcpy(call.logits + row * call.logits_stride, logits.data(), logits.size_bytes());
    if (call.scores) std::memcpy(call.scores + row * call.scores_stride, space.acts.data(), experts * sizeof(float));
    store_hidden_codes(call, row, gate_->hidden, &space.block.tokens, block_row);
}

int32_t CpuRouter::replica_of(const nvfp4r_call& call, int32_t expert, int64_t row, uint32_t slot) const {
    if (!call.logit_to_physical || expert < 0) return expert;
    const int64_t replica = settings_.batch_invariant ? 0 : (row + slot) % call.replica_count[expert];
    return call.logit_to_physical[static_cast<int64_t>(expert) * call.replicas + replica];
}

void CpuRouter::write_row(const nvfp4r_call& call, int64_t row, std::span<const int32_t> chosen,
                          std::span<const float> weights, std::span<int32_t> physical) const {
    const uint32_t k = settings_.top_k;
    for (uint32_t slot = 0; slot < k; ++slot) {
        const int32_t id = replica_of(call, chosen[slot], row, slot);
        store_slot(call, row, slot, id, weights[slot]);
        if (call.logical_ids) store_logical_id(call, row, slot, chosen[slot]);
        if (!physical.empty()) physical[static_cast<size_t>(row) * k + slot] = id;
    }
    for (uint32_t s = 0; s < settings_.shared_slots; ++s)
        store_slot(call, row, k + s, static_cast<int32_t>(physical_experts(call) + s), settings_.shared_weight);
}

void CpuRouter::write_padding(const nvfp4r_call& call, int64_t row, std::span<int32_t> physical) const {
    const uint32_t k = settings_.top_k;
    for (uint32_t slot = 0; slot < k + settings_.shared_slots; ++slot) store_slot(call, row, slot, kNoExpert, 0.0f);
    for (uint32_t slot = 0; slot < k; ++slot) {
        if (call.logical_ids) store_logical_id(call, row, slot, kNoExpert);
        if (!physical.empty()) physical[static_cast<size_t>(row) * k + slot] = kNoExpert;
    }
    const size_t row_bytes = gate_->experts * sizeof(float);
    if (call.logits) std::memset(call.logits + row * call.logits_stride, 0, row_bytes);
    if (call.scores) std::memset(call.scores + row * call.scores_stride, 0, row_bytes);
    store_hidden_codes(call, row, gate_->hidden, nullptr, 0);
}

}  // namespace

std::unique_ptr<RouterDevice> make_cpu_device(RouterPlanInput input, const nvfp4r_router_options& options) {
    return std::make_unique<CpuRouter>(input, options);
}

}  // namespace nvfp4r
