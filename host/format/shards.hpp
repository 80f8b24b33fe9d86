// The safetensors files of one checkpoint, seen as one set of tensors.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "format/safetensors.hpp"

namespace nvfp4r {

/// Where a tensor is.
struct ShardTensor {
    const Safetensors* file = nullptr;
    const TensorEntry* entry = nullptr;
};

/// Headers of every file are read on opening, tensor bytes on demand. `path` is a .safetensors file, an index file
/// (*.index.json) or a folder with either. A folder without an index is the set of its .safetensors files.
///
/// Files that an index names and that are not there are counted and named. Contradictions about a single tensor are
/// refused when that tensor is used: see check.
class Shards {
  public:
    explicit Shards(const std::filesystem::path& path);

    /// The folder that config.json would be in.
    const std::filesystem::path& folder() const { return folder_; }
    const std::unordered_map<std::string_view, ShardTensor>& tensors() const { return tensors_; }
    /// nullptr when there is none of that name.
    const ShardTensor* find(std::string_view name) const;
    /// The tensor's bytes. Throws BAD_FILE when it is absent or of a dtype that is not read.
    Tensor tensor(std::string_view name) const;
    /// Refuses a tensor that is in two files, and a stale index: one that does not name the tensor, or names a file
    /// that does not hold it. Only tensors that are used are checked; the rest of a checkpoint may contradict itself.
    void check(std::string_view name) const;
    /// Names in the index, empty without one.
    const std::unordered_map<std::string, std::string>& index() const { return index_; }
    /// The path as the user gave it, for messages.
    std::string name() const { return path_.string(); }

  private:
    void read_index(const std::filesystem::path& index_path);
    void open(const std::vector<std::filesystem::path>& files);

    std::filesystem::path path_;
    std::filesystem::path folder_;
    std::filesystem::path index_path_;  // empty without one
    std::unordered_map<std::string, std::string> index_;
    std::vector<std::unique_ptr<const Safetensors>> files_;
    std::unordered_map<std::string_view, ShardTensor> tensors_;       // the first of each name
    std::unordered_map<std::string_view, const Safetensors*> again_;  // a second file with the same name
};

}  // namespace nvfp4r
