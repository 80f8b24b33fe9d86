// `presets`: the models that the library knows by name.
#include "format/presets.hpp"

#include <fmt/format.h>

#include "cli/command.hpp"
#include "cli/names.hpp"
#include "cli/table.hpp"

namespace nvfp4r::cli {
namespace {

constexpr Column kPresetsColumns[] = {{"name", "PRESET"},
                                      {"hidden_size", "K"},
                                      {"experts", "E"},
                                      {"top_k", "k"},
                                      {"groups", "GROUPS"},
                                      {"score", "SCORE"},
                                      {"weighting", "WEIGHT"},
                                      {"bias", "BIAS"},
                                      {"hash_layers", "HASH LAYERS"},
                                      {"renormalise", "RENORM"},
                                      {"routed_scaling", "SCALING"},
                                      {"gate", "GATE TENSOR"}};

Json groups_json(const nvfp4r_settings& s) {
    if (s.groups <= 1) return nullptr;
    return fmt::format("{} (keep {})", s.groups, s.groups_kept);
}

Json preset_json(const Preset& p) {
    const nvfp4r_settings& s = p.settings;
    const char* bias =
        p.bias_name ? (p.image_bias_name ? "yes + image" : "yes") : (p.linear_bias_name ? "linear" : "no");
    return {{"name", p.name},
            {"hidden_size", s.hidden},
            {"experts", s.experts},
            {"top_k", s.top_k},
            {"groups", groups_json(s)},
            {"score", name_of(kScores, s.score)},
            {"weighting", name_of(kWeightings, s.weighting)},
            {"bias", bias},
            {"hash_layers", p.hash_layers == 0 ? Json(nullptr) : Json(p.hash_layers)},
            {"renormalise", s.renormalise != 0},
            {"routed_scaling", s.routed_scaling},
            {"layers", p.layers},
            {"first_moe_layer", p.first_moe_layer},
            {"gate", p.weight_name}};
}

}  // namespace

Command presets_command(CommandLine& root) {
    const Arguments app = root.subcommand("presets", "The models known by name, and their settings");
    app.footer("Example: nvfp4-router presets --json");
    const auto json = std::make_shared<bool>(false);
    app.flag("--json", *json, "Print JSON, with the layer counts as well");
    return {app, [json] {
                Json records = Json::array();
                for (const Preset& p : presets()) records.push_back(preset_json(p));
                if (*json)
                    print_json({{"presets", records}});
                else
                    fmt::print("{}", table_text(records, kPresetsColumns));
                return static_cast<int>(kOk);
            }};
}

}  // namespace nvfp4r::cli
