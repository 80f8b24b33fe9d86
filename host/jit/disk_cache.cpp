// An entry: one header line with the key and the three sizes, the digest of the payload, then cubin, PTX and log.
//   nvfp4r-kernel <format> <key> <cubin bytes> <ptx bytes> <log bytes> <sha256 of the payload>\n<payload>
#include "jit/disk_cache.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "core/error.hpp"
#include "jit/cache_key.hpp"
#include "jit/sha256.hpp"

namespace nvfp4r {

namespace {

constexpr const char* kMagic = "nvfp4r-kernel";

std::string header_line(const std::string& key, const CompiledKernel& kernel, const std::string& digest) {
    return fmt::format("{} {} {} {} {} {} {}\n", kMagic, kCacheFormat, key, kernel.cubin.size(), kernel.ptx.size(),
                       kernel.log.size(), digest);
}

std::string payload_digest(const CompiledKernel& kernel) {
    return Sha256().update(kernel.cubin).update(kernel.ptx).update(kernel.log).hex();
}

std::string reason(const char* call, const std::filesystem::path& path) {
    return fmt::format("{} {}: {}", call, path.string(), std::strerror(errno));
}

bool write_all(int file, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(file, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}

/// Makes the rename itself last through a power cut.
void sync_folder(const std::filesystem::path& folder) {
    const int handle = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (handle < 0) return;
    ::fsync(handle);
    ::close(handle);
}

}  // namespace

std::filesystem::path default_cache_folder() {
    const auto variable = [](const char* name) {
        return std::filesystem::path(std::getenv(name) != nullptr ? std::getenv(name) : "");
    };
    if (const auto chosen = variable("NVFP4R_CACHE_DIR"); !chosen.empty()) return chosen;
    // The XDG base directory specification: a relative path is to be ignored.
    if (const auto xdg = variable("XDG_CACHE_HOME"); xdg.is_absolute()) return xdg / "nvfp4router";
    if (const auto home = variable("HOME"); home.is_absolute()) return home / ".cache" / "nvfp4router";
    return {};
}

std::optional<CompiledKernel> DiskCache::load(const std::string& key) const {
    if (folder_.empty()) return std::nullopt;
    std::ifstream file(entry_path(key), std::ios::binary);
    std::ostringstream whole;
    if (!file || !(whole << file.rdbuf())) return std::nullopt;
    const std::string bytes = std::move(whole).str();
    const std::size_t line_end = bytes.find('\n');
    if (line_end == std::string::npos) return std::nullopt;

    std::istringstream line(bytes.substr(0, line_end));
    std::string magic, entry_key, digest;
    int format = 0;
    std::size_t cubin = 0, ptx = 0, log = 0;
    line >> magic >> format >> entry_key >> cubin >> ptx >> log >> digest;
    const std::size_t payload = bytes.size() - line_end - 1;
    if (!line || magic != kMagic || format != kCacheFormat || entry_key != key) return std::nullopt;
    // Each size is checked by itself first, so that their sum cannot wrap.
    if (cubin > payload || ptx > payload || log > payload || cubin + ptx + log != payload) return std::nullopt;

    CompiledKernel kernel;
    kernel.cubin = bytes.substr(line_end + 1, cubin);
    kernel.ptx = bytes.substr(line_end + 1 + cubin, ptx);
    kernel.log = bytes.substr(line_end + 1 + cubin + ptx, log);
    kernel.origin = "cache";
    if (payload_digest(kernel) != digest) return std::nullopt;
    return kernel;
}

std::string DiskCache::store(const std::string& key, const CompiledKernel& kernel) const {
    if (folder_.empty()) return "no cache folder: NVFP4R_CACHE_DIR, XDG_CACHE_HOME and HOME are unset";
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    if (error) return fmt::format("mkdir {}: {}", folder_.string(), error.message());

    static std::atomic<unsigned> counter = 0;
    const std::filesystem::path temporary = folder_ / fmt::format("{}.tmp.{}.{}", key, ::getpid(), counter++);
    const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0) return reason("open", temporary);
    const bool written = write_all(file, header_line(key, kernel, payload_digest(kernel))) &&
                         write_all(file, kernel.cubin) && write_all(file, kernel.ptx) && write_all(file, kernel.log) &&
                         ::fsync(file) == 0;
    std::string failure = written ? "" : reason("write", temporary);
    if (::close(file) != 0 && failure.empty()) failure = reason("close", temporary);
    if (failure.empty() && ::rename(temporary.c_str(), entry_path(key).c_str()) != 0)
        failure = reason("rename", temporary);
    if (!failure.empty()) {
        ::unlink(temporary.c_str());
        return failure;
    }
    sync_folder(folder_);
    return "";
}

}  // namespace nvfp4r
