#include "cli/settings_options.hpp"

#include "api/validate.hpp"
#include "cli/names.hpp"
#include "core/error.hpp"
#include "format/checkpoint.hpp"
#include "format/presets.hpp"

namespace nvfp4r::cli {
namespace {

constexpr const char* kGroup = "Settings (over config.json and --preset)";

template <class T>
void add_value(const Arguments& app, const char* flag, std::optional<T>& value, const char* help) {
    app.option(flag, value, help).group(kGroup);
}

void add_name(const Arguments& app, const char* flag, std::optional<std::string>& value, std::span<const Named> names,
              const char* help) {
    app.option(flag, value, help).one_of(names_of(names)).group(kGroup);
}

/// --flag and --no-flag; neither leaves the setting alone.
void add_switch(const Arguments& app, const std::string& flag, std::optional<bool>& value, const char* help) {
    app.on_flag(
           "--" + flag, [&value] { value = true; }, help)
        .group(kGroup);
    app.on_flag(
           "--no-" + flag, [&value] { value = false; }, "Off")
        .group(kGroup);
}

bool has_config(const std::filesystem::path& checkpoint) {
    const auto folder = std::filesystem::is_directory(checkpoint) ? checkpoint : checkpoint.parent_path();
    return std::filesystem::exists(folder / "config.json");
}

}  // namespace

void SettingsOptions::add_to(const Arguments& app) {
    app.option("--preset", preset, "Settings of a known model instead of config.json (see `presets`)");
    add_value(app, "--experts", experts, "E, 1 to 2048");
    add_value(app, "--hidden-size", hidden, "K, a multiple of 16");
    add_value(app, "--top-k", top_k, "k, 1 to 32 and at most E");
    add_name(app, "--score", score, kScores, "What turns a logit into a score");
    add_name(app, "--weighting", weighting, kWeightings, "What a chosen expert's weight is made from");
    add_value(app, "--groups", groups, "Equal groups that E is split into; 1: none");
    add_value(app, "--groups-kept", groups_kept, "Groups whose experts stay eligible");
    add_name(app, "--group-score", group_score, kGroupScores, "A group's score: its two best added, or its best");
    add_switch(app, "renormalise", renormalise, "Divide the weights by their sum");
    add_value(app, "--renormalise-eps", renormalise_eps, "Added to that sum");
    add_value(app, "--routed-scaling", routed_scaling, "Factor on every weight, applied last");
    add_value(app, "--logit-soft-cap", logit_soft_cap, "c of c * tanh(logit / c); 0: none");
    add_switch(app, "bias", use_bias, "Rank by score + the gate's selection bias");
    add_value(app, "--shared-slots", shared_slots, "Shared experts appended to every row as ids E, E+1, ...");
    add_value(app, "--shared-weight", shared_weight, "Their fixed weight");
    add_name(app, "--precision", precision, kPrecisions,
             "How gate and tokens enter the multiply; default: the gate's own");
    add_name(app, "--block-rule", block_rule, kBlockRules, "How block scales are chosen when the gate is quantised");
    add_value(app, "--activation-scale", activation_scale, "Global scale of quantised tokens; 0: each token's own");
    add_switch(app, "batch-invariant", batch_invariant, "A row's result never depends on the rows around it");
}

void SettingsOptions::override_by_flags(nvfp4r_settings& s) const {
    if (experts) s.experts = *experts;
    if (hidden) s.hidden = *hidden;
    if (top_k) s.top_k = *top_k;
    if (score) s.score = static_cast<nvfp4r_score>(value_of(kScores, *score));
    if (weighting) s.weighting = static_cast<nvfp4r_weighting>(value_of(kWeightings, *weighting));
    if (groups) s.groups = *groups;
    if (groups_kept) s.groups_kept = *groups_kept;
    if (group_score) s.group_score = static_cast<nvfp4r_group_score>(value_of(kGroupScores, *group_score));
    if (renormalise) s.renormalise = *renormalise;
    if (renormalise_eps) s.renormalise_eps = *renormalise_eps;
    if (routed_scaling) s.routed_scaling = *routed_scaling;
    if (logit_soft_cap) s.logit_soft_cap = *logit_soft_cap;
    if (use_bias) s.use_bias = *use_bias;
    if (shared_slots) s.shared_slots = *shared_slots;
    if (shared_weight) s.shared_weight = *shared_weight;
    if (precision) s.precision = static_cast<nvfp4r_precision>(value_of(kPrecisions, *precision));
    if (block_rule) s.block_rule = static_cast<nvfp4r_block_rule>(value_of(kBlockRules, *block_rule));
    if (activation_scale) s.activation_scale = *activation_scale;
    if (batch_invariant) s.batch_invariant = *batch_invariant;
}

nvfp4r_settings SettingsOptions::resolve(const std::filesystem::path& checkpoint, const Gate& gate) const {
    nvfp4r_settings s = NVFP4R_SETTINGS_INIT;
    if (!preset.empty())
        s = nvfp4r::preset(preset).settings;
    else if (has_config(checkpoint))
        s = settings_from_config(checkpoint);

    if (s.experts == 0) s.experts = gate.experts;
    if (s.hidden == 0) s.hidden = gate.hidden;
    override_by_flags(s);
    if (s.score == NVFP4R_SCORE_UNSET || s.top_k == 0)
        fail(NVFP4R_INVALID_ARGUMENT,
             "{}: no config.json beside it states the scoring function and k; give --preset, or --score and --top-k",
             checkpoint.string());
    return s;
}

nvfp4r_settings SettingsOptions::resolve() const {
    nvfp4r_settings s = NVFP4R_SETTINGS_INIT;
    if (!preset.empty()) s = nvfp4r::preset(preset).settings;
    override_by_flags(s);
    if (s.experts == 0 || s.hidden == 0 || s.top_k == 0 || s.score == NVFP4R_SCORE_UNSET)
        fail(NVFP4R_INVALID_ARGUMENT, "give --preset, or --experts, --hidden-size, --top-k and --score");
    // Some unquantised gate that the settings fit.
    Gate gate;
    gate.experts = s.experts;
    gate.hidden = s.hidden;
    gate.bias.resize(s.use_bias ? s.experts : 0);
    validate_settings(s, gate);
    s.precision = resolve_precision(s, gate);
    return s;
}

Json settings_json(const nvfp4r_settings& s) {
    return {{"experts", s.experts},
            {"hidden_size", s.hidden},
            {"top_k", s.top_k},
            {"score", name_of(kScores, s.score)},
            {"weighting", name_of(kWeightings, s.weighting)},
            {"groups", s.groups},
            {"groups_kept", s.groups_kept},
            {"group_score", name_of(kGroupScores, s.group_score)},
            {"renormalise", s.renormalise != 0},
            {"renormalise_eps", s.renormalise_eps},
            {"routed_scaling", s.routed_scaling},
            {"logit_soft_cap", s.logit_soft_cap},
            {"bias", s.use_bias != 0},
            {"shared_slots", s.shared_slots},
            {"shared_weight", s.shared_weight},
            {"precision", s.precision == NVFP4R_PRECISION_UNSET ? "gate" : name_of(kPrecisions, s.precision)},
            {"block_rule", name_of(kBlockRules, s.block_rule)},
            {"activation_scale", s.activation_scale},
            {"batch_invariant", s.batch_invariant != 0}};
}

}  // namespace nvfp4r::cli
