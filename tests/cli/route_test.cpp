// sample, show, pack and route together: what one writes the next reads, and --check judges it.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "format/npy.hpp"
#include "format/number.hpp"
#include "format/presets.hpp"
#include "format/safetensors.hpp"
#include "process.hpp"

using namespace nvfp4r;
using namespace nvfp4r::test;

namespace {

/// A small model for tests of everything but the shape.
constexpr const char* kSmallPreset = "olmoe";

CliResult sample(const std::string& preset, const std::string& out, const std::string& tokens = "5") {
    CliResult result = run_cli({"sample", "--preset", preset, "--tokens", tokens, "--out", out, "--json"});
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    return result;
}

std::vector<std::string> route_arguments(const std::string& path, int layer, const std::string& hidden,
                                         const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"route",    path,  "--layer", std::to_string(layer), "--hidden", hidden,
                                          "--device", "cpu", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
}

size_t files_in(const TemporaryFolder& folder) {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder.path()), {}));
}

/// Copies a safetensors file with one tensor changed.
template <class Change>
void copy_changed(const std::string& from, const std::string& to, const std::string& name, Change change) {
    const Safetensors file(from);
    std::vector<Tensor> tensors;
    for (const TensorEntry& entry : file.entries()) {
        Tensor tensor = file.tensor(entry);
        if (tensor.name == name) change(tensor);
        tensors.push_back(tensor);
    }
    write_safetensors(to, tensors);
}

}  // namespace

TEST_CASE("every preset's sample is routed and passes its check", "[cli]") {
    for (const Preset& preset : presets()) {
        INFO(preset.name);
        const TemporaryFolder folder;
        const nlohmann::json made = sample(preset.name, folder / "model").json();
        const CliResult shown = run_cli({"show", folder / "model", "--json"});
        REQUIRE(shown.exit_code == 0);
        CHECK(shown.json().at("gates").size() == made.at("layers").size());
        const int layer = made.at("layers").back();
        const CliResult result =
            run_cli(route_arguments(folder / "model", layer, folder / "model/hidden.safetensors", {"--check"}));
        INFO(result.err);
        INFO(result.out);
        REQUIRE(result.exit_code == 0);
        const nlohmann::json json = result.json();
        CHECK(json.at("check") == "ok");
        CHECK(json.at("tokens") == 5);
        CHECK(json.at("settings").at("experts") == preset.settings.experts);
        CHECK(json.at("rows").at(4).at("experts").size() == preset.settings.top_k);
    }
}

TEST_CASE("hash layers route by the token ids beside the tokens", "[cli]") {
    const TemporaryFolder folder;
    sample("deepseek-v4-flash", folder / "model");
    const CliResult result =
        run_cli(route_arguments(folder / "model", 0, folder / "model/hidden.safetensors", {"--check"}));
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    CHECK(result.json().at("check") == "ok");
}

TEST_CASE("every precision passes its check", "[cli]") {
    const TemporaryFolder folder;
    sample("deepseek-v3", folder / "model");
    for (const char* precision : {"nvfp4", "nvfp4x2", "nvfp4x3", "nvfp4-w", "nvfp4x2-w", "rescore", "bf16"}) {
        INFO(precision);
        const CliResult result = run_cli(route_arguments(folder / "model", 3, folder / "model/hidden.safetensors",
                                                         {"--check", "--precision", precision}));
        INFO(result.err);
        REQUIRE(result.exit_code == 0);
        CHECK(result.json().at("check") == "ok");
    }
}

TEST_CASE("the hardware's arithmetic passes with its own margin", "[cli]") {
    const TemporaryFolder folder;
    sample(kSmallPreset, folder / "model");
    const CliResult result =
        run_cli(route_arguments(folder / "model", 0, folder / "model/hidden.safetensors",
                                {"--check", "--precision", "nvfp4x2", "--cpu-arithmetic", "hardware"}));
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    CHECK(result.json().at("check") == "ok");
}

