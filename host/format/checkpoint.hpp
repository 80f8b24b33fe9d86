// Finding gates in a checkpoint: a safetensors file, an index file, or a folder with either.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "format/gate.hpp"
#include "nvfp4router.h"

namespace nvfp4r {

/// What the headers say of one layer's gate; no tensor bytes are read for it.
struct GateEntry {
    int32_t layer = -1;
    std::string tensor;  // the weight's name
    uint32_t experts = 0;
    uint32_t hidden = 0;
    nvfp4r_dtype weight_type = NVFP4R_DTYPE_UNSET;
    uint32_t terms = 0;  // packed gates
    std::string bias;    // tensor names, "" when absent
    std::string linear_bias;
    std::string image_bias;
    std::string table;
};

/// Every gate in the checkpoint, by layer. Throws BAD_FILE when two tensors claim one layer, naming both.
std::vector<GateEntry> list_gates(const std::filesystem::path& path);

/// One layer's gate, all values read and checked. Refusals name the tensor, the value and the file. A layer without a
/// router is refused with the first one that has: "layer 0 has no router; first is 3".
Gate load_gate(const std::filesystem::path& path, int32_t layer, const nvfp4r_gate_options& options);

/// Settings from config.json; see nvfp4r_settings_from_checkpoint.
nvfp4r_settings settings_from_config(const std::filesystem::path& path);

}  // namespace nvfp4r
