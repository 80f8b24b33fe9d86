#include "cli/layer_options.hpp"

#include "cli/terminal.hpp"
#include "format/checkpoint.hpp"

namespace nvfp4r::cli {
namespace {

nvfp4r_precision resolved_precision(const Gate& gate, nvfp4r_precision asked) {
    constexpr nvfp4r_precision by_terms[] = {NVFP4R_PRECISION_BF16, NVFP4R_PRECISION_NVFP4, NVFP4R_PRECISION_NVFP4X2,
                                             NVFP4R_PRECISION_NVFP4X3};
    return asked == NVFP4R_PRECISION_UNSET ? by_terms[gate.terms.size()] : asked;
}

}  // namespace

void LayerOptions::add_to(const Arguments& app) {
    app.option("PATH", path, "Checkpoint").required();
    app.option("--layer", layer, "Layer whose gate is used").required();
    app.option("--tensor", tensor, "Name of the gate's weight tensor, instead of the known names");
    app.flag("--refuse-bf16-bias", refuse_bf16_bias, "Refuse a bias stored in bf16 instead of widening it");
    app.flag("--repair-nan-scales", repair_nan_scales, "Take NaN block scales as 0 instead of refusing them");
    settings.add_to(app);
}

OpenedLayer LayerOptions::open() const {
    nvfp4r_gate_options options = NVFP4R_GATE_OPTIONS_INIT;
    if (!tensor.empty()) options.tensor = tensor.c_str();
    options.refuse_bf16_bias = refuse_bf16_bias;
    options.repair_nan_scales = repair_nan_scales;
    Gate gate = load_gate(path, layer, options);
    for (const std::string& notice : gate.notices) print_notice(notice);
    nvfp4r_settings resolved = settings.resolve(path, gate);
    resolved.precision = resolved_precision(gate, resolved.precision);
    return {std::move(gate), resolved, open_gate(path.c_str(), layer, &options)};
}

}  // namespace nvfp4r::cli
