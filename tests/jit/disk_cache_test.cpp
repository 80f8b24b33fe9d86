#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/error.hpp"
#include "jit/cache_key.hpp"
#include "jit/jit.hpp"
#include "tiny_kernel.hpp"

using namespace nvfp4r;
using Catch::Matchers::Contains;
using nvfp4r::test::tiny_request;
namespace fs = std::filesystem;

namespace {

/// A folder that goes away with the test.
struct TemporaryFolder {
    fs::path path;
    TemporaryFolder() {
        std::string pattern = (fs::temp_directory_path() / "nvfp4r-cache-XXXXXX").string();
        path = ::mkdtemp(pattern.data());
    }
    ~TemporaryFolder() { fs::remove_all(path); }
};

/// Sets or (nullptr) unsets a variable until the end of the scope.
class Environment {
  public:
    Environment(const char* name, const char* value) : name_(name) {
        if (const char* old = std::getenv(name)) saved_ = old;
        value != nullptr ? setenv(name, value, 1) : unsetenv(name);
    }
    ~Environment() { saved_ ? setenv(name_, saved_->c_str(), 1) : unsetenv(name_); }

  private:
    const char* name_;
    std::optional<std::string> saved_;
};

CompiledKernel sample_kernel(char fill = 'c') {
    return {std::string(100000, fill), "// ptx\n", "log\n", "compiled"};
}

std::string read_file(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}
void write_file(const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace

TEST_CASE("C49 everything that changes the code changes the key", "[jit]") {
    const CompileRequest base = tiny_request();
    std::vector<std::string> keys = {cache_key(base, "13.0"), cache_key(base, "12.9")};
    CompileRequest other = base;
    other.arch = "sm_100a";
    keys.push_back(cache_key(other, "13.0"));
    other = base;
    other.source.text += " ";
    keys.push_back(cache_key(other, "13.0"));
    other = base;
    other.headers[0].text += " ";
    keys.push_back(cache_key(other, "13.0"));
    other = base;
    other.headers[0].name += "h";
    keys.push_back(cache_key(other, "13.0"));
    other = base;
    other.options = {"-DFACTOR=4.0f"};
    keys.push_back(cache_key(other, "13.0"));
    other = base;
    other.options = {"-DFACTOR=3.0f", "-DX"};
    keys.push_back(cache_key(other, "13.0"));
    other = base;
    other.options = {"-DFACTOR=3.0f-DX"};
    keys.push_back(cache_key(other, "13.0"));
    std::sort(keys.begin(), keys.end());
    CHECK(std::adjacent_find(keys.begin(), keys.end()) == keys.end());
    CHECK(cache_key(base, "13.0") == cache_key(tiny_request(), "13.0"));
}

TEST_CASE("an entry comes back as it was stored", "[jit]") {
    const TemporaryFolder folder;
    const DiskCache cache(folder.path / "made" / "by store");
    CHECK_FALSE(cache.load("key"));
    CHECK(cache.store("key", sample_kernel()).empty());
    const auto loaded = cache.load("key");
    REQUIRE(loaded);
    CHECK(loaded->cubin == sample_kernel().cubin);
    CHECK(loaded->ptx == sample_kernel().ptx);
    CHECK(loaded->log == sample_kernel().log);
    CHECK(loaded->origin == "cache");
    CHECK_FALSE(cache.load("other"));
}

TEST_CASE("C50 truncated or damaged entries count as absent", "[jit]") {
    const TemporaryFolder folder;
    const DiskCache cache(folder.path);
    REQUIRE(cache.store("key", sample_kernel()).empty());
    const std::string whole = read_file(cache.entry_path("key"));
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{20}, whole.find('\n'),
                                   whole.find('\n') + 1, whole.size() / 2, whole.size() - 1}) {
        write_file(cache.entry_path("key"), whole.substr(0, size));
        INFO("cut to " << size);
        CHECK_FALSE(cache.load("key"));
    }
    for (std::size_t at = 0; at < whole.size(); at += at < 200 ? 1 : 9973) {
        std::string damaged = whole;
        damaged[at] = static_cast<char>(damaged[at] ^ 1);
        write_file(cache.entry_path("key"), damaged);
        INFO("bit flipped in byte " << at);
        CHECK_FALSE(cache.load("key"));
    }
    write_file(cache.entry_path("key"), whole + "x");
    CHECK_FALSE(cache.load("key"));
    // An entry under the name of another is not that other.
    write_file(cache.entry_path("other"), whole);
    CHECK_FALSE(cache.load("other"));
    CHECK(cache.store("key", sample_kernel()).empty());
    CHECK(cache.load("key"));
}

