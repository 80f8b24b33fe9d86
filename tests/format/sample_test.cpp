#include "format/sample.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "format/checkpoint.hpp"
#include "format/number.hpp"
#include "format/safetensors.hpp"
#include "scratch.hpp"

using namespace nvfp4r;
using namespace nvfp4r::test;

namespace {

constexpr nvfp4r_gate_options kSampleDefault = NVFP4R_GATE_OPTIONS_INIT;

}  // namespace

TEST_CASE("Presets: the contract's rows, legal settings, unknown names refused with the known ones", "[format]") {
    REQUIRE(presets().size() == 25);
    for (const Preset& p : presets()) {
        INFO(p.name);
        const nvfp4r_settings& s = p.settings;
        REQUIRE(s.hidden % 16 == 0);
        REQUIRE(s.experts <= NVFP4R_MAX_EXPERTS);
        REQUIRE(s.top_k <= NVFP4R_MAX_TOP_K);
        REQUIRE(s.score != NVFP4R_SCORE_UNSET);
        REQUIRE((s.groups == 0 || s.experts % s.groups == 0));
        REQUIRE((s.use_bias != 0) == (p.bias_name != nullptr));
        REQUIRE((p.hash_layers > 0) == (p.table_name != nullptr));
        REQUIRE(p.first_moe_layer < p.layers);
    }
    REQUIRE(preset("kimi-k3").settings.experts == 896);
    REQUIRE(preset("deepseek-v4-pro").settings.routed_scaling == 2.5f);
    const std::string text = refusal([] { preset("gpt-9"); });
    REQUIRE(has(text, "\"gpt-9\""));
    REQUIRE(has(text, "deepseek-v4-pro, "));
}

TEST_CASE("Every preset's sample reads back: its settings from config.json, its gate by layer", "[format]") {
    for (const Preset& p : presets()) {
        INFO(p.name);
        const Scratch scratch;
        write_sample(p, {.tokens = 3, .layers = 1, .seed = 1}, scratch.folder());
        const nvfp4r_settings s = settings_from_config(scratch.folder());
        REQUIRE(std::memcmp(&s, &p.settings, sizeof(s)) == 0);
        const std::vector<GateEntry> entries = list_gates(scratch.folder());
        REQUIRE(entries.size() == 1);
        REQUIRE(entries[0].layer == static_cast<int32_t>(p.first_moe_layer));
        const Gate gate = load_gate(scratch.folder(), entries[0].layer, kSampleDefault);
        REQUIRE(gate.experts == p.settings.experts);
        REQUIRE(gate.hidden == p.settings.hidden);
        REQUIRE(gate.weight_type == p.weight_type);
        REQUIRE(gate.bias.empty() == (p.bias_name == nullptr));
        REQUIRE(gate.linear_bias.empty() == (p.linear_bias_name == nullptr));
        REQUIRE(gate.image_bias.empty() == (p.image_bias_name == nullptr));
        REQUIRE(gate.notices.empty());
        if (!gate.bias.empty()) REQUIRE(gate.bias[0] == Approx(p.bias_centre).margin(0.5));
        if (p.hash_layers > 0) {
            REQUIRE(gate.vocabulary == p.vocabulary);
            REQUIRE(gate.table_k == p.settings.top_k);
            for (const int64_t id : gate.table) {
                if (id < 0 || id >= p.settings.experts) FAIL("table entry " << id);
            }
        }
        const Safetensors hidden(scratch / "hidden.safetensors");
        REQUIRE(hidden.tensor("hidden").shape == std::vector<uint64_t>{3, p.settings.hidden});
        REQUIRE((hidden.find("token_ids") != nullptr) == (p.hash_layers > 0));
    }
}

TEST_CASE("A sample of many layers has shards and an index, and hash tables only in the hash layers", "[format]") {
    const Scratch scratch;
    write_sample(preset("deepseek-v4-flash"), {.tokens = 1, .layers = 5, .seed = 0}, scratch.folder());
    REQUIRE(std::filesystem::exists(scratch / "model.safetensors.index.json"));
    const std::vector<GateEntry> entries = list_gates(scratch.folder());
    REQUIRE(entries.size() == 5);
    for (const GateEntry& entry : entries) REQUIRE(entry.table.empty() == (entry.layer >= 3));
    REQUIRE(load_gate(scratch.folder(), 4, kSampleDefault).bias.size() == 256);
}

