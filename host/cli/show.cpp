// `show`: the gates of a checkpoint, from its headers alone.
#include <fmt/format.h>

#include <filesystem>

#include "cli/command.hpp"
#include "cli/table.hpp"
#include "format/checkpoint.hpp"
#include "format/tensor.hpp"

namespace nvfp4r::cli {
namespace {

constexpr Column kShowColumns[] = {{"layer", "LAYER"},   {"tensor", "TENSOR"},        {"experts", "E"},
                                   {"hidden_size", "K"}, {"dtype", "DTYPE"},          {"precision", "PRECISION"},
                                   {"bias", "BIAS"},     {"hash_table", "HASH TABLE"}};

constexpr const char* kTermPrecision[] = {"bf16", "nvfp4", "nvfp4x2", "nvfp4x3"};  // by the number of NVFP4 terms

Json present(const std::string& name) {
    return name.empty() ? Json(nullptr) : Json(name);
}

Json gate_json(const GateEntry& g) {
    Json biases = Json::array();
    for (const std::string& name : {g.bias, g.linear_bias, g.image_bias})
        if (!name.empty()) biases.push_back(name);
    return {{"layer", g.layer},
            {"tensor", g.tensor},
            {"experts", g.experts},
            {"hidden_size", g.hidden},
            {"dtype", dtype_name(g.weight_type)},
            {"precision", kTermPrecision[g.terms]},
            {"bias", biases.empty() ? Json(nullptr) : biases},
            {"selection_bias", present(g.bias)},
            {"linear_bias", present(g.linear_bias)},
            {"image_bias", present(g.image_bias)},
            {"hash_table", present(g.table)}};
}

struct ShowOptions {
    std::string path;
    bool json = false;
};

}  // namespace

Command show_command(CommandLine& root) {
    const Arguments app = root.subcommand("show", "The gates found in a checkpoint: layer, tensor, shape, dtype, bias");
    app.footer(
        "PATH is a safetensors file, an index file, or a folder with either. No tensor's bytes are read.\n"
        "Example: nvfp4-router show sample");
    const auto o = std::make_shared<ShowOptions>();
    app.option("PATH", o->path, "Checkpoint").required();
    app.flag("--json", o->json, "Print JSON, with each bias apart");
    return {app, [o] {
                Json records = Json::array();
                for (const GateEntry& gate : list_gates(o->path)) records.push_back(gate_json(gate));
                if (o->json)
                    print_json({{"path", o->path}, {"gates", records}});
                else
                    fmt::print("{}", table_text(records, kShowColumns));
                return static_cast<int>(kOk);
            }};
}

}  // namespace nvfp4r::cli
