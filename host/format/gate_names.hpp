// How the checkpoints of different models name a layer's router (contract section 6).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nvfp4r {

/// Names after "layers.N."; an empty list: the model has no such tensor.
struct GateFamily {
    const char* gate;  // the weight is this + ".weight", or ".weight_packed"
    std::vector<const char*> bias;
    const char* linear_bias;  // nullptr: none
    const char* image_bias;
    const char* table;
};

/// A gate's weight by name. `prefix` is everything before the family's names: "model.layers.3.".
struct GateName {
    int32_t layer = -1;
    std::string prefix;
    const GateFamily* family = nullptr;
};

/// Whether a tensor is the weight of a layer's router. Prefixes before "layers.": none, model., model.language_model.,
/// language_model.model., language_model., backbone., and the doubled "model.layers.N.model." that some converters
/// make. Draft-model layers ("mtp.layers.0.") are not a layer of the model and do not match.
std::optional<GateName> parse_gate_name(std::string_view tensor);

/// "model.layers.3.mlp.gate" of "model.layers.3.mlp.gate.weight" or ".weight_packed"; "" for other names.
std::string gate_base(std::string_view tensor);

}  // namespace nvfp4r