TEST_CASE("C50 a writer killed at any moment leaves no broken entry", "[jit]") {
    const TemporaryFolder folder;
    const DiskCache cache(folder.path);
    CompiledKernel kernel = sample_kernel();
    kernel.cubin.resize(1 << 20, 'k');
    for (int round = 0; round < 10; ++round) {
        const std::string key = "key" + std::to_string(round);
        const pid_t child = fork();
        if (child == 0) {
            cache.store(key, kernel);
            _exit(0);
        }
        usleep(static_cast<useconds_t>(round * 1000));
        kill(child, SIGKILL);
        int status = 0;
        waitpid(child, &status, 0);
        if (fs::exists(cache.entry_path(key))) CHECK(cache.load(key));
        CHECK(cache.store(key, kernel).empty());
        CHECK(cache.load(key));
    }
}

TEST_CASE("C50 two processes and several threads store and load at once", "[jit][threads]") {
    const TemporaryFolder folder;
    const DiskCache cache(folder.path);
    const auto work = [&cache](char fill) {
        int bad = 0;
        for (int i = 0; i < 50; ++i) {
            if (!cache.store("key", sample_kernel(fill)).empty()) ++bad;
            const auto loaded = cache.load("key");
            if (!loaded || loaded->cubin.size() != 100000) ++bad;
        }
        return bad;
    };
    const pid_t child = fork();
    if (child == 0) _exit(work('p'));
    int bad[2] = {};
    std::thread first([&] { bad[0] = work('a'); }), second([&] { bad[1] = work('b'); });
    first.join();
    second.join();
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(status == 0);
    CHECK(bad[0] == 0);
    CHECK(bad[1] == 0);
    CHECK(std::distance(fs::directory_iterator(folder.path), {}) == 1);  // no temporary file stays
}

TEST_CASE("the cache folder follows NVFP4R_CACHE_DIR, XDG_CACHE_HOME and HOME", "[jit]") {
    const Environment home("HOME", "/home/someone");
    const Environment xdg("XDG_CACHE_HOME", nullptr);
    const Environment own("NVFP4R_CACHE_DIR", nullptr);
    CHECK(default_cache_folder() == "/home/someone/.cache/nvfp4router");
    const Environment xdg_set("XDG_CACHE_HOME", "/var/cache/x");
    CHECK(default_cache_folder() == "/var/cache/x/nvfp4router");
    const Environment own_set("NVFP4R_CACHE_DIR", "relative/mine");
    CHECK(default_cache_folder() == "relative/mine");
}

TEST_CASE("C50 a missing HOME or a folder that cannot be written is never fatal", "[jit]") {
    const TemporaryFolder folder;
    {
        const Environment home("HOME", nullptr);
        const Environment xdg("XDG_CACHE_HOME", "not/absolute");
        const Environment own("NVFP4R_CACHE_DIR", nullptr);
        CHECK(default_cache_folder().empty());
        const DiskCache none(default_cache_folder());
        CHECK_THAT(none.store("key", sample_kernel()), Contains("HOME"));
        CHECK_FALSE(none.load("key"));
    }
    // A file where the folder should be refuses even root, which a read-only mode does not.
    write_file(folder.path / "file", "in the way");
    const DiskCache blocked(folder.path / "file" / "cache");
    CHECK_THAT(blocked.store("key", sample_kernel()), Contains("file"));
    CHECK_FALSE(blocked.load("key"));
    const DiskCache at_file(folder.path / "file");
    CHECK_FALSE(at_file.store("key", sample_kernel()).empty());
}

TEST_CASE("a second request for a kernel comes from the cache, a damaged one is made again", "[jit]") {
    try {
        nvrtc();
    } catch (const Error&) {
        WARN("no NVRTC here: not tested");
        return;
    }
    const TemporaryFolder folder;
    const DiskCache cache(folder.path);
    const CompileRequest request = tiny_request();
    const CompiledKernel first = get_kernel(request, cache);
    const CompiledKernel second = get_kernel(request, cache);
    CHECK(first.origin == "compiled");
    CHECK(second.origin == "cache");
    CHECK(second.cubin == first.cubin);
    CHECK(second.ptx == first.ptx);
    fs::resize_file(cache.entry_path(cache_key(request, nvrtc().version())), 100);
    CHECK(get_kernel(request, cache).origin == "compiled");
    CHECK(get_kernel(request, cache).origin == "cache");
}
