#include <catch2/catch.hpp>
#include <cstring>

#include "format/checkpoint.hpp"
#include "format/presets.hpp"
#include "format/safetensors.hpp"
#include "scratch.hpp"

using namespace nvfp4r;
using namespace nvfp4r::test;

namespace {

nvfp4r_settings read(const std::string& text) {
    const Scratch scratch;
    scratch.write("config.json", text);
    return settings_from_config(scratch.folder());
}

std::string refused_config(const std::string& text) {
    return refusal([&] { read(text); });
}

std::string with(const std::string& more) {
    return R"({"n_routed_experts":256,"num_experts_per_tok":8,"hidden_size":7168)" + more + "}";
}

}  // namespace

TEST_CASE("DeepSeek-V3's config.json gives the preset's settings", "[format]") {
    const nvfp4r_settings s = read(with(
        R"(,"model_type":"deepseek_v3","scoring_func":"sigmoid","topk_method":"noaux_tc","n_group":8,"topk_group":4,)"
        R"("norm_topk_prob":true,"routed_scaling_factor":2.5,"hidden_act":"silu","num_local_experts":null)"));
    REQUIRE(std::memcmp(&s, &preset("deepseek-v3").settings, sizeof(s)) == 0);
}

TEST_CASE("D07 null means absent and an unknown scoring function is refused", "[format]") {
    const nvfp4r_settings s = read(with(
        R"(,"model_type":"kimi_k2","scoring_func":"sigmoid","n_group":null,"topk_group":null,"routed_scaling_factor":null)"));
    REQUIRE(s.groups == 0);
    REQUIRE(s.groups_kept == 0);
    REQUIRE(s.routed_scaling == 1.0f);
    REQUIRE(read(with(R"(,"model_type":"kimi_k2","n_group":1,"topk_group":1)")).groups == 0);
    REQUIRE(has(refused_config(with(R"(,"model_type":"kimi_k2","scoring_func":"tanh")")), "scoring function \"tanh\""));
    REQUIRE(has(refused_config(with(R"(,"scoring_func":"sigmoid","topk_method":"magic")")), "topk_method \"magic\""));
}

TEST_CASE("D07 the score is never guessed from an unknown model name", "[format]") {
    REQUIRE(has(refused_config(with(R"(,"model_type":"brand_new")")), "model_type \"brand_new\" is unknown"));
    REQUIRE(has(refused_config(with("")), "--score"));
    REQUIRE(read(with(R"(,"model_type":"brand_new","scoring_func":"softmax")")).score == NVFP4R_SCORE_SOFTMAX);
}

TEST_CASE("Where config.json is silent the model type decides", "[format]") {
    REQUIRE(read(with(R"(,"model_type":"qwen3_moe")")).score == NVFP4R_SCORE_SOFTMAX);
    REQUIRE(read(with(R"(,"model_type":"qwen3_moe")")).renormalise == 0);
    REQUIRE(read(with(R"(,"model_type":"mixtral")")).renormalise == 1);
    REQUIRE(read(with(R"(,"model_type":"gpt_oss")")).weighting == NVFP4R_WEIGHT_SOFTMAX_AFTER);
    REQUIRE(read(with(R"(,"model_type":"llama4")")).weighting == NVFP4R_WEIGHT_SIGMOID_AFTER);
    REQUIRE(read(with(R"(,"model_type":"deepseek_v4")")).score == NVFP4R_SCORE_SQRTSOFTPLUS);
    REQUIRE(read(with(R"(,"model_type":"minimax_m2","use_routing_bias":false)")).use_bias == 0);
    const nvfp4r_settings v2 =
        read(with(R"(,"model_type":"deepseek_v2","topk_method":"group_limited_greedy","n_group":8,"topk_group":3)"));
    REQUIRE(v2.group_score == NVFP4R_GROUP_MAX);
    REQUIRE(v2.use_bias == 0);
}

TEST_CASE("An unknown model with a bias in its checkpoint uses it", "[format]") {
    const Scratch scratch;
    scratch.write("config.json", with(R"(,"model_type":"brand_new","scoring_func":"sigmoid")"));
    std::vector<Tensor> tensors = {
        make_tensor("model.layers.0.mlp.gate.weight", NVFP4R_F32, {2, 16}, std::vector<float>(32))};
    write_safetensors(scratch / "model.safetensors", tensors);
    REQUIRE(settings_from_config(scratch.folder()).use_bias == 0);
    tensors.push_back(
        make_tensor("model.layers.0.mlp.gate.e_score_correction_bias", NVFP4R_F32, {2}, std::vector<float>(2)));
    write_safetensors(scratch / "model.safetensors", tensors);
    REQUIRE(settings_from_config(scratch.folder()).use_bias == 1);
    REQUIRE(settings_from_config(scratch / "config.json").use_bias == 1);
    REQUIRE(settings_from_config(scratch / "model.safetensors").use_bias == 1);
}

TEST_CASE("A text_config section stands before the keys around it", "[format]") {
    const nvfp4r_settings s =
        read(R"({"model_type":"qwen3_5_moe","hidden_size":1,"text_config":{"model_type":"qwen3_5_moe_text",)"
             R"("num_experts":512,"num_experts_per_tok":10,"hidden_size":4096}})");
    REQUIRE(s.experts == 512);
    REQUIRE(s.hidden == 4096);
    REQUIRE(s.top_k == 10);
}

TEST_CASE("LongCat's zero experts are experts of the router", "[format]") {
    const nvfp4r_settings s = read(
        R"({"model_type":"longcat_flash","n_routed_experts":512,"zero_expert_num":256,"moe_topk":12,"hidden_size":6144,)"
        R"("routed_scaling_factor":6.0})");
    REQUIRE(std::memcmp(&s, &preset("longcat-flash").settings, sizeof(s)) == 0);
}

TEST_CASE("Values of the wrong kind and missing ones are refused by key", "[format]") {
    const std::string type = R"(,"model_type":"qwen3_moe")";
    REQUIRE(has(refused_config(R"({"model_type":"qwen3_moe"})"), "all three are needed"));
    REQUIRE(has(refused_config(R"({"model_type":"qwen3_moe","num_experts":"many"})"), "num_experts is \"many\""));
    REQUIRE(has(refused_config(R"({"model_type":"qwen3_moe","num_experts":-4})"), "num_experts is -4"));
    REQUIRE(has(refused_config(R"({"model_type":"qwen3_moe","num_experts":4.5})"), "num_experts is 4.5"));
    REQUIRE(has(refused_config(R"({"model_type":"qwen3_moe","num_experts":18446744073709551615})"), "num_experts"));
    REQUIRE(has(refused_config(with(type + R"(,"routed_scaling_factor":"2.5")")), "routed_scaling_factor"));
    REQUIRE(has(refused_config(with(type + R"(,"routed_scaling_factor":1e300)")), "finite"));
    REQUIRE(has(refused_config(with(type + R"(,"norm_topk_prob":1)")), "true or false"));
    REQUIRE(has(refused_config(with(type + R"(,"gate_temp":2.0)")), "gate_temp"));
    REQUIRE(has(refused_config("{"), "config.json"));
    const Scratch empty;
    REQUIRE(has(refusal([&] { settings_from_config(empty.folder()); }), "cannot open"));
}
