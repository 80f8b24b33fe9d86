// Sample checkpoints: a model's own names, types and shapes with made-up numbers that behave like a real gate's.
#pragma once

#include <cstdint>
#include <filesystem>

#include "format/presets.hpp"

namespace nvfp4r {

struct SampleOptions {
    uint32_t tokens = 64;
    uint32_t layers = 1;  // layers with a router, from the model's first on; at most all of them
    uint64_t seed = 0;
};

/// Writes config.json, the shards with an index (or one model.safetensors) and hidden.safetensors: `hidden` BF16
/// [tokens, hidden], and `token_ids` I64 [tokens] for models with hash layers. The same options give the same bytes on
/// every machine. The folder is made if needed; one that holds other safetensors files, which would then be read as
/// part of the checkpoint, is refused with INVALID_ARGUMENT.
void write_sample(const Preset& preset, const SampleOptions& options, const std::filesystem::path& folder);

}  // namespace nvfp4r
