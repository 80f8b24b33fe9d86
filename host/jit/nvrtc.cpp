#include "jit/nvrtc.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>

#include "core/error.hpp"

namespace nvfp4r {

namespace {

constexpr const char* kLibraryNames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
constexpr const char* kLibraryFolders[] = {"lib64", "lib", "targets/x86_64-linux/lib"};

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
}

/// NVRTC looks for its builtins library by plain name only. When it lies beside NVRTC, off the loader's path (as in a
/// wheel), loading it here first makes that look-up succeed. Where it is missing NVRTC's own log says so.
void load_builtins(const NvrtcApi& api) {
    Dl_info info = {};
    if (dladdr(reinterpret_cast<void*>(api.nvrtcVersion), &info) == 0 || info.dli_fname == nullptr) return;
    const auto file = std::filesystem::path(info.dli_fname).parent_path() / ("libnvrtc-builtins.so." + api.version());
    if (file.is_absolute()) dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL);
}

}  // namespace

std::string NvrtcApi::version() const {
    return fmt::format("{}.{}", major, minor);
}

std::vector<std::string> nvrtc_candidates() {
    if (const std::string chosen = environment("NVFP4R_LIBNVRTC"); !chosen.empty()) return {chosen};
    std::vector<std::string> candidates(std::begin(kLibraryNames), std::end(kLibraryNames));
    for (const std::string& home : {environment("CUDA_HOME"), environment("CUDA_PATH"), std::string("/usr/local/cuda"),
                                    std::filesystem::absolute("build/cuda").string()}) {
        if (home.empty()) continue;
        for (const char* folder : kLibraryFolders) {
            for (const char* name : kLibraryNames) candidates.push_back(fmt::format("{}/{}/{}", home, folder, name));
        }
    }
    return candidates;
}

NvrtcApi open_nvrtc(const std::vector<std::string>& candidates) {
    void* library = nullptr;
    NvrtcApi api;
    std::string reason;
    for (const std::string& candidate : candidates) {
        library = dlopen(candidate.c_str(), RTLD_LAZY | RTLD_LOCAL);
        if (library != nullptr) {
            api.path = candidate;
            break;
        }
        if (reason.empty()) reason = dlerror();
    }
    if (library == nullptr) {
        fail(NVFP4R_NO_DEVICE,
             "NVRTC: not found ({}; tried {}): install the CUDA toolkit 12.9 or newer, or set CUDA_HOME or "
             "NVFP4R_LIBNVRTC",
             reason, fmt::join(candidates, ", "));
    }
#define NVFP4R_BIND(name)                                                   \
    api.name = reinterpret_cast<decltype(api.name)>(dlsym(library, #name)); \
    if (api.name == nullptr)                                                \
        fail(NVFP4R_NO_DEVICE, "{}: " #name " is missing: not NVRTC, or one older than 12.0", api.path);
    NVFP4R_NVRTC_ENTRIES(NVFP4R_BIND)
#undef NVFP4R_BIND
    const nvrtcResult result = api.nvrtcVersion(&api.major, &api.minor);
    if (result != NVRTC_SUCCESS)
        fail(NVFP4R_NO_DEVICE, "{}: nvrtcVersion: {}", api.path, api.nvrtcGetErrorString(result));
    load_builtins(api);
    return api;
}

const NvrtcApi& nvrtc() {
    static std::mutex mutex;
    static std::optional<NvrtcApi> api;
    const std::lock_guard lock(mutex);
    if (!api) api = open_nvrtc(nvrtc_candidates());
    return *api;
}

}  // namespace nvfp4r
