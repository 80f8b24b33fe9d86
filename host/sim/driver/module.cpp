#include "sim/driver/module.hpp"

#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "sim/driver/capture.hpp"
#include "sim/driver/device_shape.hpp"
#include "sim/driver/entries.hpp"
#include "sim/driver/queue.hpp"

namespace nvfp4r::sim::driver {

namespace {

constexpr char kElf[] =
    "\x7f"
    "ELF";
constexpr uint32_t kFatBinary = 0xba55ed50, kFatBinaryWrapper = 0x466243b1;

/// Number and suffix of a target: "sm_100a" -> 100, 'a'.
bool split_target(std::string_view target, uint32_t& number, char& suffix) {
    if (!target.starts_with("sm_")) return false;
    const char* end = target.data() + target.size();
    const auto [rest, error] = std::from_chars(target.data() + 3, end, number);
    suffix = rest == end ? '\0' : *rest;
    return error == std::errc{} && end - rest <= 1;
}

bool target_runs_on(uint32_t number, char suffix, uint32_t sm) {
    switch (suffix) {
        case '\0': return number <= sm;                           // any later GPU
        case 'a': return number == sm;                            // exactly this one
        case 'f': return number <= sm && number / 10 == sm / 10;  // later members of the family (PTX ISA, .target)
        default: return false;
    }
}

}  // namespace

std::string_view ptx_text(const void* image) {
    require_pointer(image, "image");
    uint32_t word = 0;
    // Byte for byte: a text may be shorter than the magic numbers.
    const auto* bytes = static_cast<const unsigned char*>(image);
    for (int i = 0; i < 4 && bytes[i] != 0; ++i) word |= uint32_t{bytes[i]} << 8 * i;
    if (std::memcmp(&word, kElf, sizeof word) == 0)
        refuse(CUDA_ERROR_NO_BINARY_FOR_GPU, "the image is a cubin: the simulator loads PTX");
    if (word == kFatBinary || word == kFatBinaryWrapper)
        refuse(CUDA_ERROR_NO_BINARY_FOR_GPU, "the image is a fat binary: the simulator loads PTX");
    return {static_cast<const char*>(image)};
}

// The head decides before the body is read: an instruction of a later PTX would only be called unknown.
void check_ptx_head(std::string_view ptx, uint32_t sm) {
    const auto word_after = [&](std::string_view directive) -> std::string {
        const size_t at = ptx.find(directive);
        if (at == std::string_view::npos) return "";  // the parser says what is missing
        const size_t begin = ptx.find_first_not_of(" \t", at + directive.size());
        return std::string(ptx.substr(std::min(begin, ptx.size()), ptx.find_first_of(" \t\r\n,;/", begin) - begin));
    };
    unsigned major = 0, minor = 0;
    const std::string version = word_after(".version");
    if (std::sscanf(version.c_str(), "%u.%u", &major, &minor) == 2 &&
        std::pair(major, minor) > std::pair(kNewestPtxMajor, kNewestPtxMinor)) {
        refuse(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, ".version {}: this driver takes PTX up to {}.{}", version,
               kNewestPtxMajor, kNewestPtxMinor);
    }
    uint32_t number = 0;
    char suffix = '\0';
    const std::string target = word_after(".target");
    if (split_target(target, number, suffix) && !target_runs_on(number, suffix, sm))
        refuse(CUDA_ERROR_INVALID_PTX, ".target {} does not run on sm_{}a", target, sm);
}

CUmod_st& load_module(Call& call, std::string_view ptx) {
    refuse_during_capture(call);
    auto module = std::make_unique<CUmod_st>();
    module->context = call.context;
    Gpu& gpu = *call.device().gpu;
    check_ptx_head(ptx, gpu.config().sm);
    module->loaded = gpu.load(ptx);
    for (const Variable& variable : module->loaded->module().globals) {
        uint64_t address = 0, bytes = 0;
        if (!module->loaded->global(variable.name, address, bytes)) continue;
        state().memory[address] = {address,           bytes,        MemoryKind::variable,       0,
                                   state().next_id++, call.context, "variable " + variable.name};
    }
    return state().modules.add(std::move(module));
}

void remove_module(CUmod_st& module) {
    for (const Variable& variable : module.loaded->module().globals) {
        uint64_t address = 0, bytes = 0;
        if (module.loaded->global(variable.name, address, bytes)) state().memory.erase(address);
    }
    state().modules.remove(&module);
}

CUfunc_st& module_function(CUmod_st& module, const char* name) {
    require_pointer(name, "name");
    auto& slot = module.functions[name];
    if (slot) return *slot;
    const Program* program = module.loaded->entry(name);
    if (program == nullptr) {
        module.functions.erase(name);
        refuse(CUDA_ERROR_NOT_FOUND, "the module has no entry {}", name);
    }
    slot = std::make_unique<CUfunc_st>();
    slot->module = &module;
    slot->name = name;
    slot->program = program;
    slot->max_dynamic_shared =
        std::max(0, static_cast<int>(kDefaultSharedBytes) - static_cast<int>(program->static_shared));
    return *slot;
}

CUfunc_st& kernel_function(Call& call, CUkernel handle) {
    CUlib_st* library = nullptr;
    for (const auto& [key, candidate] : state().libraries) {
        for (const auto& [name, kernel] : candidate->kernels) {
            if (kernel.get() == handle) library = candidate.get();
        }
    }
    if (library == nullptr) refuse(CUDA_ERROR_INVALID_HANDLE, "function {} does not exist", static_cast<void*>(handle));
    CUmodule& module = library->modules[call.context];
    if (module == nullptr) {
        module = &load_module(call, library->ptx);
        module->library = library;
    }
    return module_function(*module, handle->name.c_str());
}

CUfunc_st& function_of(Call& call, CUfunction handle) {
    for (const auto& [key, module] : state().modules) {
        for (const auto& [name, function] : module->functions) {
            if (function.get() != handle) continue;
            if (module->context != call.context)
                refuse(CUDA_ERROR_INVALID_HANDLE, "kernel {} belongs to another context", name);
            return *function;
        }
    }
    return kernel_function(call, reinterpret_cast<CUkernel>(handle));
}

namespace cu {

namespace {

/// The text buffer that an option pair of cuModuleLoadDataEx names.
struct ErrorLog {
    char* text = nullptr;
    size_t room = 0;

