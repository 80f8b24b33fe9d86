#include "jit/jit.hpp"

#include <algorithm>

#include "jit/cache_key.hpp"
#include "jit/embedded.hpp"
#include "jit/nvrtc.hpp"

namespace nvfp4r {

namespace {

std::string_view built_in_file(const std::string& name) {
    const auto files = embedded_kernels();
    const auto file = std::find_if(files.begin(), files.end(), [&](const EmbeddedFile& f) { return f.name == name; });
    return file != files.end() ? file->bytes : std::string_view();
}

std::optional<CompiledKernel> built_in_kernel(const CompileRequest& request) {
    if (embedded_kernels().empty()) return std::nullopt;
    const std::string key = request_key(request);
    const std::string_view cubin = built_in_file(key + ".cubin");
    const std::string_view ptx = built_in_file(key + ".ptx");
    if (cubin.empty() || ptx.empty()) return std::nullopt;
    return CompiledKernel{std::string(cubin), std::string(ptx), "", "built in"};
}

}  // namespace

CompiledKernel get_kernel(const CompileRequest& request, const DiskCache& cache) {
    if (auto kernel = built_in_kernel(request)) return *std::move(kernel);
    const NvrtcApi& api = nvrtc();
    const std::string key = cache_key(request, api.version());
    if (auto kernel = cache.load(key)) return *std::move(kernel);
    CompiledKernel kernel = compile(api, request);
    cache.store(key, kernel);
    return kernel;
}

CompiledKernel get_kernel(const CompileRequest& request) {
    return get_kernel(request, DiskCache(default_cache_folder()));
}

}  // namespace nvfp4r
