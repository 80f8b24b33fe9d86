#include "format/checkpoint.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "format/gate_names.hpp"
#include "format/number.hpp"
#include "format/packed_gate.hpp"
#include "format/safetensors.hpp"
#include "scratch.hpp"

using namespace nvfp4r;
using namespace nvfp4r::test;

namespace {

constexpr nvfp4r_gate_options kCheckpointDefault = NVFP4R_GATE_OPTIONS_INIT;
const std::string kGate = "model.layers.3.mlp.gate";

std::vector<float> ramp(size_t n) {
    std::vector<float> values(n);
    for (size_t i = 0; i < n; ++i) values[i] = static_cast<float>(static_cast<int>(i % 13) - 6) * 0.25f;
    return values;
}

Tensor f32(const std::string& name, std::vector<uint64_t> shape, std::vector<float> values) {
    return make_tensor(name, NVFP4R_F32, std::move(shape), std::move(values));
}

Tensor bf16(const std::string& name, std::vector<uint64_t> shape, const std::vector<float>& values) {
    std::vector<uint16_t> bits;
    for (const float v : values) bits.push_back(f32_to_bf16(v));
    return make_tensor(name, NVFP4R_BF16, std::move(shape), std::move(bits));
}

Tensor plain_gate(const std::string& base = kGate, uint64_t experts = 8, uint64_t hidden = 64) {
    return bf16(base + ".weight", {experts, hidden}, ramp(experts * hidden));
}

std::string load_refusal(const std::filesystem::path& path, int32_t layer = 3,
                         const nvfp4r_gate_options& options = kCheckpointDefault) {
    return refusal([&] { load_gate(path, layer, options); });
}

/// Writes the tensors as one model.safetensors and says why loading layer 3 is refused.
std::string refused_checkpoint(const std::vector<Tensor>& tensors,
                               const nvfp4r_gate_options& options = kCheckpointDefault) {
    const Scratch scratch;
    write_safetensors(scratch / "model.safetensors", tensors);
    return load_refusal(scratch.folder(), 3, options);
}

Gate loaded(const std::vector<Tensor>& tensors, const nvfp4r_gate_options& options = kCheckpointDefault) {
    const Scratch scratch;
    write_safetensors(scratch / "model.safetensors", tensors);
    return load_gate(scratch.folder(), 3, options);
}

std::vector<Nvfp4Matrix> terms_of(uint32_t terms) {
    const std::vector<float> w = ramp(8 * 64);
    return quantise_terms(w.data(), 8, 64, 64, terms, NVFP4R_BLOCK_AMAX, "w");
}

Tensor replaced(Tensor tensor, std::vector<uint8_t> bytes) {
    return make_tensor(tensor.name, tensor.type, tensor.shape, std::move(bytes));
}

bool noticed(const Gate& gate, std::string_view part) {
    for (const std::string& notice : gate.notices) {
        if (has(notice, part)) return true;
    }
    return false;
}

std::string index_text(std::initializer_list<std::pair<std::string, std::string>> map) {
    std::string text;
    for (const auto& [tensor, file] : map) {
        text += fmt::format("{}\"{}\":\"{}\"", text.empty() ? "" : ",", tensor, file);
    }
    return "{\"metadata\":{},\"weight_map\":{" + text + "}}";
}

constexpr const char* kIndex = "model.safetensors.index.json";

}  // namespace

