// Compiled kernels on disk, one file each. Any number of threads and processes may use one folder: an entry appears by
// rename, whole or not at all, and a damaged one counts as absent.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "jit/compile.hpp"

namespace nvfp4r {

/// NVFP4R_CACHE_DIR, else XDG_CACHE_HOME/nvfp4router, else HOME/.cache/nvfp4router; empty when none of them is set.
std::filesystem::path default_cache_folder();

class DiskCache {
  public:
    /// An empty path is a cache that holds nothing.
    explicit DiskCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

    /// The entry `key`, if it is there and whole. Never throws for what is on the disk.
    std::optional<CompiledKernel> load(const std::string& key) const;

    /// Writes the entry and returns "", or the reason why it could not: a full or read-only disk only costs the next
    /// process its compile time.
    std::string store(const std::string& key, const CompiledKernel& kernel) const;

    std::filesystem::path entry_path(const std::string& key) const { return folder_ / (key + ".kernel"); }

  private:
    std::filesystem::path folder_;
};

}  // namespace nvfp4r