    ErrorLog(unsigned count, const CUjit_option* options, void* const* values) {
        for (unsigned i = 0; i < count; ++i) {
            if (options[i] == CU_JIT_ERROR_LOG_BUFFER) text = static_cast<char*>(values[i]);
            // Numbers of options stand in the pointer itself.
            if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
                room = reinterpret_cast<size_t>(values[i]) & 0xffffffffu;
        }
    }
    void write(const std::string& message) const {
        if (text != nullptr && room != 0) std::snprintf(text, room, "%s", message.c_str());
    }
};

}  // namespace

CUresult cuModuleLoadDataEx(CUmodule* handle, const void* image, unsigned count, CUjit_option* options, void** values) {
    const CUresult result = in_context("cuModuleLoadData", [&](Call& call) {
        require_pointer(handle, "module");
        state().last_report.clear();
        *handle = &load_module(call, ptx_text(image));
    });
    if (result != CUDA_SUCCESS) {
        const std::lock_guard lock(state().mutex);
        ErrorLog(options != nullptr && values != nullptr ? count : 0, options, values).write(state().last_report);
    }
    return result;
}

CUresult cuModuleLoadData(CUmodule* handle, const void* image) {
    return cu::cuModuleLoadDataEx(handle, image, 0, nullptr, nullptr);
}

CUresult cuModuleLoad(CUmodule* handle, const char* path) {
    if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::ifstream file(path, std::ios::binary);
    if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
    const std::string image(std::istreambuf_iterator<char>(file), {});
    return cu::cuModuleLoadData(handle, image.c_str());
}

CUresult cuModuleUnload(CUmodule handle) {
    return in_context("cuModuleUnload", [&](Call& call) {
        CUmod_st& module = live(state().modules, handle, "module");
        if (module.library != nullptr)
            refuse(CUDA_ERROR_NOT_PERMITTED, "the module belongs to a library, which is unloaded as a whole");
        drain(call, module.context->device);
        remove_module(module);
    });
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule handle, const char* name) {
    return in_context("cuModuleGetFunction", [&](Call&) {
        require_pointer(function, "hfunc");
        *function = &module_function(live(state().modules, handle, "module"), name);
    });
}

CUresult cuModuleGetGlobal(CUdeviceptr* address, size_t* bytes, CUmodule handle, const char* name) {
    return in_context("cuModuleGetGlobal", [&](Call&) {
        require_pointer(name, "name");
        uint64_t where = 0, size = 0;
        if (!live(state().modules, handle, "module").loaded->global(name, where, size))
            refuse(CUDA_ERROR_NOT_FOUND, "the module has no variable {}", name);
        if (address != nullptr) *address = where;
        if (bytes != nullptr) *bytes = size;
    });
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
    return in_driver("cuModuleGetLoadingMode", [&](Call&) {
        require_pointer(mode, "mode");
        *mode = CU_MODULE_EAGER_LOADING;
    });
}

}  // namespace cu

}  // namespace nvfp4r::sim::driver