TEST_CASE("Every gate name of the contract is found, with its companions", "[format]") {
    struct Case {
        std::string gate, bias, linear_bias, image_bias, table;
    };
    const std::vector<Case> cases = {
        {"layers.3.ffn.gate", "layers.3.ffn.gate.bias", "", "layers.3.ffn.gate.bias_vl", "layers.3.ffn.gate.tid2eid"},
        {"model.layers.3.mlp.gate", "model.layers.3.mlp.gate.e_score_correction_bias", "", "", ""},
        {"model.language_model.layers.3.mlp.gate", "", "", "", ""},
        {"model.layers.3.mlp.gate", "model.layers.3.mlp.gate.expert_bias", "", "", ""},
        {"model.layers.3.block_sparse_moe.gate", "model.layers.3.block_sparse_moe.e_score_correction_bias", "", "", ""},
        {"backbone.layers.3.mixer.gate", "backbone.layers.3.mixer.gate.e_score_correction_bias", "", "", ""},
        {"model.layers.3.mlp.router", "", "model.layers.3.mlp.router.bias", "", ""},
        {"model.layers.3.mlp.router.gate", "model.layers.3.mlp.expert_bias", "", "", ""},
        {"model.layers.3.mlp.router.classifier", "model.layers.3.mlp.router.e_score_correction_bias", "", "", ""},
        {"language_model.model.layers.3.feed_forward.router", "", "", "", ""},
        {"model.layers.3.moe.gate", "model.layers.3.moe.router_bias", "", "", ""},
    };
    for (const Case& c : cases) {
        INFO(c.gate);
        std::vector<Tensor> tensors = {plain_gate(c.gate)};
        for (const std::string& name : {c.bias, c.linear_bias, c.image_bias}) {
            if (!name.empty()) tensors.push_back(f32(name, {8}, ramp(8)));
        }
        if (!c.table.empty()) tensors.push_back(make_tensor<int64_t>(c.table, NVFP4R_I64, {4, 1}, {0, 3, 7, 9}));
        const Scratch scratch;
        write_safetensors(scratch / "model.safetensors", tensors);
        const std::vector<GateEntry> entries = list_gates(scratch.folder());
        REQUIRE(entries.size() == 1);
        REQUIRE(entries[0].layer == 3);
        REQUIRE(entries[0].tensor == c.gate + ".weight");
        REQUIRE(entries[0].bias == c.bias);
        REQUIRE(entries[0].linear_bias == c.linear_bias);
        REQUIRE(entries[0].image_bias == c.image_bias);
        REQUIRE(entries[0].table == c.table);
        const Gate gate = load_gate(scratch.folder(), 3, kCheckpointDefault);
        REQUIRE(gate.experts == 8);
        REQUIRE(gate.hidden == 64);
        REQUIRE(gate.weight == ramp(8 * 64));
        REQUIRE(gate.bias == (c.bias.empty() ? std::vector<float>() : ramp(8)));
        REQUIRE(gate.linear_bias == (c.linear_bias.empty() ? std::vector<float>() : ramp(8)));
        REQUIRE(gate.image_bias == (c.image_bias.empty() ? std::vector<float>() : ramp(8)));
        REQUIRE(gate.table == (c.table.empty() ? std::vector<int64_t>() : std::vector<int64_t>{0, 3, 7, 9}));
    }
}

TEST_CASE("Experts' own gates and draft layers are not routers", "[format]") {
    for (const char* name : {"model.layers.3.mlp.experts.0.gate_proj.weight", "mtp.layers.3.mlp.gate.weight",
                             "model.layers.3.mlp.shared_expert_gate.weight", "mtp.0.ffn.gate.weight",
                             "model.layers.x.mlp.gate.weight", "model.layers.-3.mlp.gate.weight",
                             "model.layers.3.mlp.gate.weight_scale", "vision.layers.3.mlp.gate.weight"}) {
        INFO(name);
        REQUIRE(!parse_gate_name(name));
    }
}

TEST_CASE("D01 a gate stored [hidden, experts] is refused when config.json knows better", "[format]") {
    const Scratch scratch;
    const std::vector<Tensor> transposed = {plain_gate(kGate, 64, 16)};
    write_safetensors(scratch / "model.safetensors", transposed);
    REQUIRE(load_refusal(scratch.folder()) == "");
    scratch.write("config.json", R"({"num_experts":16,"hidden_size":64})");
    const std::string text = load_refusal(scratch.folder());
    REQUIRE(has(text, "is [64, 16]; config.json says 16 experts and hidden size 64"));
    REQUIRE(has(text, "transpose it"));
    scratch.write("config.json", R"({"num_experts":64,"hidden_size":32})");
    REQUIRE(has(load_refusal(scratch.folder()), "hidden size 32"));
}

TEST_CASE("D01 a square gate is taken as [experts, hidden]", "[format]") {
    const Gate gate = loaded({plain_gate(kGate, 64, 64)});
    REQUIRE(gate.weight == ramp(64 * 64));
}

