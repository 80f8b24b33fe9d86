#include "cli/planned_problem.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/names.hpp"
#include "cli/tile_options.hpp"
#include "plan/memory_map.hpp"

namespace nvfp4r::cli {
namespace {

constexpr Named kTokenTypes[] = {{"bf16", static_cast<int>(TokenForm::Bf16)},
                                 {"f16", static_cast<int>(TokenForm::F16)},
                                 {"f32", static_cast<int>(TokenForm::F32)},
                                 {"nvfp4", static_cast<int>(TokenForm::Nvfp4)}};

Json regions_json(const std::vector<Region>& regions) {
    Json list = Json::array();
    for (const Region& region : regions)
        list.push_back({{"first", region.first}, {"size", region.size}, {"what", region.what}});
    return list;
}

int64_t band_start(TokenBand band) {
    return band == TokenBand::kUpTo8 ? 1 : band_limit(static_cast<TokenBand>(static_cast<uint32_t>(band) - 1)) + 1;
}

}  // namespace

void ProblemOptions::add_to(const Arguments& app, const char* gpu_flag) {
    app.option(gpu_flag, gpu, "h200 (90a), b200 (100a), b300 (103a) or thor (110a); no device is needed").required();
    app.option("--tokens", tokens, "M of a call; kernels are made for ranges of M")
        .between(1, NVFP4R_MAX_TOKENS)
        .show_default();
    app.option("--token-type", token_type, "Type of the tokens in memory").one_of(names_of(kTokenTypes)).show_default();
    app.flag("--with-options", with_options,
             "The kernel for calls that use any option of gate, inputs or outputs; otherwise the one for plain "
             "calls: aligned tokens in, f32 weights and 32-bit ids out");
    add_tile_options(app, wish);
    settings.add_to(app);
}

PlannedProblem ProblemOptions::resolve() const {
    const nvfp4r_settings s = settings.resolve();
    const auto form = static_cast<TokenForm>(value_of(kTokenTypes, token_type));
    const KnownGpu& known = known_gpu(gpu);
    return {s, form, tokens, &known, make_plan(s, form, token_band(tokens), known.limits, wish, !with_options)};
}

Json launch_json(const PlannedProblem& problem) {
    const Plan& plan = problem.plan;
    const int64_t rows = int64_t{plan.tiles_per_launch} * plan.tile_tokens;
    const auto tiles = [&](int64_t tokens) { return (tokens + plan.tile_tokens - 1) / plan.tile_tokens; };
    const TokenBand band = token_band(problem.tokens);
    return {{"tokens_from", band_start(band)},
            {"tokens_to", band_limit(band)},
            {"grid_x", plan.producers + selecting_ctas(plan, problem.tokens)},
            {"grid_y", tiles(std::min(problem.tokens, rows))},
            {"threads", plan.threads},
            {"cluster", plan.kernel.cluster},
            {"dynamic_shared_bytes", plan.shared_bytes},
            {"launches", (problem.tokens + rows - 1) / rows},
            {"tokens_per_launch", rows},
            {"mailbox_words", plan.mailbox_words},
            {"tickets", plan.tiles_per_launch}};
}

Json plan_json(const PlannedProblem& problem) {
    const Plan& plan = problem.plan;
    const KernelPlan& k = plan.kernel;
    return {{"gpu", problem.gpu->limits.name},
            {"arch", fmt::format("sm_{}", problem.gpu->arch)},
            {"tokens", problem.tokens},
            {"token_type", name_of(kTokenTypes, static_cast<int>(problem.form))},
            {"settings", settings_json(problem.settings)},
            {"source", plan.source},
            {"tile",
             {{"tokens", plan.tile_tokens},
              {"k_split", k.slices},
              {"k_tile", k.tmem_columns ? stage_k(k) : kChunk},
              {"stages", k.stages},
              {"expert_tiles", k.expert_tiles},
              {"warps", k.warps},
              {"warps_m", k.warps_m},
              {"warps_k", k.warps_k},
              {"chunks_per_warp", k.chunks_per_warp},
              {"ctas_per_sm", k.ctas_per_sm},
              {"gate_planes", k.gate_planes},
              {"token_planes", k.token_planes},
              {"quantise_tokens", k.quantise_tokens},
              {"plain", k.plain}}},
            {"launch", launch_json(problem)},
            {"shared_memory", regions_json(shared_memory_map(plan))},
            {"tensor_memory", regions_json(tensor_memory_map(plan))},
            {"reasons", plan.reasons}};
}

}  // namespace nvfp4r::cli