TEST_CASE("packed gates are routed from under both conventions of names", "[cli]") {
    const TemporaryFolder folder;
    sample(kSmallPreset, folder / "model");
    for (const char* names : {"modelopt", "compressed-tensors"}) {
        INFO(names);
        const std::string file = folder / (std::string(names) + ".safetensors");
        const CliResult packed = run_cli({"pack", folder / "model", "--layer", "all", "--precision", "nvfp4x2",
                                          "--names", names, "--out", file, "--json"});
        INFO(packed.err);
        REQUIRE(packed.exit_code == 0);
        const nlohmann::json layer = packed.json().at("layers").at(0);
        // The contract's section 4: two terms leave about 1.5 % of logit error, one term 13 %.
        CHECK(layer.at("logit_error") > 0.001);
        CHECK(layer.at("logit_error") < 0.03);
        CHECK(layer.at("experts_kept") > 0.9);
        const CliResult shown = run_cli({"show", file, "--json"});
        CHECK(shown.json().at("gates").at(0).at("precision") == "nvfp4x2");

        const auto routed = [&](const std::string& path) {
            const CliResult result =
                run_cli(route_arguments(path, 0, folder / "model/hidden.safetensors",
                                        {"--check", "--preset", kSmallPreset, "--precision", "nvfp4x2"}));
            INFO(result.err);
            REQUIRE(result.exit_code == 0);
            CHECK(result.json().at("check") == "ok");
            return result.json().at("rows");
        };
        const nlohmann::json from_file = routed(file), from_model = routed(folder / "model");
        for (size_t row = 0; row < from_file.size(); ++row)
            CHECK(from_file[row].at("experts") == from_model[row].at("experts"));
    }
}

TEST_CASE("results are written as safetensors, npz and json", "[cli]") {
    const TemporaryFolder folder;
    sample(kSmallPreset, folder / "model");
    const auto routed = [&](const std::string& out) {
        const CliResult result = run_cli(route_arguments(
            folder / "model", 0, folder / "model/hidden.safetensors",
            {"--out", out, "--with", "logits,scores,tokens_per_expert,permutation,activations", "--top", "1"}));
        INFO(result.err);
        REQUIRE(result.exit_code == 0);
        CHECK(result.json().at("rows").size() == 1);
        return result.json().at("rows").at(0);
    };
    const nlohmann::json row = routed(folder / "out.safetensors");
    const Safetensors written(folder / "out.safetensors");
    const Tensor ids = written.tensor("ids");
    CHECK(ids.shape == std::vector<uint64_t>{5, 8});
    for (size_t i = 0; i < 8; ++i) CHECK(to_i64(ids, "out")[i] == row.at("experts").at(i));
    const std::vector<int64_t> counts = to_i64(written.tensor("tokens_per_expert"), "out");
    CHECK(std::accumulate(counts.begin(), counts.end(), int64_t{0}) == 5 * 8);
    CHECK(written.tensor("logits").shape == std::vector<uint64_t>{5, 64});

    routed(folder / "out.npz");
    CHECK(read_npz(folder / "out.npz", NVFP4R_F8_E4M3).size() == written.entries().size());
    routed(folder / "out.json");
    const nlohmann::json whole = nlohmann::json::parse(std::ifstream(folder / "out.json"));
    CHECK(whole.at("rows").size() == 5);
    CHECK(whole.at("rows").at(0) == row);
}

TEST_CASE("every setting of the configuration can be overridden", "[cli]") {
    const TemporaryFolder folder;
    sample(kSmallPreset, folder / "model");
    const CliResult result = run_cli(route_arguments(folder / "model", 0, folder / "model/hidden.safetensors",
                                                     {"--check",
                                                      "--top-k",
                                                      "4",
                                                      "--score",
                                                      "sigmoid",
                                                      "--renormalise",
                                                      "--renormalise-eps",
                                                      "0.5",
                                                      "--groups",
                                                      "8",
                                                      "--groups-kept",
                                                      "3",
                                                      "--group-score",
                                                      "max",
                                                      "--routed-scaling",
                                                      "1.5",
                                                      "--no-bias",
                                                      "--shared-slots",
                                                      "2",
                                                      "--shared-weight",
                                                      "0.25",
                                                      "--logit-soft-cap",
                                                      "2",
                                                      "--weighting",
                                                      "score",
                                                      "--batch-invariant",
                                                      "--precision",
                                                      "nvfp4",
                                                      "--block-rule",
                                                      "least-squares",
                                                      "--activation-scale",
                                                      "0.001"}));
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    const nlohmann::json json = result.json();
    CHECK(json.at("check") == "ok");
    const nlohmann::json expected = {{"experts", 64},
                                     {"hidden_size", 2048},
                                     {"top_k", 4},
                                     {"score", "sigmoid"},
                                     {"weighting", "score"},
                                     {"groups", 8},
                                     {"groups_kept", 3},
                                     {"group_score", "max"},
                                     {"renormalise", true},
                                     {"renormalise_eps", 0.5},
                                     {"routed_scaling", 1.5},
                                     {"logit_soft_cap", 2.0},
                                     {"bias", false},
                                     {"shared_slots", 2},
                                     {"shared_weight", 0.25},
                                     {"precision", "nvfp4"},
                                     {"block_rule", "least-squares"},
                                     {"batch_invariant", true}};
    for (const auto& [key, value] : expected.items()) {
        INFO(key);
        CHECK(json.at("settings").at(key) == value);
    }
    const nlohmann::json row = json.at("rows").at(0);
    CHECK(row.at("experts").at(4) == 64);
    CHECK(row.at("experts").at(5) == 65);
    CHECK(row.at("weights").at(5) == 0.25);
}

