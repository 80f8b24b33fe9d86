#include "format/shards.hpp"

#include <algorithm>
#include <set>

#include "core/error.hpp"
#include "format/json_file.hpp"

namespace nvfp4r {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexEnding = ".safetensors.index.json";
constexpr const char* kUsualIndex = "model.safetensors.index.json";

std::vector<fs::path> files_ending_with(const fs::path& folder, std::string_view ending) {
    std::vector<fs::path> files;
    std::error_code error;
    const fs::directory_iterator entries(folder, error);
    if (error) fail(NVFP4R_IO_ERROR, "cannot list {}: {}", folder.string(), error.message());
    for (const fs::directory_entry& entry : entries) {
        if (entry.path().filename().string().ends_with(ending)) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
}

/// Empty when the folder has none. Two indexes without the usual name would be a guess.
fs::path index_in(const fs::path& folder) {
    if (fs::exists(folder / kUsualIndex)) return folder / kUsualIndex;
    const std::vector<fs::path> found = files_ending_with(folder, kIndexEnding);
    if (found.size() > 1) {
        fail(NVFP4R_BAD_FILE, "{}: index files {} and {}; name the one to use", folder.string(),
             found[0].filename().string(), found[1].filename().string());
    }
    return found.empty() ? fs::path() : found[0];
}

}  // namespace

Shards::Shards(const fs::path& path) : path_(path) {
    if (!fs::exists(path)) fail(NVFP4R_IO_ERROR, "{}: no such file or folder", path.string());
    const bool is_folder = fs::is_directory(path);
    folder_ = is_folder ? path : path.has_parent_path() ? path.parent_path() : fs::path(".");
    const fs::path index_path = is_folder ? index_in(path) : path.string().ends_with(".json") ? path : fs::path();
    if (!index_path.empty()) {
        read_index(index_path);
        return;
    }
    const std::vector<fs::path> files = is_folder ? files_ending_with(path, ".safetensors") : std::vector{path};
    if (files.empty()) fail(NVFP4R_BAD_FILE, "{}: no .safetensors file in this folder", path.string());
    open(files);
}

void Shards::read_index(const fs::path& index_path) {
    index_path_ = index_path;
    const nlohmann::json json = read_json_object(index_path);
    const auto map = json.find("weight_map");
    if (map == json.end() || !map->is_object()) fail(NVFP4R_BAD_FILE, "{}: no weight_map", index_path.string());
    std::set<std::string> names;
    for (const auto& [tensor, file] : map->items()) {
        if (!file.is_string()) fail(NVFP4R_BAD_FILE, "{}: {} has no file name", index_path.string(), tensor);
        const std::string name = file.get<std::string>();
        // An index must not lead the reader out of the checkpoint's folder.
        if (name.empty() || name.find('/') != std::string::npos || name == "." || name == "..") {
            fail(NVFP4R_BAD_FILE, "{}: {} is said to be in \"{}\", which is not a plain file name", index_path.string(),
                 tensor, name);
        }
        index_.emplace(tensor, name);
        names.insert(name);
    }
    std::vector<fs::path> present;
    std::string missing;
    for (const std::string& name : names) {
        if (fs::exists(folder_ / name)) {
            present.push_back(folder_ / name);
        } else {
            missing += (missing.empty() ? "" : ", ") + name;
        }
    }
    if (!missing.empty()) {
        fail(NVFP4R_BAD_FILE, "{}: {} files are named, {} are there; missing: {}", index_path.string(), names.size(),
             present.size(), missing);
    }
    open(present);
}

void Shards::open(const std::vector<fs::path>& files) {
    for (const fs::path& path : files) {
        files_.push_back(std::make_unique<const Safetensors>(path));
        const Safetensors& file = *files_.back();
        for (const TensorEntry& entry : file.entries()) {
            if (!tensors_.try_emplace(entry.name, ShardTensor{&file, &entry}).second) again_[entry.name] = &file;
        }
    }
}

const ShardTensor* Shards::find(std::string_view name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
}

Tensor Shards::tensor(std::string_view name) const {
    const ShardTensor* found = find(name);
    if (found == nullptr) fail(NVFP4R_BAD_FILE, "{}: no tensor \"{}\"", path_.string(), name);
    check(name);
    return found->file->tensor(*found->entry);
}

void Shards::check(std::string_view name) const {
    const ShardTensor* found = find(name);
    if (const auto again = again_.find(name); again != again_.end()) {
        fail(NVFP4R_BAD_FILE, "tensor \"{}\" is in {} and in {}; keep one of them out of the folder", name,
             found->file->path().string(), again->second->path().string());
    }
    if (index_path_.empty()) return;
    const auto indexed = index_.find(std::string(name));
    if (indexed == index_.end()) {
        fail(NVFP4R_BAD_FILE, "{}: stale index: tensor \"{}\" is in {} but not in the index; rebuild or remove it",
             index_path_.string(), name, found->file->path().filename().string());
    }
    const std::string held = found ? found->file->path().filename().string() : "";
    if (held == indexed->second) return;
    fail(NVFP4R_BAD_FILE, "{}: stale index: tensor \"{}\" is said to be in {}, it is in {}; rebuild or remove it",
         index_path_.string(), name, indexed->second, found ? held : "none of the files");
}

}  // namespace nvfp4r
