#include "format/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.hpp"

namespace nvfp4r {

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) fail(NVFP4R_IO_ERROR, "cannot open {}: {}", path.string(), std::strerror(errno));
    struct stat status {};
    void* address = nullptr;
    int error = ::fstat(descriptor, &status) != 0 ? errno : 0;
    if (error == 0 && !S_ISREG(status.st_mode)) error = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
    const size_t size = error == 0 ? static_cast<size_t>(status.st_size) : 0;
    if (size > 0) {
        address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (address == MAP_FAILED) error = errno;
    }
    ::close(descriptor);
    if (error != 0) fail(NVFP4R_IO_ERROR, "cannot read {}: {}", path.string(), std::strerror(error));
    return std::shared_ptr<const MappedFile>(new MappedFile({static_cast<const uint8_t*>(address), size}));
}

MappedFile::~MappedFile() {
    if (!bytes_.empty()) ::munmap(const_cast<uint8_t*>(bytes_.data()), bytes_.size());
}

}  // namespace nvfp4r
