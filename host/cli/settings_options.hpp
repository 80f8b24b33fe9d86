// The router's settings on the command line: config.json, overridden by --preset, overridden by one flag for each
// setting.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "cli/arguments.hpp"
#include "cli/table.hpp"
#include "format/gate.hpp"
#include "nvfp4router.h"

namespace nvfp4r::cli {

struct SettingsOptions {
    std::string preset;
    std::optional<uint32_t> experts, hidden, top_k, groups, groups_kept, shared_slots;
    std::optional<float> renormalise_eps, routed_scaling, logit_soft_cap, shared_weight, activation_scale;
    std::optional<std::string> score, weighting, group_score, precision, block_rule;
    std::optional<bool> renormalise, use_bias, batch_invariant;

    void add_to(const Arguments& app);
    /// Experts and hidden size that nothing states are the gate's. The library refuses what does not fit the gate.
    nvfp4r_settings resolve(const std::filesystem::path& checkpoint, const Gate& gate) const;
    /// Without a checkpoint: a preset and flags say everything. Checked as the library checks it.
    nvfp4r_settings resolve() const;

  private:
    void override_by_flags(nvfp4r_settings& settings) const;
};

/// Every setting by the name of its flag.
Json settings_json(const nvfp4r_settings& settings);

}  // namespace nvfp4r::cli
