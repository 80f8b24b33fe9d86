#include "plan/memory_map.hpp"

#include "core/error.hpp"

namespace nvfp4r {
namespace {

class Map {
  public:
    void add(std::string what, uint32_t size) {
        if (size != 0) regions_.push_back({std::move(what), end_, size});
        end_ += size;
    }
    std::vector<Region> filled_to(uint32_t end, const char* what) {
        if (end < end_) fail(NVFP4R_INTERNAL, "memory map: {} are mapped, {} are planned", end_, end);
        add(what, end - end_);
        return std::move(regions_);
    }

  private:
    std::vector<Region> regions_;
    uint32_t end_ = 0;
};

constexpr const char* kAlignment = "alignment";

std::vector<Region> decode_map(const Plan& plan) {
    const KernelPlan& k = plan.kernel;
    constexpr uint32_t kPad = 4;  // of a row of partial sums (decode_shared_bytes)
    Map map;
    map.add(fmt::format("partial sums of {} warps", k.warps_k),
            4 * k.warps_k * plan.tile_tokens * (k.warps_m * k.expert_tiles * kExpertTile + kPad));
    map.add("logits and selection of one token", join_space_bytes(k));
    map.add("token scales", 4 * plan.tile_tokens);
    map.add("amax of tokens by slice", 4 * plan.tile_tokens * (k.cluster + 1));
    return map.filled_to(plan.shared_bytes, kAlignment);
}

std::vector<Region> batch_map(const Plan& plan) {
    const KernelPlan& k = plan.kernel;
    constexpr uint32_t kStructAlignment = 1024;
    const uint32_t ring = batch_ring_bytes(k), select = batch_select_warps(k) * select_space_bytes(k);
    const uint32_t tail = batch_sums_bytes(k) + select;
    Map map;
    map.add(fmt::format("{} stages of tokens and gate, then sums and the selection of {} warps", k.stages,
                        batch_select_warps(k)),
            round_up(ring > tail ? ring : tail, kStructAlignment));
    map.add("token scales", 4 * plan.tile_tokens);
    map.add("start ticket", 16);
    return map.filled_to(plan.shared_bytes, kAlignment);
}

std::vector<Region> blackwell_map(const Plan& plan) {
    const KernelPlan& k = plan.kernel;
    const bool scaled = k.gate_form == GateForm::Nvfp4;
    const uint32_t atoms = ceil_div(plan.tile_tokens, kMmaExperts);
    const uint32_t gate = k.gate_planes * k.expert_tiles, tokens = k.token_planes;
    Map map;
    for (uint32_t stage = 0; stage < k.stages; ++stage) {
        const auto name = [&](const char* what) { return fmt::format("stage {}: {}", stage, what); };
        const uint32_t gate_bytes = gate * k.chunks_per_warp * kMmaExperts * kOperandRow;
        const uint32_t token_bytes = tokens * k.chunks_per_warp * plan.tile_tokens * kOperandRow;
        map.add(name("gate operands"), gate_bytes);
        map.add(name("token operands"), token_bytes);
        if (scaled) map.add(name("gate scales"), gate * stage_steps(k) * kScaleAtom);
        if (scaled) map.add(name("token scales"), tokens * stage_steps(k) * atoms * kScaleAtom);
        map.add(name(kAlignment),
                blackwell_stage_bytes(k) - gate_bytes - token_bytes - blackwell_stage_atoms(k) * kScaleAtom);
    }
    map.add("mbarriers: copied, written and empty of each stage, done", 8 * (3 * k.stages + 1));
    map.add("tensor memory address", 4);
    map.add("token scales", 4 * plan.tile_tokens);
    return map.filled_to(plan.shared_bytes, "logits and selection");
}

}  // namespace

std::vector<Region> shared_memory_map(const Plan& plan) {
    if (plan.kernel.tmem_columns != 0) return blackwell_map(plan);
    return plan.source == "router_sm90.cu" ? decode_map(plan) : batch_map(plan);
}

std::vector<Region> tensor_memory_map(const Plan& plan) {
    const KernelPlan& k = plan.kernel;
    if (k.tmem_columns == 0) return {};
    constexpr uint32_t kAtomColumns = 4;  // 512 bytes as 32 lanes of 16 bytes
    const uint32_t atoms = ceil_div(plan.tile_tokens, kMmaExperts);
    Map map;
    for (uint32_t block = 0; block < k.expert_tiles; ++block)
        map.add(fmt::format("accumulator of expert block {}", block), plan.tile_tokens);
    for (uint32_t stage = 0; k.gate_form == GateForm::Nvfp4 && stage < k.stages; ++stage) {
        map.add(fmt::format("stage {}: gate scales", stage),
                k.gate_planes * k.expert_tiles * stage_steps(k) * kAtomColumns);
        map.add(fmt::format("stage {}: token scales", stage), k.token_planes * atoms * stage_steps(k) * kAtomColumns);
    }
    return map.filled_to(k.tmem_columns, "unused, allocation is by powers of two");
}

}  // namespace nvfp4r
