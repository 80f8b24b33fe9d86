// Libraries: code that belongs to no context and is loaded into each one that asks for a kernel or a variable.
#include <fstream>
#include <iterator>

#include "sim/driver/entries.hpp"
#include "sim/driver/function.hpp"
#include "sim/driver/module.hpp"
#include "sim/driver/queue.hpp"

namespace nvfp4r::sim::driver::cu {

namespace {

CUkern_st& existing_kernel(CUkernel handle) {
    for (const auto& [key, library] : state().libraries) {
        for (const auto& [name, kernel] : library->kernels) {
            if (kernel.get() == handle) return *kernel;
        }
    }
    refuse(CUDA_ERROR_INVALID_HANDLE, "kernel {} does not exist", static_cast<void*>(handle));
}

CUmod_st& library_module(Call& call, CUlib_st& library) {
    CUmodule& module = library.modules[call.context];
    if (module == nullptr) {
        module = &load_module(call, library.ptx);
        module->library = &library;
    }
    return *module;
}

}  // namespace

CUresult cuLibraryLoadData(CUlibrary* handle, const void* code, CUjit_option*, void**, unsigned, CUlibraryOption*,
                           void**, unsigned) {
    return in_driver("cuLibraryLoadData", [&](Call&) {
        require_pointer(handle, "library");
        auto library = std::make_unique<CUlib_st>();
        library->ptx = ptx_text(code);
        library->parsed = parse_ptx(library->ptx);
        *handle = &state().libraries.add(std::move(library));
    });
}

CUresult cuLibraryLoadFromFile(CUlibrary* handle, const char* path, CUjit_option* options, void** values,
                               unsigned count, CUlibraryOption* library_options, void** library_values,
                               unsigned library_count) {
    if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::ifstream file(path, std::ios::binary);
    if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
    const std::string code(std::istreambuf_iterator<char>(file), {});
    return cu::cuLibraryLoadData(handle, code.c_str(), options, values, count, library_options, library_values,
                                 library_count);
}

CUresult cuLibraryUnload(CUlibrary handle) {
    return in_driver("cuLibraryUnload", [&](Call& call) {
        CUlib_st& library = live(state().libraries, handle, "library");
        for (const auto& [context, module] : library.modules) drain(call, context->device);
        for (const auto& [context, module] : library.modules) remove_module(*module);
        state().libraries.remove(&library);
    });
}

CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary handle, const char* name) {
    return in_driver("cuLibraryGetKernel", [&](Call&) {
        require_pointer(kernel, "pKernel");
        require_pointer(name, "name");
        CUlib_st& library = live(state().libraries, handle, "library");
        const Function* function = library.parsed->find(name);
        if (function == nullptr || !function->is_entry)
            refuse(CUDA_ERROR_NOT_FOUND, "the library has no entry {}", name);
        auto& slot = library.kernels[name];
        if (!slot) slot = std::make_unique<CUkern_st>(CUkern_st{&library, name});
        *kernel = slot.get();
    });
}

CUresult cuLibraryGetModule(CUmodule* module, CUlibrary handle) {
    return in_context("cuLibraryGetModule", [&](Call& call) {
        require_pointer(module, "pMod");
        *module = &library_module(call, live(state().libraries, handle, "library"));
    });
}

CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary handle, const char* name) {
    return in_context("cuLibraryGetGlobal", [&](Call& call) {
        require_pointer(name, "name");
        uint64_t where = 0, size = 0;
        if (!library_module(call, live(state().libraries, handle, "library")).loaded->global(name, where, size))
            refuse(CUDA_ERROR_NOT_FOUND, "the library has no variable {}", name);
        if (address != nullptr) *address = where;
        if (bytes != nullptr) *bytes = size;
    });
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel handle) {
    return in_context("cuKernelGetFunction", [&](Call& call) {
        require_pointer(function, "pFunc");
        *function = &kernel_function(call, &existing_kernel(handle));
    });
}

CUresult cuKernelGetName(const char** name, CUkernel handle) {
    return in_driver("cuKernelGetName", [&](Call&) {
        require_pointer(name, "name");
        *name = existing_kernel(handle).name.c_str();
    });
}

CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel handle, CUdevice) {
    return in_context("cuKernelGetAttribute", [&](Call& call) {
        require_pointer(value, "pi");
        *value = function_attribute(kernel_function(call, &existing_kernel(handle)), attribute);
    });
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel handle, CUdevice) {
    return in_context("cuKernelSetAttribute", [&](Call& call) {
        set_function_attribute(kernel_function(call, &existing_kernel(handle)), attribute, value);
    });
}

}  // namespace nvfp4r::sim::driver::cu
