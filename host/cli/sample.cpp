// `sample`: a checkpoint folder of a known model's shape, with made-up numbers.
#include "format/sample.hpp"

#include <fmt/format.h>

#include <optional>

#include "cli/command.hpp"
#include "cli/table.hpp"
#include "format/checkpoint.hpp"

namespace nvfp4r::cli {
namespace {

constexpr const char* kSampleFooter =
    "The folder gets config.json, the gates under the model's own tensor names and types, and hidden.safetensors with "
    "the tokens\n"
    "(tensor hidden, bf16 [M, K]; token_ids too where layers route by a hash table). The same options give the same "
    "bytes.\n"
    "Example: nvfp4-router sample --preset deepseek-v4-pro --tokens 64 --layers 4 --out sample";

struct SampleArguments {
    std::string preset, out;
    std::optional<uint32_t> layers;
    SampleOptions sample;
    bool json = false;
};

int run_sample(SampleArguments& o) {
    const Preset& model = preset(o.preset);
    // Without a word on layers, one that chooses by score is among them.
    o.sample.layers = o.layers.value_or(model.hash_layers + 1);
    write_sample(model, o.sample, o.out);
    const std::vector<GateEntry> gates = list_gates(o.out);
    Json layers = Json::array();
    for (const GateEntry& gate : gates) layers.push_back(gate.layer);
    if (o.json)
        print_json({{"out", o.out},
                    {"preset", o.preset},
                    {"tokens", o.sample.tokens},
                    {"seed", o.sample.seed},
                    {"layers", layers}});
    else
        fmt::print("wrote {}: {} with routers in layers {} to {}, {} tokens in hidden.safetensors\n", o.out, o.preset,
                   gates.front().layer, gates.back().layer, o.sample.tokens);
    return kOk;
}

}  // namespace

Command sample_command(CommandLine& root) {
    const Arguments app =
        root.subcommand("sample", "Write a checkpoint of a known model's shape, with made-up numbers");
    app.footer(kSampleFooter);
    const auto o = std::make_shared<SampleArguments>();
    app.option("--preset", o->preset, "Model (see `presets`)").required();
    app.option("--tokens", o->sample.tokens, "M, rows of hidden.safetensors").show_default();
    app.option("--layers", o->layers,
               "Layers with a router, from the model's first on; default: up to the first that\n"
               "chooses by score");
    app.option("--seed", o->sample.seed, "Other numbers for another seed").show_default();
    app.option("--out", o->out, "Folder to write").required();
    app.flag("--json", o->json, "Print JSON");
    return {app, [o] { return run_sample(*o); }};
}

}  // namespace nvfp4r::cli
