// Looking functions up by name: cuGetProcAddress, and the private tables that the CUDA runtime asks for.
#include <dlfcn.h>

#include <cstring>
#include <string>

#include "sim/driver/entries.hpp"
#include "sim/driver/sim_driver.hpp"
#include "sim/driver/state.hpp"

namespace {

using nvfp4r::sim::driver::log_once;

struct Entry {
    const char* name;
    void* address;
};

const Entry kEntries[] = {
#define NVFP4R_ENTRY(name) {#name, reinterpret_cast<void*>(&nvfp4r::sim::driver::cu::name)},
    NVFP4R_DRIVER_ENTRIES(NVFP4R_ENTRY) NVFP4R_SIM_MORE_ENTRIES(NVFP4R_ENTRY)
#undef NVFP4R_ENTRY
};

/// Functions whose form changed: callers that ask for an older CUDA version would get another structure than they have.
constexpr struct {
    const char* name;
    int version;
} kOldestForm[] = {{"cuGraphAddKernelNode", 12000},
                   {"cuGraphKernelNodeGetParams", 12000},
                   {"cuGraphKernelNodeSetParams", 12000},
                   {"cuGraphExecKernelNodeSetParams", 12000},
                   {"cuGraphExecUpdate", 12000},
                   {"cuStreamBeginCapture", 10010},
                   {"cuMemAlloc", 3020}};

/// An exported symbol of this library itself.
void* own_symbol(const std::string& name) {
    Dl_info info = {};
    if (dladdr(reinterpret_cast<const void*>(kEntries), &info) == 0) return nullptr;
    void* self = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (self == nullptr) return nullptr;
    void* address = dlsym(self, name.c_str());
    dlclose(self);
    return address;
}

void* versioned(const std::string& name, int version) {
    // cuda.h: _v3 came with CUDA 11.4, _v4 with 12.5; cuGetProcAddress got its last argument with 12.0.
    if (name == "cuCtxCreate")
        return own_symbol(version >= 12050 ? "cuCtxCreate_v4" : version >= 11040 ? "cuCtxCreate_v3" : "cuCtxCreate_v2");
    if (name == "cuGetProcAddress") return own_symbol(version >= 12000 ? "cuGetProcAddress_v2" : "cuGetProcAddress");
    for (const Entry& entry : kEntries) {
        if (name == entry.name) return entry.address;
    }
    return own_symbol(name);
}

CUresult proc_address(const char* name, void** address, int version, CUdriverProcAddressQueryResult* status) {
    if (name == nullptr || address == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    *address = versioned(name, version);
    if (*address != nullptr) found = CU_GET_PROC_ADDRESS_SUCCESS;
    for (const auto& form : kOldestForm) {
        if (std::strcmp(name, form.name) != 0 || version >= form.version) continue;
        *address = nullptr;
        found = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    }
    if (status != nullptr) *status = found;
    return *address != nullptr || status != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

}  // namespace

#undef cuGetProcAddress

extern "C" {

CUresult cuGetProcAddress_v2(const char* name, void** address, int version, cuuint64_t,
                             CUdriverProcAddressQueryResult* status) {
    return proc_address(name, address, version, status);
}

CUresult cuGetProcAddress(const char* name, void** address, int version, cuuint64_t) {
    return proc_address(name, address, version, nullptr);
}

// Undocumented tables, by which the CUDA runtime reaches past the driver API.
CUresult cuGetExportTable(const void** table, const CUuuid*) {
    log_once(
        "cuGetExportTable: the driver's private tables are not simulated (a program of the CUDA runtime needs them)");
    if (table != nullptr) *table = nullptr;
    return CUDA_ERROR_NOT_SUPPORTED;
}

/// The text of the last fault or refusal, for programs and debuggers. Valid until this thread asks again.
const char* nvfp4r_sim_last_report(void) {
    thread_local std::string text;
    text = nvfp4r::sim::driver::last_report();
    return text.c_str();
}

/// What every function of the driver that is not simulated does (see scripts/driver-refusals).
int nvfp4r_sim_refuse(const char* name) {
    log_once(std::string(name) + " is not simulated");
    return CUDA_ERROR_NOT_SUPPORTED;
}

}  // extern "C"
