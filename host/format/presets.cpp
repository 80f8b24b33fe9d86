#include "format/presets.hpp"

#include <array>
#include <string>

#include "core/error.hpp"

namespace nvfp4r {
namespace {

struct Shape {
    uint32_t hidden, experts, top_k;
};

nvfp4r_settings scored(Shape shape, nvfp4r_score score, bool use_bias, bool renormalise, float scaling) {
    nvfp4r_settings s = NVFP4R_SETTINGS_INIT;
    s.hidden = shape.hidden;
    s.experts = shape.experts;
    s.top_k = shape.top_k;
    s.score = score;
    s.use_bias = use_bias ? 1 : 0;
    s.renormalise = renormalise ? 1 : 0;
    s.routed_scaling = scaling;
    return s;
}

/// Sigmoid with a selection bias, renormalised: what DeepSeek-V3 began and most later models kept.
nvfp4r_settings sigmoid(Shape shape, float scaling) {
    return scored(shape, NVFP4R_SCORE_SIGMOID, true, true, scaling);
}

nvfp4r_settings sqrtsoftplus(Shape shape, float scaling) {
    return scored(shape, NVFP4R_SCORE_SQRTSOFTPLUS, true, true, scaling);
}

nvfp4r_settings softmax(Shape shape, bool renormalise = true) {
    return scored(shape, NVFP4R_SCORE_SOFTMAX, false, renormalise, 1.0f);
}

/// Experts are ranked by the logit itself; the weight comes from the chosen logits alone.
nvfp4r_settings by_logit(Shape shape, nvfp4r_weighting weighting) {
    nvfp4r_settings s = scored(shape, NVFP4R_SCORE_IDENTITY, false, false, 1.0f);
    s.weighting = weighting;
    return s;
}

nvfp4r_settings grouped(nvfp4r_settings s, uint32_t groups, uint32_t kept) {
    s.groups = groups;
    s.groups_kept = kept;
    return s;
}

/// Selects by biased softmax but weighs without renormalising.
nvfp4r_settings longcat(Shape shape, float scaling) {
    return scored(shape, NVFP4R_SCORE_SOFTMAX, true, false, scaling);
}

constexpr const char* kMlpGate = "model.layers.%.mlp.gate.weight";
constexpr const char* kMlpGateBias = "model.layers.%.mlp.gate.e_score_correction_bias";
constexpr const char* kBlockSparseGate = "model.layers.%.block_sparse_moe.gate.weight";
constexpr const char* kBlockSparseBias = "model.layers.%.block_sparse_moe.e_score_correction_bias";
constexpr const char* kMixerGate = "backbone.layers.%.mixer.gate.weight";
constexpr const char* kMixerBias = "backbone.layers.%.mixer.gate.e_score_correction_bias";
constexpr const char* kFfnGate = "layers.%.ffn.gate.weight";
constexpr const char* kFfnBias = "layers.%.ffn.gate.bias";
constexpr const char* kFfnImageBias = "layers.%.ffn.gate.bias_vl";
constexpr const char* kFfnTable = "layers.%.ffn.gate.tid2eid";

// Rows in the order of the contract's section 6. Layer counts, vocabularies and bias centres serve `sample` only; those
// of models whose configuration is not public in full (kimi-k3, minimax-m3, nemotron-3-ultra, hunyuan-v3) are
// estimates.
const Preset kPresets[] = {
    {"deepseek-v4-pro", sqrtsoftplus({7168, 384, 6}, 2.5f), "DeepseekV4ForCausalLM", "deepseek_v4", kFfnGate, kFfnBias,
     nullptr, nullptr, kFfnTable, 3, 0, 61, 129280, 8.0f, NVFP4R_BF16, 1, 0},
    {"deepseek-v4-flash", sqrtsoftplus({4096, 256, 6}, 1.5f), "DeepseekV4ForCausalLM", "deepseek_v4", kFfnGate,
     kFfnBias, nullptr, nullptr, kFfnTable, 3, 0, 43, 129280, 8.0f, NVFP4R_BF16, 1, 0},
    {"deepseek-v4.1-flash", sqrtsoftplus({5120, 384, 6}, 1.5f), "DeepseekV41ForCausalLM", "deepseek_v41", kFfnGate,
     kFfnBias, nullptr, kFfnImageBias, nullptr, 0, 0, 43, 129280, 8.0f, NVFP4R_BF16, 1, 0},
    {"deepseek-v3", grouped(sigmoid({7168, 256, 8}, 2.5f), 8, 4), "DeepseekV3ForCausalLM", "deepseek_v3", kMlpGate,
     kMlpGateBias, nullptr, nullptr, nullptr, 0, 3, 61, 129280, 8.0f, NVFP4R_BF16, 1, 0},
    {"kimi-k2", sigmoid({7168, 384, 8}, 2.827f), "DeepseekV3ForCausalLM", "kimi_k2", kMlpGate, kMlpGateBias, nullptr,
     nullptr, nullptr, 0, 1, 61, 163840, 8.0f, NVFP4R_BF16, 1, 0},
    {"kimi-k3", sigmoid({7168, 896, 16}, 1.0f), "KimiK3ForCausalLM", "kimi_k3", kMlpGate, kMlpGateBias, nullptr,
     nullptr, nullptr, 0, 1, 93, 163840, 8.0f, NVFP4R_BF16, 1, 0},
    {"glm-5", sigmoid({6144, 256, 8}, 2.5f), "GlmMoeDsaForCausalLM", "glm_moe_dsa", kMlpGate, kMlpGateBias, nullptr,
     nullptr, nullptr, 0, 3, 78, 154880, 12.0f, NVFP4R_BF16, 1, 0},
    {"glm-4.5", sigmoid({5120, 160, 8}, 2.5f), "Glm4MoeForCausalLM", "glm4_moe", kMlpGate, kMlpGateBias, nullptr,
     nullptr, nullptr, 0, 3, 92, 151552, 0.0f, NVFP4R_BF16, 1, 0},
    {"minimax-m2.5", sigmoid({3072, 256, 8}, 1.0f), "MiniMaxM2ForCausalLM", "minimax_m2", kBlockSparseGate,
     kBlockSparseBias, nullptr, nullptr, nullptr, 0, 0, 62, 200064, 8.0f, NVFP4R_F32, 1, 0},
    {"minimax-m3", sigmoid({6144, 128, 4}, 2.0f), "MiniMaxM3ForCausalLM", "minimax_m3", kBlockSparseGate,
     kBlockSparseBias, nullptr, nullptr, nullptr, 0, 0, 60, 200064, 8.0f, NVFP4R_F32, 1, 0},
    {"qwen3-235b", softmax({4096, 128, 8}), "Qwen3MoeForCausalLM", "qwen3_moe", kMlpGate, nullptr, nullptr, nullptr,
     nullptr, 0, 0, 94, 151936, 0.0f, NVFP4R_BF16, 1, 0},
    {"qwen3-30b", softmax({2048, 128, 8}), "Qwen3MoeForCausalLM", "qwen3_moe", kMlpGate, nullptr, nullptr, nullptr,
     nullptr, 0, 0, 48, 151936, 0.0f, NVFP4R_BF16, 1, 0},
    {"qwen3-next", softmax({2048, 512, 10}), "Qwen3NextForCausalLM", "qwen3_next", kMlpGate, nullptr, nullptr, nullptr,
     nullptr, 0, 0, 48, 151936, 0.0f, NVFP4R_BF16, 1, 0},
    {"qwen3.5-397b", softmax({4096, 512, 10}), "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe",
     "model.language_model.layers.%.mlp.gate.weight", nullptr, nullptr, nullptr, nullptr, 0, 0, 60, 248320, 0.0f,
     NVFP4R_BF16, 1, 0},
    {"gpt-oss-120b", by_logit({2880, 128, 4}, NVFP4R_WEIGHT_SOFTMAX_AFTER), "GptOssForCausalLM", "gpt_oss",
     "model.layers.%.mlp.router.weight", nullptr, "model.layers.%.mlp.router.bias", nullptr, nullptr, 0, 0, 36, 201088,
     0.0f, NVFP4R_BF16, 1, 0},
    {"llama4-maverick", by_logit({5120, 128, 1}, NVFP4R_WEIGHT_SIGMOID_AFTER), "Llama4ForConditionalGeneration",
     "llama4", "language_model.model.layers.%.feed_forward.router.weight", nullptr, nullptr, nullptr, nullptr, 0, 1, 48,
     202048, 0.0f, NVFP4R_BF16, 2, 0},
    {"mixtral-8x22b", softmax({6144, 8, 2}), "MixtralForCausalLM", "mixtral", kBlockSparseGate, nullptr, nullptr,
     nullptr, nullptr, 0, 0, 56, 32000, 0.0f, NVFP4R_BF16, 1, 0},
    {"nemotron-3-nano", sigmoid({2688, 128, 6}, 2.5f), "NemotronHForCausalLM", "nemotron_h", kMixerGate, kMixerBias,
     nullptr, nullptr, nullptr, 0, 1, 52, 131072, 0.0f, NVFP4R_BF16, 2, 0},
    {"nemotron-3-ultra", sigmoid({8192, 512, 22}, 5.0f), "NemotronHForCausalLM", "nemotron_h", kMixerGate, kMixerBias,
     nullptr, nullptr, nullptr, 0, 1, 108, 131072, 0.0f, NVFP4R_BF16, 2, 0},
    {"step-3.5-flash", sigmoid({4096, 288, 8}, 3.0f), "Step3p5ForCausalLM", "step3p5", "model.layers.%.moe.gate.weight",
     "model.layers.%.moe.router_bias", nullptr, nullptr, nullptr, 0, 3, 45, 128896, 0.0f, NVFP4R_BF16, 1, 0},
    {"hunyuan-v3", sigmoid({4096, 192, 8}, 2.826f), "HYV3ForCausalLM", "hy_v3", "model.layers.%.mlp.router.gate.weight",
     "model.layers.%.mlp.expert_bias", nullptr, nullptr, nullptr, 0, 1, 80, 120832, 0.0f, NVFP4R_F32, 1, 0},
    {"mimo-v2-flash", sigmoid({4096, 256, 8}, 1.0f), "MiMoV2FlashForCausalLM", "mimo_v2_flash", kMlpGate, kMlpGateBias,
     nullptr, nullptr, nullptr, 0, 1, 48, 152576, 0.0f, NVFP4R_BF16, 1, 0},
    {"longcat-flash", longcat({6144, 768, 12}, 6.0f), "LongcatFlashForCausalLM", "longcat_flash",
     "model.layers.%.mlp.router.classifier.weight", "model.layers.%.mlp.router.e_score_correction_bias", nullptr,
     nullptr, nullptr, 0, 0, 28, 131072, 0.0f, NVFP4R_F32, 1, 256},
    {"olmoe", softmax({2048, 64, 8}, false), "OlmoeForCausalLM", "olmoe", kMlpGate, nullptr, nullptr, nullptr, nullptr,
     0, 0, 16, 50304, 0.0f, NVFP4R_BF16, 1, 0},
    {"ling-flash-2", grouped(sigmoid({4096, 256, 8}, 2.5f), 8, 4), "BailingMoeV2ForCausalLM", "bailing_moe", kMlpGate,
     "model.layers.%.mlp.gate.expert_bias", nullptr, nullptr, nullptr, 0, 1, 32, 157184, 0.0f, NVFP4R_BF16, 1, 0},
};

}  // namespace

std::span<const Preset> presets() {
    return kPresets;
}

const Preset& preset(std::string_view name) {
    std::string known;
    for (const Preset& p : kPresets) {
        if (name == p.name) return p;
        known += known.empty() ? "" : ", ";
        known += p.name;
    }
    fail(NVFP4R_INVALID_ARGUMENT, "preset \"{}\": unknown; the presets are {}", name, known);
}

}  // namespace nvfp4r
