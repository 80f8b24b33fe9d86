#include "format/config.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "format/checkpoint.hpp"
#include "format/json_file.hpp"

namespace nvfp4r {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Keys = std::initializer_list<const char*>;

// One meaning, many spellings. Hugging Face's `top_k` is a sampling setting and is not among them.
constexpr Keys kExperts = {"n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts",
                           "num_routed_experts"};
constexpr Keys kZeroExperts = {"zero_expert_num"};
constexpr Keys kTopK = {
    "num_experts_per_tok", "num_experts_per_token", "n_activated_experts", "moe_topk", "moe_top_k", "moe_k"};
constexpr Keys kHidden = {"hidden_size", "dim"};
constexpr Keys kScore = {"scoring_func", "score_func", "score_function", "moe_router_activation_func"};
constexpr Keys kScaling = {"routed_scaling_factor", "route_scale", "router_scaling_factor",
                           "moe_router_scaling_factor"};
constexpr Keys kRenormalise = {"norm_topk_prob", "norm_expert_weight", "route_norm"};
constexpr Keys kGroups = {"n_group", "n_expert_groups"};
constexpr Keys kGroupsKept = {"topk_group", "n_limited_groups"};
constexpr Keys kUseBias = {"use_routing_bias", "moe_router_enable_expert_bias", "use_moe_router_bias"};

/// What a model type means where its config.json says nothing, read from the model's own code.
struct ModelRule {
    std::string_view model_type;
    nvfp4r_score score;
    bool use_bias;
    bool renormalise;
    nvfp4r_weighting weighting = NVFP4R_WEIGHT_SCORE;
};

constexpr ModelRule kModels[] = {
    {"deepseek_v2", NVFP4R_SCORE_SOFTMAX, false, false},
    {"deepseek_v3", NVFP4R_SCORE_SIGMOID, true, true},
    {"deepseek_v32", NVFP4R_SCORE_SIGMOID, true, true},
    {"deepseek_v4", NVFP4R_SCORE_SQRTSOFTPLUS, true, true},
    {"deepseek_v41", NVFP4R_SCORE_SQRTSOFTPLUS, true, true},
    {"kimi_k2", NVFP4R_SCORE_SIGMOID, true, true},
    {"kimi_k3", NVFP4R_SCORE_SIGMOID, true, true},
    {"glm4_moe", NVFP4R_SCORE_SIGMOID, true, true},
    {"glm_moe_dsa", NVFP4R_SCORE_SIGMOID, true, true},
    {"minimax_m2", NVFP4R_SCORE_SIGMOID, true, true},
    {"minimax_m3", NVFP4R_SCORE_SIGMOID, true, true},
    {"nemotron_h", NVFP4R_SCORE_SIGMOID, true, true},
    {"step3p5", NVFP4R_SCORE_SIGMOID, true, true},
    {"hy_v3", NVFP4R_SCORE_SIGMOID, true, true},
    {"mimo_v2_flash", NVFP4R_SCORE_SIGMOID, true, true},
    {"bailing_moe", NVFP4R_SCORE_SIGMOID, true, true},
    {"bailing_moe_v2", NVFP4R_SCORE_SIGMOID, true, true},
    {"longcat_flash", NVFP4R_SCORE_SOFTMAX, true, false},
    {"qwen3_moe", NVFP4R_SCORE_SOFTMAX, false, false},
    {"qwen3_next", NVFP4R_SCORE_SOFTMAX, false, true},
    {"qwen3_5_moe", NVFP4R_SCORE_SOFTMAX, false, true},
    {"qwen3_5_moe_text", NVFP4R_SCORE_SOFTMAX, false, true},
    {"mixtral", NVFP4R_SCORE_SOFTMAX, false, true},
    {"olmoe", NVFP4R_SCORE_SOFTMAX, false, false},
    {"gpt_oss", NVFP4R_SCORE_IDENTITY, false, false, NVFP4R_WEIGHT_SOFTMAX_AFTER},
    {"llama4", NVFP4R_SCORE_IDENTITY, false, false, NVFP4R_WEIGHT_SIGMOID_AFTER},
    {"llama4_text", NVFP4R_SCORE_IDENTITY, false, false, NVFP4R_WEIGHT_SIGMOID_AFTER},
};

const ModelRule* rule_of(std::string_view model_type) {
    const auto found = std::find_if(std::begin(kModels), std::end(kModels),
                                    [&](const ModelRule& rule) { return rule.model_type == model_type; });
    return found == std::end(kModels) ? nullptr : found;
}

/// config.json with its text model's section laid over it. Null means absent everywhere.
class Config {
  public:
    explicit Config(const fs::path& file) : file_(file.string()), top_(read_json_object(file)) {
        for (const char* section : {"text_config", "language_config", "llm_config"}) {
            const auto found = top_.find(section);
            if (found != top_.end() && found->is_object()) text_ = *found;
        }
    }

