// `pack`: quantises gates to NVFP4 and says what that costs.
#include <cmath>
#include <filesystem>
#include <optional>
#include <random>
#include <set>

#include "cli/capi.hpp"
#include "cli/command.hpp"
#include "cli/names.hpp"
#include "cli/settings_options.hpp"
#include "cli/table.hpp"
#include "cli/tensor_input.hpp"
#include "cli/terminal.hpp"
#include "format/checkpoint.hpp"
#include "format/gate_names.hpp"
#include "format/packed_gate.hpp"
#include "format/safetensors.hpp"
#include "format/shards.hpp"

namespace nvfp4r::cli {
namespace {

constexpr const char* kPackFooter =
    "FILE holds the packed gates with their biases and hash tables, and is routed from like any checkpoint. Published "
    "names have\n"
    "one term; terms 2 and 3 are written as <gate>.term2.* and <gate>.term3.*.\n"
    "Errors: WEIGHT of the gate itself; LOGIT of the precision's products against the unquantised gate and tokens, "
    "both as a\n"
    "share of the root mean square; KEPT the share of chosen experts that stay, EXACT the share of tokens that keep "
    "them all.\n"
    "Tokens are Gaussian unless --hidden gives some.\n"
    "Example: nvfp4-router pack sample --layer all --precision nvfp4x2 --out packed.safetensors";

constexpr Column kPackColumns[] = {{"layer", "LAYER"},       {"tensor", "TENSOR"},       {"terms", "TERMS"},
                                   {"bytes", "BYTES"},       {"weight_error", "WEIGHT"}, {"logit_error", "LOGIT"},
                                   {"experts_kept", "KEPT"}, {"sets_exact", "EXACT"}};

constexpr Named kPackPrecisions[] = {{"nvfp4", 1}, {"nvfp4x2", 2}, {"nvfp4x3", 3}};  // by the number of terms
constexpr Named kNames[] = {{"modelopt", static_cast<int>(PackedNames::kModelOpt)},
                            {"compressed-tensors", static_cast<int>(PackedNames::kCompressedTensors)}};
constexpr int64_t kGaussianTokens = 64;
constexpr uint64_t kGaussianSeed = 1;

struct PackOptions {
    std::string path, layer, precision, names = "modelopt", out, hidden;
    bool json = false;
    SettingsOptions settings;
};

/// Relative root mean square of the difference.
template <class T>
double relative_error(const std::vector<T>& exact, const std::vector<T>& other) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
        const double d = static_cast<double>(other[i]) - static_cast<double>(exact[i]);
        difference += d * d;
        size += static_cast<double>(exact[i]) * static_cast<double>(exact[i]);
    }
    return size == 0 ? 0 : std::sqrt(difference / size);
}

double weight_error(const Gate& gate, const std::vector<Nvfp4Matrix>& terms) {
    std::vector<float> sum(gate.weight.size()), row(gate.hidden);
    for (const Nvfp4Matrix& term : terms) {
        for (size_t e = 0; e < gate.experts; ++e) {
            dequantise_row(&term.codes[e * gate.hidden / 2], &term.scales[e * gate.hidden / kBlock], row);
            for (size_t k = 0; k < gate.hidden; ++k) sum[e * gate.hidden + k] += row[k] * term.global_scale;
        }
    }
    return relative_error(gate.weight, sum);
}

/// Logits and experts of the CPU device at a precision.
struct Routed {
    std::vector<float> logits;
    std::vector<int32_t> ids;
};

Routed route(const nvfp4r_gate* gate, nvfp4r_settings settings, nvfp4r_precision precision, const nvfp4r_call& tokens) {
    settings.precision = precision;
    nvfp4r_router_options options = NVFP4R_ROUTER_OPTIONS_INIT;
    options.device = NVFP4R_DEVICE_CPU;
    const RouterHandle router = open_router(gate, settings, options);
    const auto rows = static_cast<size_t>(tokens.tokens);
    const size_t width = settings.top_k + settings.shared_slots;
    Routed routed{std::vector<float>(rows * settings.experts), std::vector<int32_t>(rows * width)};
    std::vector<float> weights(rows * width);
    nvfp4r_call call = tokens;
    call.logits = routed.logits.data();
    call.ids = routed.ids.data();
    call.weights = weights.data();
    must(nvfp4r_route(router.get(), &call));
    return routed;
}