TEST_CASE("D02 a bf16, f16 or f32 gate in an NVFP4 checkpoint is used as it is", "[format]") {
    std::vector<uint16_t> halves;
    for (const float v : ramp(8 * 64)) halves.push_back(f32_to_f16(v));
    const std::vector<Tensor> gates = {plain_gate(), f32(kGate + ".weight", {8, 64}, ramp(8 * 64)),
                                       make_tensor(kGate + ".weight", NVFP4R_F16, {8, 64}, halves)};
    for (const Tensor& tensor : gates) {
        const Gate gate = loaded({tensor, f32("model.layers.3.mlp.experts.0.weight_scale_2", {}, {1.0f})});
        REQUIRE(gate.weight_type == tensor.type);
        REQUIRE(gate.terms.empty());
        REQUIRE(gate.weight == ramp(8 * 64));
    }
}

TEST_CASE("D04 an FP8 gate with weight_scale_inv is refused by name", "[format]") {
    const std::string text =
        refused_checkpoint({make_tensor(kGate + ".weight", NVFP4R_F8_E4M3, {8, 64}, std::vector<uint8_t>(512, 0x38)),
                            f32(kGate + ".weight_scale_inv", {1, 1}, {0.5f})});
    REQUIRE(has(text, kGate + ".weight"));
    REQUIRE(has(text, "F8_E4M3"));
}

TEST_CASE("D05 a selection bias keeps its f32 bits; a bf16 one is widened with a notice or refused", "[format]") {
    const std::string name = kGate + ".e_score_correction_bias";
    std::vector<float> bias(8, 12.0f);
    bias[1] = 12.01f;
    const Gate exact = loaded({plain_gate(), f32(name, {8}, bias)});
    REQUIRE(exact.bias == bias);
    REQUIRE(exact.notices.empty());
    const Gate widened = loaded({plain_gate(), bf16(name, {8}, bias)});
    REQUIRE(widened.bias[1] == 12.0f);
    REQUIRE(noticed(widened, "widened from BF16"));
    nvfp4r_gate_options strict = kCheckpointDefault;
    strict.refuse_bf16_bias = 1;
    REQUIRE(has(refused_checkpoint({plain_gate(), bf16(name, {8}, bias)}, strict), name));
    REQUIRE(loaded({plain_gate(), f32(name, {1, 8}, bias)}).bias == bias);
    REQUIRE(has(refused_checkpoint({plain_gate(), f32(name, {7}, ramp(7))}), "shape [7]; [8] is needed"));
    bias[2] = -std::numeric_limits<float>::infinity();
    REQUIRE(noticed(loaded({plain_gate(), f32(name, {8}, bias)}), "-inf at expert 2"));
}

TEST_CASE("D08 two gates for one layer are refused, both named", "[format]") {
    const std::vector<std::string> others = {"model.language_model.layers.3.mlp.gate", "layers.3.ffn.gate",
                                             "model.layers.3.model.layers.3.mlp.gate", "model.layers.3.mlp.router"};
    for (const std::string& other : others) {
        const std::string text = refused_checkpoint({plain_gate(), plain_gate(other)});
        REQUIRE(has(text, "\"" + kGate + ".weight\""));
        REQUIRE(has(text, "\"" + other + ".weight\""));
    }
    nvfp4r_gate_options named = kCheckpointDefault;
    const std::string choice = others[0] + ".weight";
    named.tensor = choice.c_str();
    REQUIRE(loaded({plain_gate(), plain_gate(others[0])}, named).tensor == choice);
}

TEST_CASE("A gate of an unknown name is taken when named, and refused as such otherwise", "[format]") {
    REQUIRE(has(refused_checkpoint({plain_gate("my.gate")}), "no router under any known name"));
    nvfp4r_gate_options named = kCheckpointDefault;
    named.tensor = "my.gate.weight";
    const Gate gate = loaded({plain_gate("my.gate")}, named);
    REQUIRE(gate.layer == 3);
    REQUIRE(gate.weight == ramp(8 * 64));
    named.tensor = "other.weight";
    REQUIRE(has(refused_checkpoint({plain_gate("my.gate")}, named), "no tensor \"other.weight\""));
}

