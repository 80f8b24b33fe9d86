// The models that the router knows by name: settings, and what a checkpoint of theirs looks like (for `sample`).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "nvfp4router.h"

namespace nvfp4r {

/// How a model's checkpoint names and stores its router. `%` in a name stands for the layer number.
struct Preset {
    const char* name;
    nvfp4r_settings settings;
    const char* architecture;  // config.json "architectures"[0]
    const char* model_type;    // config.json "model_type"
    const char* weight_name;   // "model.layers.%.mlp.gate.weight"
    const char* bias_name;     // selection bias, nullptr: none
    const char* linear_bias_name;
    const char* image_bias_name;
    const char* table_name;  // hash layers, nullptr: none
    uint32_t hash_layers;    // layers 0..hash_layers-1 route by table
    uint32_t first_moe_layer;
    uint32_t layers;
    uint32_t vocabulary;
    float bias_centre;         // where the model's selection biases lie, for samples
    nvfp4r_dtype weight_type;  // of the stored gate
    uint32_t layer_step;       // every layer_step-th layer from first_moe_layer on has a router
    uint32_t zero_experts;     // of the experts, those that compute nothing (LongCat)
};

std::span<const Preset> presets();
/// Throws INVALID_ARGUMENT with the known names.
const Preset& preset(std::string_view name);

}  // namespace nvfp4r
