// What a checkpoint's config.json says about its router.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace nvfp4r {

struct ConfigShape {
    uint32_t experts = 0;
    uint32_t hidden = 0;
};

/// Experts (zero-computation experts included) and hidden size; nothing when there is no config.json in the folder or
/// it does not say both.
std::optional<ConfigShape> config_shape(const std::filesystem::path& folder);

}  // namespace nvfp4r