TEST_CASE("D10 a hash table is read as I64 and as I32, other shapes and types are refused", "[format]") {
    const std::string base = "layers.3.ffn.gate";
    const Gate wide =
        loaded({plain_gate(base), make_tensor<int64_t>(base + ".tid2eid", NVFP4R_I64, {2, 3}, {0, 1, 2, 5, -1, 4096}),
                f32(base + ".bias", {8}, ramp(8))});
    REQUIRE(wide.vocabulary == 2);
    REQUIRE(wide.table_k == 3);
    // Entries outside [0, E) are the router's to flag, row by row (contract section 3).
    REQUIRE(wide.table == std::vector<int64_t>{0, 1, 2, 5, -1, 4096});
    REQUIRE(wide.bias.size() == 8);
    REQUIRE(loaded({plain_gate(base), make_tensor<int32_t>(base + ".tid2eid", NVFP4R_I32, {1, 2}, {6, 7})}).table ==
            std::vector<int64_t>{6, 7});
    REQUIRE(has(refused_checkpoint({plain_gate(base), f32(base + ".tid2eid", {2, 3}, ramp(6))}), "I32 or I64"));
    REQUIRE(has(refused_checkpoint(
                    {plain_gate(base), make_tensor<int32_t>(base + ".tid2eid", NVFP4R_I32, {6}, {1, 2, 3, 4, 5, 6})}),
                "[6]"));
}

TEST_CASE("D11 a layer without a router is refused with the first that has one", "[format]") {
    const Scratch scratch;
    const std::vector<Tensor> tensors = {plain_gate(), plain_gate("model.layers.12.mlp.gate")};
    write_safetensors(scratch / "model.safetensors", tensors);
    REQUIRE(has(load_refusal(scratch.folder(), 0), "layer 0 has no router; first is 3"));
    REQUIRE(has(load_refusal(scratch.folder(), 13), "last is 12"));
    REQUIRE(load_gate(scratch.folder(), 12, kCheckpointDefault).layer == 12);
}

TEST_CASE("D12 D16 missing shards are counted and named", "[format]") {
    const Scratch scratch;
    const std::vector<Tensor> tensors = {plain_gate()};
    write_safetensors(scratch / "a.safetensors", tensors);
    scratch.write(kIndex,
                  index_text({{kGate + ".weight", "a.safetensors"}, {"x", "b.safetensors"}, {"y", "c.safetensors"}}));
    REQUIRE(
        has(load_refusal(scratch.folder()), "3 files are named, 1 are there; missing: b.safetensors, c.safetensors"));
}

TEST_CASE("D13 a router tensor that the index does not name is refused, never replaced by a default", "[format]") {
    const Scratch scratch;
    const std::string bias = kGate + ".e_score_correction_bias";
    const std::vector<Tensor> tensors = {plain_gate(), f32(bias, {8}, ramp(8)), f32("unrelated", {1}, {0.0f})};
    write_safetensors(scratch / "a.safetensors", tensors);
    scratch.write(kIndex, index_text({{kGate + ".weight", "a.safetensors"}}));
    const std::string text = load_refusal(scratch.folder());
    REQUIRE(has(text, bias));
    REQUIRE(has(text, "not in the index"));
    scratch.write(kIndex, index_text({{kGate + ".weight", "a.safetensors"}, {bias, "a.safetensors"}}));
    REQUIRE(load_gate(scratch.folder(), 3, kCheckpointDefault).bias.size() == 8);
}

TEST_CASE("D14 a stale index is refused; without an index the headers are read, from one file or several", "[format]") {
    const Scratch scratch;
    const std::vector<Tensor> first = {plain_gate()}, second = {plain_gate("model.layers.4.mlp.gate")};
    write_safetensors(scratch / "model-00001-of-00002.safetensors", first);
    REQUIRE(load_gate(scratch.folder(), 3, kCheckpointDefault).experts == 8);
    REQUIRE(load_gate(scratch / "model-00001-of-00002.safetensors", 3, kCheckpointDefault).experts == 8);
    write_safetensors(scratch / "model-00002-of-00002.safetensors", second);
    REQUIRE(list_gates(scratch.folder()).size() == 2);
    scratch.write(kIndex, index_text({{kGate + ".weight", "model-00002-of-00002.safetensors"},
                                      {"x", "model-00001-of-00002.safetensors"}}));
    const std::string text = load_refusal(scratch.folder());
    REQUIRE(has(text, "stale index"));
    REQUIRE(has(text, "said to be in model-00002-of-00002.safetensors, it is in model-00001-of-00002.safetensors"));
    scratch.write(kIndex, index_text({{kGate + ".weight", "model-00001-of-00002.safetensors"},
                                      {"model.layers.9.mlp.gate.weight", "model-00001-of-00002.safetensors"}}));
    REQUIRE(has(load_refusal(scratch / kIndex, 9), "it is in none of the files"));
}