/// A gate like `gate` but without its hash table, whose ids would not depend on the precision.
GateHandle scoring_gate(const Gate& gate) {
    nvfp4r_gate_desc desc = NVFP4R_GATE_DESC_INIT;
    desc.experts = gate.experts;
    desc.hidden = gate.hidden;
    desc.weight = gate.weight.data();
    desc.weight_type = NVFP4R_F32;
    const auto data = [](const std::vector<float>& values) { return values.empty() ? nullptr : values.data(); };
    desc.bias = data(gate.bias);
    desc.linear_bias = data(gate.linear_bias);
    nvfp4r_gate* made = nullptr;
    must(nvfp4r_gate_create(&desc, &made));
    return {made, nvfp4r_gate_destroy};
}

struct Kept {
    double experts, sets;
};

Kept kept(const std::vector<int32_t>& exact, const std::vector<int32_t>& other, size_t width) {
    size_t same = 0, whole = 0;
    for (size_t row = 0; row < exact.size(); row += width) {
        const std::set<int32_t> wanted(exact.begin() + static_cast<std::ptrdiff_t>(row),
                                       exact.begin() + static_cast<std::ptrdiff_t>(row + width));
        size_t found = 0;
        for (size_t i = 0; i < width; ++i) found += wanted.contains(other[row + i]);
        same += found;
        whole += found == width;
    }
    const double rows = static_cast<double>(exact.size()) / static_cast<double>(width);
    return {static_cast<double>(same) / static_cast<double>(exact.size()), static_cast<double>(whole) / rows};
}

std::vector<float> gaussian_tokens(uint32_t hidden) {
    std::mt19937_64 random(kGaussianSeed);
    std::normal_distribution<float> normal;
    std::vector<float> x(static_cast<size_t>(kGaussianTokens) * hidden);
    for (float& value : x) value = normal(random);
    return x;
}

nvfp4r_settings settings_of(const PackOptions& o, const Gate& gate) {
    nvfp4r_settings settings = o.settings.resolve(o.path, gate);
    if (gate.bias.empty()) settings.use_bias = 0;  // a hash layer, judged by its scores
    return settings;
}

Json pack_layer(const PackOptions& o, const GateEntry& entry, const Shards& shards, std::vector<Tensor>& out) {
    const nvfp4r_gate_options gate_options = NVFP4R_GATE_OPTIONS_INIT;
    const Gate gate = load_gate(o.path, entry.layer, gate_options);
    for (const std::string& notice : gate.notices) print_notice(notice);
    if (!gate.terms.empty())
        fail(NVFP4R_BAD_FILE, "{}: {} is NVFP4 already; pack takes bf16, f16 and f32 gates", o.path, gate.tensor);
    const nvfp4r_settings settings = settings_of(o, gate);
    const auto term_count = static_cast<uint32_t>(value_of(kPackPrecisions, o.precision));
    const auto precision = static_cast<nvfp4r_precision>(value_of(kPrecisions, o.precision));
    const std::vector<Nvfp4Matrix> terms = quantise_terms(gate.weight.data(), gate.experts, gate.hidden, gate.hidden,
                                                          term_count, settings.block_rule, gate.tensor.c_str());
    const auto names = static_cast<PackedNames>(value_of(kNames, o.names));
    uint64_t bytes = 0;
    for (Tensor& tensor : packed_tensors(gate_base(gate.tensor), terms, 0.0f, names)) {
        bytes += tensor.bytes.size();
        out.push_back(std::move(tensor));
    }
    for (const std::string& name : {entry.bias, entry.linear_bias, entry.image_bias, entry.table})
        if (!name.empty()) out.push_back(shards.tensor(name));

    nvfp4r_call tokens = NVFP4R_CALL_INIT;
    std::optional<HiddenInput> given;
    std::vector<float> gaussian;
    if (o.hidden.empty()) {
        gaussian = gaussian_tokens(gate.hidden);
        tokens.hidden = gaussian.data();
        tokens.hidden_type = NVFP4R_F32;
        tokens.tokens = kGaussianTokens;
    } else {
        given.emplace(o.hidden, NVFP4R_SCALES_LINEAR);
        if (given->hidden() != gate.hidden)
            fail(NVFP4R_BAD_FILE, "{}: tokens have {} values; {} takes {}", o.hidden, given->hidden(), gate.tensor,
                 gate.hidden);
        given->fill(tokens);
    }
    const GateHandle handle = scoring_gate(gate);
    const Routed exact = route(handle.get(), settings, NVFP4R_PRECISION_BF16, tokens);
    const Routed packed = route(handle.get(), settings, precision, tokens);
    const Kept share = kept(exact.ids, packed.ids, settings.top_k + settings.shared_slots);
    return {{"layer", gate.layer},
            {"tensor", gate.tensor},
            {"terms", term_count},
            {"bytes", bytes},
            {"weight_error", weight_error(gate, terms)},
            {"logit_error", relative_error(exact.logits, packed.logits)},
            {"experts_kept", share.experts},
            {"sets_exact", share.sets}};
}

