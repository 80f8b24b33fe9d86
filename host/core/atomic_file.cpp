#include "core/atomic_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/error.hpp"

namespace nvfp4r {
namespace {

[[noreturn]] void io_failure(const char* what, const std::filesystem::path& path) {
    fail(NVFP4R_IO_ERROR, "{} {}: {}", what, path.string(), std::strerror(errno));
}

/// mkstemp makes files that only the owner may read; a result file should have the usual permissions.
mode_t usual_mode() {
    const mode_t mask = ::umask(0);
    ::umask(mask);
    return 0666 & ~mask;
}

/// A rename is on disk only once its folder is. Some file systems refuse to sync folders: that is not our failure.
void sync_folder(const std::filesystem::path& file) {
    const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
    const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return;
    ::fsync(descriptor);
    ::close(descriptor);
}

}  // namespace

AtomicFile::AtomicFile(const std::filesystem::path& target) : target_(target) {
    temporary_ = target.string() + ".tmp-XXXXXX";
    descriptor_ = ::mkostemp(temporary_.data(), O_CLOEXEC);
    if (descriptor_ < 0) io_failure("cannot create a file beside", target_);
    ::fchmod(descriptor_, usual_mode());
}

AtomicFile::~AtomicFile() {
    if (descriptor_ < 0) return;
    ::close(descriptor_);
    ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const uint8_t> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) io_failure("cannot write", target_);
        bytes = bytes.subspan(static_cast<size_t>(written));
    }
}

void AtomicFile::write(std::string_view text) {
    write(std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

void AtomicFile::commit() {
    if (::fsync(descriptor_) != 0) io_failure("cannot sync", target_);
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) io_failure("cannot rename a finished file to", target_);
    ::close(descriptor_);
    descriptor_ = -1;
    sync_folder(target_);
}

void write_file(const std::filesystem::path& target, std::string_view text) {
    AtomicFile file(target);
    file.write(text);
    file.commit();
}

}  // namespace nvfp4r