TEST_CASE("D14 a router in two files of a folder is refused, both named; other tensors may repeat", "[format]") {
    const Scratch scratch;
    const std::vector<Tensor> gate = {plain_gate(), f32("out", {1}, {1.0f})}, result = {f32("out", {1}, {1.0f})};
    write_safetensors(scratch / "a.safetensors", gate);
    write_safetensors(scratch / "b.safetensors", result);
    REQUIRE(load_refusal(scratch.folder()) == "");
    write_safetensors(scratch / "b.safetensors", gate);
    const std::string text = load_refusal(scratch.folder());
    REQUIRE(has(text, "a.safetensors"));
    REQUIRE(has(text, "b.safetensors"));
}

TEST_CASE("D17 a truncated shard is refused with the bytes that it needs", "[format]") {
    const Scratch scratch;
    const std::vector<Tensor> tensors = {plain_gate()};
    const auto path = scratch / "model.safetensors";
    write_safetensors(path, tensors);
    const auto size = std::filesystem::file_size(path);
    std::filesystem::resize_file(path, size - 500);
    REQUIRE(has(load_refusal(scratch.folder()),
                fmt::format("\"{}.weight\" needs bytes {}..{}, file has {}", kGate, size - 1024, size, size - 500)));
}

TEST_CASE("An index that leads elsewhere or is no index is refused", "[format]") {
    const Scratch scratch;
    for (const char* name : {"../secret.safetensors", "/etc/passwd", "", "..", "a/b"}) {
        scratch.write(kIndex, index_text({{"x", name}}));
        REQUIRE(has(load_refusal(scratch.folder()), "not a plain file name"));
    }
    scratch.write(kIndex, R"({"weight_map":{"x":7}})");
    REQUIRE(has(load_refusal(scratch.folder()), "x has no file name"));
    scratch.write(kIndex, R"({"metadata":{}})");
    REQUIRE(has(load_refusal(scratch.folder()), "no weight_map"));
    scratch.write(kIndex, R"({"weight_map":{"x":"a","x":"b"}})");
    REQUIRE(has(load_refusal(scratch.folder()), "appears twice"));
    scratch.write(kIndex, std::string(1'000'000, '['));
    REQUIRE(has(load_refusal(scratch.folder()), "deeper"));
    scratch.write(kIndex, "[]");
    REQUIRE(has(load_refusal(scratch.folder()), "not a JSON object"));
    scratch.write(kIndex, "{\"a\":\"\xff\"}");
    REQUIRE(load_refusal(scratch.folder()) != "");
    REQUIRE(has(load_refusal(scratch / "absent"), "no such file"));
    const Scratch empty;
    REQUIRE(has(load_refusal(empty.folder()), "no .safetensors file"));
}

TEST_CASE("A gate's odd values and sizes are refused by name and position", "[format]") {
    for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
        std::vector<float> w = ramp(8 * 64);
        w[2 * 64 + 5] = bad;
        REQUIRE(has(refused_checkpoint({f32(kGate + ".weight", {8, 64}, w)}), "at expert 2, column 5"));
        REQUIRE(has(refused_checkpoint({bf16(kGate + ".weight", {8, 64}, w)}), "at expert 2, column 5"));
    }
    REQUIRE(has(refused_checkpoint({f32(kGate + ".weight", {512}, ramp(512))}), "shape [512]"));
    REQUIRE(has(refused_checkpoint({f32(kGate + ".weight", {2049, 16}, ramp(2049 * 16))}), "2049 experts"));
    REQUIRE(has(refused_checkpoint({f32(kGate + ".weight", {0, 16}, {})}), "0 experts"));
    REQUIRE(has(refused_checkpoint({f32(kGate + ".weight", {8, 40}, ramp(320))}),
                "hidden size 40 is not a multiple of 16"));
    REQUIRE(has(refused_checkpoint({make_tensor(kGate + ".weight", NVFP4R_I32, {8, 16}, std::vector<int32_t>(128))}),
                "I32"));
}

