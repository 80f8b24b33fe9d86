#include "format/gate_names.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace nvfp4r {
namespace {

// In nn.Linear's naming <gate>.bias is added to the logit (gpt-oss); DeepSeek-V4 alone keeps its selection bias there.
const std::array<GateFamily, 11> kFamilies = {{
    {"ffn.gate", {"ffn.gate.bias"}, nullptr, "ffn.gate.bias_vl", "ffn.gate.tid2eid"},
    {"mlp.gate",
     {"mlp.gate.e_score_correction_bias", "mlp.gate.expert_bias"},
     "mlp.gate.bias",
     "mlp.gate.bias_vl",
     "mlp.gate.tid2eid"},
    {"block_sparse_moe.gate",
     {"block_sparse_moe.e_score_correction_bias", "block_sparse_moe.gate.e_score_correction_bias"},
     "block_sparse_moe.gate.bias",
     nullptr,
     nullptr},
    {"mixer.gate", {"mixer.gate.e_score_correction_bias"}, "mixer.gate.bias", nullptr, nullptr},
    {"mlp.router", {"mlp.router.e_score_correction_bias"}, "mlp.router.bias", nullptr, nullptr},
    {"mlp.router.gate", {"mlp.expert_bias", "mlp.router.expert_bias"}, "mlp.router.gate.bias", nullptr, nullptr},
    {"mlp.router.classifier", {"mlp.router.e_score_correction_bias"}, "mlp.router.classifier.bias", nullptr, nullptr},
    {"mlp.gate.wg", {}, nullptr, nullptr, nullptr},
    {"feed_forward.router", {}, "feed_forward.router.bias", nullptr, nullptr},
    {"moe.gate", {"moe.router_bias"}, "moe.gate.bias", nullptr, nullptr},
    {"gate", {"gate.e_score_correction_bias"}, "gate.bias", nullptr, nullptr},
}};

constexpr std::array<std::string_view, 6> kPrefixes = {
    "", "model.", "model.language_model.", "language_model.model.", "language_model.", "backbone."};

bool is_known_prefix(std::string_view prefix, std::string_view layer) {
    if (std::find(kPrefixes.begin(), kPrefixes.end(), prefix) != kPrefixes.end()) return true;
    return prefix == "model.layers." + std::string(layer) + ".model.";
}

}  // namespace

std::string gate_base(std::string_view tensor) {
    for (const std::string_view ending : {".weight", ".weight_packed"}) {
        if (tensor.ends_with(ending)) return std::string(tensor.substr(0, tensor.size() - ending.size()));
    }
    return "";
}

std::optional<GateName> parse_gate_name(std::string_view tensor) {
    constexpr std::string_view kLayers = "layers.";
    const std::string base = gate_base(tensor);
    const size_t at = base.rfind(kLayers);
    if (at == std::string::npos) return std::nullopt;
    const std::string_view rest = std::string_view(base).substr(at + kLayers.size());
    const size_t dot = rest.find('.');
    if (dot == std::string_view::npos) return std::nullopt;
    const std::string_view number = rest.substr(0, dot);
    GateName name;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), name.layer);
    if (error != std::errc() || end != number.data() + number.size() || name.layer < 0) return std::nullopt;
    if (!is_known_prefix(std::string_view(base).substr(0, at), number)) return std::nullopt;
    const std::string_view gate = rest.substr(dot + 1);
    const auto family = std::find_if(kFamilies.begin(), kFamilies.end(), [&](const auto& f) { return gate == f.gate; });
    if (family == kFamilies.end()) return std::nullopt;
    name.prefix = base.substr(0, at + kLayers.size() + dot + 1);
    name.family = &*family;
    return name;
}

}  // namespace nvfp4r