TEST_CASE("masks, counts, forced ids and replicas come from files", "[cli]") {
    const TemporaryFolder folder;
    sample(kSmallPreset, folder / "model");
    std::vector<int32_t> forced, replicas;
    for (int32_t i = 0; i < 5 * 8; ++i) forced.push_back((i * 7) % 64);
    for (int32_t e = 0; e < 64; ++e) replicas.insert(replicas.end(), {e, e % 2 ? 64 + e : -1});
    write_npy(folder / "forced.npy", make_tensor("", NVFP4R_I32, {5, 8}, forced));
    write_npy(folder / "replicas.npy", make_tensor("", NVFP4R_I32, {64, 2}, replicas));
    write_npy(folder / "mask.npy", make_tensor("", NVFP4R_U8, {5}, std::vector<uint8_t>{1, 0, 1, 1, 1}));
    const CliResult result =
        run_cli(route_arguments(folder / "model", 0, folder / "model/hidden.safetensors",
                                {"--check", "--forced-ids", folder / "forced.npy", "--mask", folder / "mask.npy",
                                 "--num-valid", "4", "--replicas", folder / "replicas.npy"}));
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    const nlohmann::json json = result.json();
    CHECK(json.at("check") == "ok");
    for (const size_t padding : {1u, 4u})
        for (const nlohmann::json& id : json.at("rows").at(padding).at("experts")) CHECK(id == -1);
    const nlohmann::json first = json.at("rows").at(0).at("experts");
    for (size_t i = 0; i < 8; ++i) {
        const int32_t logical = forced[i];
        // Slot (row + rank) mod count of the expert's replicas, as the public header says.
        CHECK(first.at(i) == (logical % 2 && i % 2 ? 64 + logical : logical));
    }
}

TEST_CASE("tokens are read as f32, f16, bf16 and NVFP4", "[cli]") {
    const TemporaryFolder folder;
    sample(kSmallPreset, folder / "model");
    const Safetensors source(folder / "model/hidden.safetensors");
    const Tensor bf16 = source.tensor("hidden");
    const std::vector<float> x = to_f32(bf16, "hidden");
    const auto experts = [&](const std::string& hidden) {
        const CliResult result = run_cli(route_arguments(folder / "model", 0, hidden, {"--check"}));
        INFO(result.err);
        REQUIRE(result.exit_code == 0);
        CHECK(result.json().at("check") == "ok");
        nlohmann::json ids;
        for (const nlohmann::json& row : result.json().at("rows")) ids.push_back(row.at("experts"));
        return ids;
    };
    const nlohmann::json expected = experts(folder / "model/hidden.safetensors:hidden");
    write_npy(folder / "f32.npy", make_tensor("", NVFP4R_F32, bf16.shape, x));
    CHECK(experts(folder / "f32.npy") == expected);
    write_npz(folder / "two.npz", std::vector<Tensor>{make_tensor("tokens", NVFP4R_F32, bf16.shape, x),
                                                      make_tensor("other", NVFP4R_F32, {1}, std::vector<float>{0})});
    CHECK(experts(folder / "two.npz:tokens") == expected);
    Tensor raw = bf16;
    write_npy(folder / "bf16.npy", raw);
    CHECK(experts(folder / "bf16.npy") == expected);

    const std::string activations = folder / "activations.safetensors";
    REQUIRE(run_cli(route_arguments(folder / "model", 0, folder / "f32.npy",
                                    {"--out", activations, "--with", "activations"}))
                .exit_code == 0);
    experts(activations + ":activations");
}