TEST_CASE("D22 a gate of an unknown dtype is refused by name", "[format]") {
    const Scratch scratch;
    const std::string header =
        R"({"model.layers.3.mlp.gate.weight":{"dtype":"F4","shape":[8,64],"data_offsets":[0,256]}})";
    scratch.write("model.safetensors", safetensors_bytes(header, 256));
    REQUIRE(has(load_refusal(scratch.folder()), "dtype F4"));
}

TEST_CASE("B01 both global-scale conventions give the same gate, as a scalar and as [1]", "[format]") {
    const std::vector<Nvfp4Matrix> terms = terms_of(1);
    const std::vector<Tensor> modelopt = packed_tensors(kGate, terms, 0.5f, PackedNames::kModelOpt);
    std::vector<Tensor> divided = packed_tensors(kGate, terms, 0.5f, PackedNames::kCompressedTensors);
    REQUIRE(to_f32(divided[2], "f")[0] == Approx(1.0f / terms[0].global_scale));
    for (const std::vector<Tensor>& tensors : {modelopt, divided}) {
        const Gate gate = loaded(tensors);
        REQUIRE(gate.weight_type == NVFP4R_E2M1);
        REQUIRE(gate.terms[0].codes == terms[0].codes);
        REQUIRE(gate.terms[0].scales == terms[0].scales);
        REQUIRE(gate.terms[0].global_scale == Approx(terms[0].global_scale).epsilon(1e-7));
        REQUIRE(gate.input_scale == 0.5f);
        REQUIRE(gate.weight.empty());
    }
    // Four as a multiplier is a quarter as a divisor, in either shape.
    for (const std::vector<uint64_t>& shape : {std::vector<uint64_t>{}, std::vector<uint64_t>{1}}) {
        std::vector<Tensor> tensors = modelopt;
        tensors[2] = f32(kGate + ".weight_scale_2", shape, {4.0f});
        REQUIRE(loaded(tensors).terms[0].global_scale == 4.0f);
        divided[2] = f32(kGate + ".weight_global_scale", shape, {4.0f});
        REQUIRE(loaded(divided).terms[0].global_scale == 0.25f);
    }
}

TEST_CASE("B02 a global scale of 0, NaN, infinity, below 0 or beyond inverting is refused by name", "[format]") {
    const float inf = std::numeric_limits<float>::infinity();
    for (const PackedNames names : {PackedNames::kModelOpt, PackedNames::kCompressedTensors}) {
        for (const size_t which : {size_t{2}, size_t{3}}) {
            for (const float bad : {0.0f, -0.0f, -1.0f, inf, -inf, std::nanf("")}) {
                std::vector<Tensor> tensors = packed_tensors(kGate, terms_of(1), 0.5f, names);
                tensors[which] = f32(tensors[which].name, tensors[which].shape, {bad});
                const std::string text = refused_checkpoint(tensors);
                REQUIRE(has(text, tensors[which].name));
                REQUIRE(has(text, "positive and finite"));
            }
        }
    }
    std::vector<Tensor> tensors = packed_tensors(kGate, terms_of(1), 0.0f, PackedNames::kCompressedTensors);
    tensors[2] = f32(tensors[2].name, {1}, {1e-45f});
    REQUIRE(has(refused_checkpoint(tensors), "positive and finite"));
}

TEST_CASE("B07 a packed gate without its global scale is refused by name", "[format]") {
    for (const PackedNames names : {PackedNames::kModelOpt, PackedNames::kCompressedTensors}) {
        std::vector<Tensor> tensors = packed_tensors(kGate, terms_of(1), 0.0f, names);
        const std::string missing = tensors.back().name;
        tensors.pop_back();
        REQUIRE(has(refused_checkpoint(tensors), "no tensor \"" + missing + "\""));
        tensors = packed_tensors(kGate, terms_of(1), 0.0f, names);
        tensors.erase(tensors.begin() + 1);
        REQUIRE(has(refused_checkpoint(tensors), "no tensor \"" + kGate + ".weight_scale\""));
    }
}

