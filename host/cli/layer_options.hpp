// One layer of a checkpoint on the command line: its gate, and the settings that it is routed with.
#pragma once

#include <cstdint>
#include <string>

#include "cli/capi.hpp"
#include "cli/settings_options.hpp"

namespace nvfp4r::cli {

struct OpenedLayer {
    Gate gate;
    nvfp4r_settings settings;  // precision resolved
    GateHandle handle;
};

struct LayerOptions {
    std::string path, tensor;
    int32_t layer = 0;
    bool refuse_bf16_bias = false, repair_nan_scales = false;
    SettingsOptions settings;

    void add_to(const Arguments& app);
    /// Prints the gate's notices.
    OpenedLayer open() const;
};

}  // namespace nvfp4r::cli
