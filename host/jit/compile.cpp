#include "jit/compile.hpp"

#include <algorithm>
#include <charconv>
#include <memory>

#include "core/error.hpp"

namespace nvfp4r {

namespace {

void check_nvrtc(const NvrtcApi& api, nvrtcResult result, const char* call, const CompileRequest& request) {
    if (result == NVRTC_SUCCESS) return;
    fail(NVFP4R_COMPILE_ERROR, "{} ({} for {}): {}", call, request.source.name, request.arch,
         api.nvrtcGetErrorString(result));
}

/// "sm_103a" -> 103
int arch_number(const std::string& arch) {
    int number = 0;
    if (arch.starts_with("sm_")) std::from_chars(arch.data() + 3, arch.data() + arch.size(), number);
    return number;
}

void check_arch(const NvrtcApi& api, const CompileRequest& request) {
    int count = 0;
    check_nvrtc(api, api.nvrtcGetNumSupportedArchs(&count), "nvrtcGetNumSupportedArchs", request);
    std::vector<int> archs(static_cast<std::size_t>(count));
    check_nvrtc(api, api.nvrtcGetSupportedArchs(archs.data()), "nvrtcGetSupportedArchs", request);
    if (std::find(archs.begin(), archs.end(), arch_number(request.arch)) != archs.end()) return;
    fail(NVFP4R_UNSUPPORTED,
         "{}: NVRTC {} ({}) does not know this architecture, only sm_{}: sm_103 needs CUDA 12.9, sm_110 needs 13.0",
         request.arch, api.version(), api.path, fmt::join(archs, ", "));
}

std::string program_log(const NvrtcApi& api, nvrtcProgram program) {
    std::size_t size = 0;
    if (api.nvrtcGetProgramLogSize(program, &size) != NVRTC_SUCCESS || size <= 1) return "";
    std::string log(size, '\0');
    if (api.nvrtcGetProgramLog(program, log.data()) != NVRTC_SUCCESS) return "";
    log.resize(size - 1);  // the size counts the closing NUL
    return log;
}

}  // namespace

std::vector<std::string> compile_options(const CompileRequest& request) {
    // -lineinfo costs nothing at run time and lets the simulator name source lines.
    std::vector<std::string> options = {"--gpu-architecture=" + request.arch, "--std=c++20", "-lineinfo"};
    options.insert(options.end(), request.options.begin(), request.options.end());
    return options;
}

CompiledKernel compile(const NvrtcApi& api, const CompileRequest& request) {
    check_arch(api, request);
    std::vector<const char*> header_texts, header_names, option_texts;
    for (const SourceFile& header : request.headers) {
        header_texts.push_back(header.text.c_str());
        header_names.push_back(header.name.c_str());
    }
    const std::vector<std::string> options = compile_options(request);
    for (const std::string& option : options) option_texts.push_back(option.c_str());

    nvrtcProgram raw = nullptr;
    check_nvrtc(api,
                api.nvrtcCreateProgram(&raw, request.source.text.c_str(), request.source.name.c_str(),
                                       static_cast<int>(header_texts.size()), header_texts.data(), header_names.data()),
                "nvrtcCreateProgram", request);
    const auto destroy = [&api](nvrtcProgram program) { api.nvrtcDestroyProgram(&program); };
    const std::unique_ptr<std::remove_pointer_t<nvrtcProgram>, decltype(destroy)> program(raw, destroy);

    const nvrtcResult result = api.nvrtcCompileProgram(raw, static_cast<int>(option_texts.size()), option_texts.data());
    CompiledKernel kernel;
    kernel.log = program_log(api, raw);
    kernel.origin = "compiled";
    if (result != NVRTC_SUCCESS) {
        const char* remedy =
            result == NVRTC_ERROR_BUILTIN_OPERATION_FAILURE ? "; libnvrtc-builtins belongs beside libnvrtc" : "";
        fail(NVFP4R_COMPILE_ERROR, "nvrtcCompileProgram ({} for {}, NVRTC {} of {}): {}{}\n{}", request.source.name,
             request.arch, api.version(), api.path, api.nvrtcGetErrorString(result), remedy, kernel.log);
    }
    std::size_t size = 0;
    check_nvrtc(api, api.nvrtcGetPTXSize(raw, &size), "nvrtcGetPTXSize", request);
    kernel.ptx.resize(size);
    check_nvrtc(api, api.nvrtcGetPTX(raw, kernel.ptx.data()), "nvrtcGetPTX", request);
    while (!kernel.ptx.empty() && kernel.ptx.back() == '\0') kernel.ptx.pop_back();
    check_nvrtc(api, api.nvrtcGetCUBINSize(raw, &size), "nvrtcGetCUBINSize", request);
    kernel.cubin.resize(size);
    check_nvrtc(api, api.nvrtcGetCUBIN(raw, kernel.cubin.data()), "nvrtcGetCUBIN", request);
    return kernel;
}

}  // namespace nvfp4r