TEST_CASE("B08 an absent input_scale stays absent, with a notice, and is never 1", "[format]") {
    const Gate gate = loaded(packed_tensors(kGate, terms_of(1), 0.0f, PackedNames::kModelOpt));
    REQUIRE(gate.input_scale == 0.0f);
    REQUIRE(noticed(gate, "input_scale is absent"));
}

TEST_CASE("B10 a NaN block scale is refused with its place, or repaired by option", "[format]") {
    std::vector<Tensor> tensors = packed_tensors(kGate, terms_of(1), 1.0f, PackedNames::kModelOpt);
    std::vector<uint8_t> scales(tensors[1].bytes.begin(), tensors[1].bytes.end());
    for (const uint8_t nan : {uint8_t{0x7f}, uint8_t{0xff}}) {
        scales[5 * 4 + 2] = nan;
        tensors[1] = replaced(tensors[1], scales);
        const std::string text = refused_checkpoint(tensors);
        REQUIRE(has(text, kGate + ".weight_scale"));
        REQUIRE(has(text, "at expert 5, block 2"));
        nvfp4r_gate_options repair = kCheckpointDefault;
        repair.repair_nan_scales = 1;
        const Gate gate = loaded(tensors, repair);
        REQUIRE(gate.terms[0].scales[5 * 4 + 2] == 0);
        REQUIRE(noticed(gate, "1 NaN block scales became 0"));
    }
    scales[5 * 4 + 2] = 0xb8;
    tensors[1] = replaced(tensors[1], scales);
    REQUIRE(has(refused_checkpoint(tensors), "negative block scale"));
}

TEST_CASE("B22 packed shapes are checked: codes [E, K/2], scales [E, K/16], both by type", "[format]") {
    const std::vector<Tensor> good = packed_tensors(kGate, terms_of(1), 0.0f, PackedNames::kModelOpt);
    const auto with = [&](size_t which, Tensor tensor) {
        std::vector<Tensor> tensors = good;
        tensors[which] = std::move(tensor);
        return refused_checkpoint(tensors);
    };
    const std::vector<uint8_t> scales(good[1].bytes.begin(), good[1].bytes.end());
    REQUIRE(has(with(1, make_tensor(good[1].name, NVFP4R_F8_E4M3, {4, 8}, scales)), "[8, 4] is needed"));
    REQUIRE(has(with(1, make_tensor(good[1].name, NVFP4R_U8, {8, 4}, scales)), "is U8"));
    REQUIRE(has(with(0, make_tensor(good[0].name, NVFP4R_U8, {8, 33}, std::vector<uint8_t>(8 * 33))), "hidden 66"));
    REQUIRE(has(with(2, f32(good[2].name, {2}, {1.0f, 1.0f})), "one F32 value"));
    REQUIRE(has(with(2, bf16(good[2].name, {}, {1.0f})), "one F32 value"));
    Tensor codes = packed_tensors(kGate, terms_of(1), 0.0f, PackedNames::kCompressedTensors)[0];
    codes.type = NVFP4R_F8_E4M3;
    REQUIRE(has(refused_checkpoint({codes}), "packed codes are U8"));
}

TEST_CASE("Several terms of a packed gate are written, listed and read under both namings", "[format]") {
    for (const PackedNames names : {PackedNames::kModelOpt, PackedNames::kCompressedTensors}) {
        for (uint32_t count = 1; count <= 3; ++count) {
            const std::vector<Nvfp4Matrix> terms = terms_of(count);
            const Scratch scratch;
            write_safetensors(scratch / "model.safetensors", packed_tensors(kGate, terms, 0.0f, names));
            const std::vector<GateEntry> entries = list_gates(scratch.folder());
            REQUIRE(entries.size() == 1);
            REQUIRE(entries[0].terms == count);
            REQUIRE(entries[0].hidden == 64);
            const Gate gate = load_gate(scratch.folder(), 3, kCheckpointDefault);
            REQUIRE(gate.terms.size() == count);
            for (uint32_t t = 0; t < count; ++t) {
                REQUIRE(gate.terms[t].codes == terms[t].codes);
                REQUIRE(gate.terms[t].scales == terms[t].scales);
                REQUIRE(gate.terms[t].global_scale == gate.terms[0].global_scale);
            }
        }
    }
}