    const std::string& file() const { return file_; }

    uint32_t whole(Keys keys, uint32_t absent) const {
        const auto [key, value] = find(keys);
        if (value == nullptr) return absent;
        const bool fits = value->is_number_unsigned() && value->get<uint64_t>() <= std::numeric_limits<int32_t>::max();
        if (!fits) bad(key, *value, "a whole number from 0 to 2^31 - 1");
        return static_cast<uint32_t>(value->get<uint64_t>());
    }
    float number(Keys keys, float absent) const {
        const auto [key, value] = find(keys);
        if (value == nullptr) return absent;
        const float number = value->is_number() ? value->get<float>() : std::numeric_limits<float>::quiet_NaN();
        if (!std::isfinite(number)) bad(key, *value, "a finite number");
        return number;
    }
    std::optional<bool> flag(Keys keys) const {
        const auto [key, value] = find(keys);
        if (value == nullptr) return std::nullopt;
        if (!value->is_boolean()) bad(key, *value, "true or false");
        return value->get<bool>();
    }
    std::string text(Keys keys) const {
        const auto [key, value] = find(keys);
        if (value == nullptr) return "";
        if (!value->is_string()) bad(key, *value, "a string");
        return value->get<std::string>();
    }

  private:
    std::pair<const char*, const Json*> find(Keys keys) const {
        for (const Json* section : {&text_, &top_}) {
            for (const char* key : keys) {
                const auto found = section->find(key);
                if (found != section->end() && !found->is_null()) return {key, &*found};
            }
        }
        return {nullptr, nullptr};
    }
    [[noreturn]] void bad(const char* key, const Json& value, const char* needed) const {
        fail(NVFP4R_BAD_FILE, "{}: {} is {}; {} is needed", file_, key, value.dump(), needed);
    }

    std::string file_;
    Json top_;
    Json text_ = Json::object();
};

nvfp4r_score score_from_name(const std::string& name, const std::string& file) {
    if (name == "sigmoid") return NVFP4R_SCORE_SIGMOID;
    if (name == "softmax") return NVFP4R_SCORE_SOFTMAX;
    if (name == "sqrtsoftplus" || name == "sqrt_softplus") return NVFP4R_SCORE_SQRTSOFTPLUS;
    fail(NVFP4R_UNSUPPORTED, "{}: scoring function \"{}\"; sigmoid, softmax and sqrtsoftplus are known", file, name);
}

/// DeepSeek's topk_method fixes the group score, and noaux_tc means a selection bias.
void apply_topk_method(const std::string& method, const std::string& file, nvfp4r_settings& settings) {
    if (method.empty()) return;
    if (method == "noaux_tc") {
        settings.use_bias = 1;
        settings.group_score = NVFP4R_GROUP_TOP2_SUM;
    } else if (method == "group_limited_greedy") {
        settings.use_bias = 0;
        settings.group_score = NVFP4R_GROUP_MAX;
    } else if (method == "greedy") {
        settings.use_bias = 0;
        settings.groups = settings.groups_kept = 0;
    } else {
        fail(NVFP4R_UNSUPPORTED, "{}: topk_method \"{}\"; noaux_tc, group_limited_greedy and greedy are known", file,
             method);
    }
}

/// For models unknown by name, whose config.json is silent: whether the checkpoint beside it has selection biases.
bool checkpoint_has_bias(const fs::path& folder) {
    try {
        const std::vector<GateEntry> gates = list_gates(folder);
        return std::any_of(gates.begin(), gates.end(), [](const GateEntry& gate) { return !gate.bias.empty(); });
    } catch (const Error&) {
        return false;  // no checkpoint there, or one whose own loading will say what is wrong with it
    }
}

uint32_t experts_of(const Config& config) {
    return config.whole(kExperts, 0) + config.whole(kZeroExperts, 0);
}

}  // namespace

