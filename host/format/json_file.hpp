// JSON files that come with a checkpoint: config.json and index files.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

namespace nvfp4r {

/// Reads a file that holds one JSON object. BAD_FILE naming the file when it is not JSON, nests deeper than 64, repeats
/// a key within one object or is larger than 256 MiB.
nlohmann::json read_json_object(const std::filesystem::path& path);

}  // namespace nvfp4r