TEST_CASE("contents that do not fit are refused by name, and nothing is written", "[cli]") {
    const TemporaryFolder folder;
    sample(kSmallPreset, folder / "model");
    const std::string hidden = folder / "model/hidden.safetensors";
    write_npy(folder / "narrow.npy", make_tensor("", NVFP4R_F32, {1, 64}, std::vector<float>(64)));
    write_npy(folder / "ids.npy", make_tensor("", NVFP4R_I32, {3}, std::vector<int32_t>{0, 1, 2}));
    const size_t before = files_in(folder);
    const auto refused = [&](std::vector<std::string> arguments, int exit_code, const std::string& word) {
        arguments.insert(arguments.end(), {"--out", folder / "out.safetensors"});
        const CliResult result = run_cli(arguments);
        INFO(result.err);
        CHECK(result.exit_code == exit_code);
        CHECK(result.out.empty());
        CHECK(result.err.find(word) != std::string::npos);
        CHECK(files_in(folder) == before);
    };
    refused(route_arguments(folder / "model", 0, folder / "narrow.npy"), 3, "2048");
    refused(route_arguments(folder / "model", 0, folder / "absent.npy"), 3, "absent.npy");
    refused(route_arguments(folder / "model", 0, hidden + ":absent"), 3, "hidden");
    refused(route_arguments(folder / "model", 99, hidden), 3, "99");
    refused(route_arguments(folder / "model", 0, hidden, {"--forced-ids", folder / "ids.npy"}), 3, "ids.npy");
    refused(route_arguments(folder / "model", 0, hidden, {"--top-k", "65"}), 2, "65");
    refused(route_arguments(folder / "model", 0, hidden, {"--groups", "7", "--groups-kept", "2"}), 2, "7");
    refused(route_arguments(folder / "model", 0, hidden, {"--experts", "63"}), 2, "63");
    refused(route_arguments(folder / "model", 0, hidden, {"--preset", "mixtral-8x22b"}), 2, "experts 8");
    refused({"pack", folder / "model", "--layer", "99", "--precision", "nvfp4"}, 3, "99");
}

TEST_CASE("D11 a layer without a router is refused with the first that has one, on the command line", "[cli]") {
    const TemporaryFolder folder;
    sample("deepseek-v3", folder / "model", "1");
    const CliResult result = run_cli(route_arguments(folder / "model", 0, folder / "model/hidden.safetensors"));
    CHECK(result.exit_code == 3);
    CHECK(result.err.find("layer 0 has no router; first is 3") != std::string::npos);
}

TEST_CASE("D07 an unknown scoring function in config.json is refused by name, on the command line", "[cli]") {
    const TemporaryFolder folder;
    sample("deepseek-v3", folder / "model", "1");
    nlohmann::json config = nlohmann::json::parse(std::ifstream(folder / "model/config.json"));
    config["scoring_func"] = "entropy";
    std::ofstream(folder / "model/config.json") << config;
    const CliResult result = run_cli(route_arguments(folder / "model", 3, folder / "model/hidden.safetensors"));
    CHECK(result.exit_code == 4);
    CHECK(result.err.find("entropy") != std::string::npos);
}

TEST_CASE("D17 a truncated file is refused, on the command line", "[cli]") {
    const TemporaryFolder folder;
    sample(kSmallPreset, folder / "model", "1");
    const std::string file = folder / "model/model.safetensors";
    std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
    const CliResult result = run_cli({"show", folder / "model"});
    CHECK(result.exit_code == 3);
    CHECK(result.err.find("model.safetensors") != std::string::npos);
}

TEST_CASE("D05 a bf16 bias is widened with a notice, or refused on request, on the command line", "[cli]") {
    const TemporaryFolder folder;
    sample("glm-4.5", folder / "model", "1");
    const std::string bias =
        run_cli({"show", folder / "model", "--json"}).json().at("gates").at(0).at("selection_bias");
    const nlohmann::json shown = run_cli({"show", folder / "model", "--json"}).json().at("gates").at(0);
    const int layer = shown.at("layer");
    const std::string file = folder / "bf16.safetensors";
    copy_changed(folder / "model/model.safetensors", file, bias, [](Tensor& tensor) {
        std::vector<uint16_t> narrow;
        for (const float value : to_f32(tensor, "bias")) narrow.push_back(f32_to_bf16(value));
        tensor = make_tensor(tensor.name, NVFP4R_BF16, tensor.shape, narrow);
    });
    std::vector<std::string> arguments =
        route_arguments(file, layer, folder / "model/hidden.safetensors", {"--preset", "glm-4.5", "--check"});
    const CliResult widened = run_cli(arguments);
    CHECK(widened.exit_code == 0);
    CHECK(widened.err.find("note:") != std::string::npos);
    arguments.push_back("--refuse-bf16-bias");
    CHECK(run_cli(arguments).exit_code == 3);
}

TEST_CASE("no tokens are routed to no rows", "[cli]") {
    const TemporaryFolder folder;
    sample(kSmallPreset, folder / "model", "1");
    write_npy(folder / "none.npy", make_tensor("", NVFP4R_F32, {0, 2048}, std::vector<float>()));
    const CliResult result = run_cli(route_arguments(folder / "model", 0, folder / "none.npy", {"--check"}));
    INFO(result.err);
    CHECK(result.exit_code == 0);
    CHECK(result.json().at("rows").empty());
}