std::optional<ConfigShape> config_shape(const fs::path& folder) {
    const fs::path file = folder / "config.json";
    if (!fs::exists(file)) return std::nullopt;
    const Config config(file);
    const ConfigShape shape{experts_of(config), config.whole(kHidden, 0)};
    if (shape.experts == 0 || shape.hidden == 0) return std::nullopt;
    return shape;
}

nvfp4r_settings settings_from_config(const fs::path& path) {
    // A folder, its config.json, or any file of the checkpoint: the config is the one beside it.
    const bool is_config = path.filename() == "config.json";
    const fs::path folder = fs::is_directory(path) ? path : path.has_parent_path() ? path.parent_path() : fs::path(".");
    const Config config(is_config ? path : folder / "config.json");
    const std::string model_type = config.text({"model_type"});
    const std::string score = config.text(kScore);
    const ModelRule* rule = rule_of(model_type);
    if (score.empty() && rule == nullptr) {
        fail(NVFP4R_UNSUPPORTED,
             "{}: model_type \"{}\" is unknown and scoring_func is absent: set the score function (--score)",
             config.file(), model_type);
    }
    nvfp4r_settings settings = NVFP4R_SETTINGS_INIT;
    settings.experts = experts_of(config);
    settings.hidden = config.whole(kHidden, 0);
    settings.top_k = config.whole(kTopK, 0);
    if (settings.experts == 0 || settings.hidden == 0 || settings.top_k == 0) {
        fail(NVFP4R_BAD_FILE, "{}: {} experts, hidden size {}, {} experts per token; all three are needed",
             config.file(), settings.experts, settings.hidden, settings.top_k);
    }
    settings.score = score.empty() ? rule->score : score_from_name(score, config.file());
    settings.weighting = rule ? rule->weighting : NVFP4R_WEIGHT_SCORE;
    settings.renormalise = config.flag(kRenormalise).value_or(rule && rule->renormalise) ? 1 : 0;
    settings.routed_scaling = config.number(kScaling, 1.0f);
    settings.groups = config.whole(kGroups, 0);
    settings.groups_kept = config.whole(kGroupsKept, 0);
    if (settings.groups <= 1) settings.groups = settings.groups_kept = 0;
    const std::string topk_method = config.text({"topk_method"});
    if (const std::optional<bool> stated = config.flag(kUseBias)) {
        settings.use_bias = *stated ? 1 : 0;
    } else if (rule != nullptr) {
        settings.use_bias = rule->use_bias ? 1 : 0;
    } else if (topk_method.empty()) {
        settings.use_bias = checkpoint_has_bias(folder) ? 1 : 0;
    }
    apply_topk_method(topk_method, config.file(), settings);
    const float temperature = config.number({"gate_temp"}, 1.0f);
    if (temperature != 1.0f) {
        fail(NVFP4R_UNSUPPORTED, "{}: gate_temp {}; only 1 is supported", config.file(), temperature);
    }
    return settings;
}

}  // namespace nvfp4r
