// Files that appear whole or not at all: written under a temporary name in the same folder, synced, then renamed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace nvfp4r {

/// A file being written. Until commit() the target keeps its old contents; without a commit nothing is left behind.
/// Every failure throws IO_ERROR with the path and the system's reason.
class AtomicFile {
  public:
    explicit AtomicFile(const std::filesystem::path& target);
    ~AtomicFile();
    AtomicFile(const AtomicFile&) = delete;
    AtomicFile& operator=(const AtomicFile&) = delete;

    void write(std::span<const uint8_t> bytes);
    void write(std::string_view text);
    void commit();

  private:
    std::filesystem::path target_;
    std::string temporary_;
    int descriptor_ = -1;
};

void write_file(const std::filesystem::path& target, std::string_view text);

}  // namespace nvfp4r
