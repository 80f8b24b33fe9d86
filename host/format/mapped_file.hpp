// A file mapped for reading: bytes come from disk when they are touched.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace nvfp4r {

class MappedFile {
  public:
    /// Throws IO_ERROR with the path and the system's reason. An empty file maps to no bytes.
    static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    std::span<const uint8_t> bytes() const { return bytes_; }

  private:
    explicit MappedFile(std::span<const uint8_t> bytes) : bytes_(bytes) {}
    std::span<const uint8_t> bytes_;
};

}  // namespace nvfp4r
