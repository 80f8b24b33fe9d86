// A problem and a GPU named on the command line, and the plan made for them: what `plan` and `emit` start from.
#pragma once

#include <cstdint>
#include <string>

#include "cli/arguments.hpp"
#include "cli/settings_options.hpp"
#include "plan/known_gpus.hpp"
#include "plan/plan.hpp"

namespace nvfp4r::cli {

struct PlannedProblem {
    nvfp4r_settings settings;
    TokenForm form;
    int64_t tokens;
    const KnownGpu* gpu;
    Plan plan;
};

struct ProblemOptions {
    SettingsOptions settings;
    std::string token_type = "bf16", gpu;
    int64_t tokens = 1;
    bool with_options = false;
    TileWish wish;

    /// `gpu_flag`: the name of the option that says which GPU.
    void add_to(const Arguments& app, const char* gpu_flag);
    PlannedProblem resolve() const;
};

/// How a call of `tokens` is launched: grid, launches, the range of M that the variant serves.
Json launch_json(const PlannedProblem& problem);
/// The problem and everything that the plan chose, with reasons and memory maps.
Json plan_json(const PlannedProblem& problem);

}  // namespace nvfp4r::cli
