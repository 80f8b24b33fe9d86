// The safetensors format: 8 bytes of header length, a JSON header, the tensors' bytes back to back.
// https://github.com/huggingface/safetensors, "Format"
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/mapped_file.hpp"
#include "format/tensor.hpp"

namespace nvfp4r {

/// One tensor as the header states it. Offsets count from the start of the file.
struct TensorEntry {
    std::string name;
    std::string dtype;  // the header's own spelling
    std::vector<uint64_t> shape;
    uint64_t begin = 0;
    uint64_t end = 0;
};

struct SafetensorsHeader {
    std::vector<TensorEntry> tensors;  // by offset
    std::map<std::string, std::string> metadata;
};

/// Reads the header of a file of `bytes`, strictly: the tensors must fill the file from the header's end to the file's
/// end without gap or overlap, a known dtype must match the byte count, keys must not repeat, names must be UTF-8.
/// Memory is bounded by the header's true size. Anything else: BAD_FILE naming `file`, the tensor and the bytes.
SafetensorsHeader parse_safetensors(std::span<const uint8_t> bytes, std::string_view file);

/// A mapped safetensors file. Only the header is read on opening.
class Safetensors {
  public:
    explicit Safetensors(const std::filesystem::path& path);

    const std::filesystem::path& path() const { return path_; }
    std::span<const TensorEntry> entries() const { return header_.tensors; }
    const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
    /// nullptr when there is none of that name.
    const TensorEntry* find(std::string_view name) const;
    /// The tensor's bytes, kept mapped by the result. BOOL is given as U8. A dtype that the library does not take
    /// (F64, F4, F8_E8M0 ...) is BAD_FILE by name.
    Tensor tensor(const TensorEntry& entry) const;
    Tensor tensor(std::string_view name) const;  // throws BAD_FILE with the names that are there

  private:
    std::filesystem::path path_;
    std::shared_ptr<const MappedFile> file_;
    SafetensorsHeader header_;
};

/// The library's type of a safetensors dtype; UNSET for those that it does not take.
nvfp4r_dtype dtype_from_name(std::string_view dtype);

/// Writes the tensors in the given order, header padded to 8 bytes. Appears whole or not at all.
void write_safetensors(const std::filesystem::path& path, std::span<const Tensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace nvfp4r