std::vector<GateEntry> chosen_layers(const PackOptions& o) {
    std::vector<GateEntry> all = list_gates(o.path);
    if (o.layer == "all") return all;
    const int32_t layer = std::stoi(o.layer);
    std::erase_if(all, [layer](const GateEntry& entry) { return entry.layer != layer; });
    if (all.empty())
        load_gate(o.path, layer, NVFP4R_GATE_OPTIONS_INIT);  // refuses, naming the first layer that has a router
    return all;
}

int run_pack(const PackOptions& o) {
    const std::vector<GateEntry> layers = chosen_layers(o);
    const Shards shards(o.path);
    std::vector<Tensor> tensors;
    Json records = Json::array();
    {
        Progress progress("packing layer", static_cast<int64_t>(layers.size()));
        for (const GateEntry& entry : layers) {
            progress.at(static_cast<int64_t>(records.size()));
            records.push_back(pack_layer(o, entry, shards, tensors));
        }
    }
    write_safetensors(o.out, tensors, {{"format", "pt"}, {"precision", o.precision}, {"names", o.names}});
    if (o.json)
        print_json({{"out", o.out}, {"precision", o.precision}, {"names", o.names}, {"layers", records}});
    else
        fmt::print("{}wrote {}\n", table_text(records, kPackColumns), o.out);
    return kOk;
}

std::string layer_fault(const std::string& text) {
    const bool digits = !text.empty() && text.size() < 7 && text.find_first_not_of("0123456789") == std::string::npos;
    return digits || text == "all" ? "" : "must be a layer number or all";
}

}  // namespace

Command pack_command(CommandLine& root) {
    const Arguments app = root.subcommand("pack", "Quantise gates to NVFP4, with the error it makes in each layer");
    app.footer(kPackFooter);
    const auto o = std::make_shared<PackOptions>();
    app.option("PATH", o->path, "Checkpoint").required();
    app.option("--layer", o->layer, "Layer, or all").required().check(layer_fault, "N|all");
    app.option("--out", o->out, "Safetensors file to write").required();
    app.option("--names", o->names, "Whose tensor names and scale convention to write")
        .one_of(names_of(kNames))
        .show_default();
    app.option("--hidden", o->hidden, "Tokens for the errors, FILE[:TENSOR], instead of Gaussian ones");
    app.flag("--json", o->json, "Print JSON");
    o->settings.add_to(app);
    app.remove("--precision");
    app.option("--precision", o->precision, "Terms to keep").required().one_of(names_of(kPackPrecisions));
    return {app, [o] { return run_pack(*o); }};
}

}  // namespace nvfp4r::cli