TEST_CASE("Layers of a model whose routers are not in every layer keep its spacing", "[format]") {
    const Scratch scratch;
    write_sample(preset("llama4-maverick"), {.tokens = 1, .layers = 3, .seed = 0}, scratch.folder());
    std::vector<int32_t> layers;
    for (const GateEntry& entry : list_gates(scratch.folder())) layers.push_back(entry.layer);
    REQUIRE(layers == std::vector<int32_t>{1, 3, 5});
}

TEST_CASE("A sample looks like a gate: uneven experts, outlier channels, logits of a useful size", "[format]") {
    const Scratch scratch;
    write_sample(preset("qwen3-30b"), {.tokens = 64, .layers = 1, .seed = 3}, scratch.folder());
    const Gate gate = load_gate(scratch.folder(), 0, kSampleDefault);
    const std::vector<float> x = to_f32(Safetensors(scratch / "hidden.safetensors").tensor("hidden"), "f");
    const uint32_t k = gate.hidden;
    double sum = 0, squares = 0, least_norm = 1e30, largest_norm = 0;
    for (uint32_t e = 0; e < gate.experts; ++e) {
        double norm = 0;
        for (uint32_t i = 0; i < k; ++i) norm += std::pow(static_cast<double>(gate.weight[e * k + i]), 2);
        least_norm = std::min(least_norm, std::sqrt(norm));
        largest_norm = std::max(largest_norm, std::sqrt(norm));
        for (uint32_t t = 0; t < 64; ++t) {
            double logit = 0;
            for (uint32_t i = 0; i < k; ++i) {
                logit += static_cast<double>(x[t * k + i]) * static_cast<double>(gate.weight[e * k + i]);
            }
            sum += logit;
            squares += logit * logit;
        }
    }
    const double count = 64.0 * gate.experts;
    REQUIRE(std::fabs(sum / count) < 0.1);
    REQUIRE(std::sqrt(squares / count) == Approx(2.0).margin(0.4));
    REQUIRE(largest_norm / least_norm > 1.5);
    double largest_channel = 0;
    for (uint32_t i = 0; i < k; ++i) {
        double energy = 0;
        for (uint32_t t = 0; t < 64; ++t) energy += std::pow(static_cast<double>(x[t * k + i]), 2);
        largest_channel = std::max(largest_channel, std::sqrt(energy / 64));
    }
    REQUIRE(largest_channel > 4.0);
}

TEST_CASE("The same seed gives the same bytes, another seed others", "[format]") {
    const Scratch a, b, c;
    const Preset& p = preset("olmoe");
    write_sample(p, {.tokens = 2, .layers = 2, .seed = 9}, a.folder());
    write_sample(p, {.tokens = 2, .layers = 2, .seed = 9}, b.folder());
    write_sample(p, {.tokens = 2, .layers = 2, .seed = 10}, c.folder());
    for (const char* file : {"model.safetensors", "hidden.safetensors", "config.json"}) {
        REQUIRE(read_all(a / file) == read_all(b / file));
    }
    REQUIRE(read_all(a / "model.safetensors") != read_all(c / "model.safetensors"));
    // A layer does not depend on how many others there are.
    write_sample(p, {.tokens = 2, .layers = 1, .seed = 9}, a.folder());
    REQUIRE(load_gate(a.folder(), 0, kSampleDefault).weight == load_gate(b.folder(), 0, kSampleDefault).weight);
}

TEST_CASE("A sample is refused where it would mix with other files, and for layers that the model lacks", "[format]") {
    const Scratch scratch;
    const Preset& p = preset("olmoe");
    REQUIRE(has(refusal([&] { write_sample(p, {.tokens = 1, .layers = 17}, scratch.folder()); }), "olmoe has 1 to 16"));
    REQUIRE(has(refusal([&] { write_sample(p, {.tokens = 1, .layers = 0}, scratch.folder()); }), "0 layers"));
    REQUIRE(scratch.files() == 0);
    scratch.write("other.safetensors", "x");
    REQUIRE(has(refusal([&] { write_sample(p, {.tokens = 1}, scratch.folder()); }), "already holds other.safetensors"));
    REQUIRE(scratch.files() == 1);
}
