// libcuda_sim.so as other programs meet it: opened, linked against, and found as libcuda.so.1.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "driver_session.hpp"

using namespace nvfp4r;
using namespace nvfp4r::test;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

fs::path build_folder() {
    return fs::read_symlink("/proc/self/exe").parent_path();
}
fs::path library() {
    return build_folder() / "libcuda_sim.so";
}

std::string output_of(const std::string& command) {
    FILE* child = popen((command + " 2>&1").c_str(), "r");
    REQUIRE(child != nullptr);
    std::string output;
    char buffer[4096];
    while (const size_t got = fread(buffer, 1, sizeof buffer, child)) output.append(buffer, got);
    pclose(child);
    return output;
}

}  // namespace

TEST_CASE("the shared library binds as any driver and runs a kernel", "[sim][driver]") {
    const DriverApi api = open_driver(library().string());
    CHECK(api.version >= kOldestDriverVersion);
    CHECK(api.simulated);  // so the library gives it PTX
    CUcontext context = nullptr;
    CUmodule module = nullptr;
    CUfunction put = nullptr;
    CUdeviceptr where = 0;
    check(api, api.cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    check(api, api.cuCtxPushCurrent(context), "cuCtxPushCurrent");
    check(api, api.cuModuleLoadData(&module, kKernels), "cuModuleLoadData");
    check(api, api.cuModuleGetFunction(&put, module, "put"), "cuModuleGetFunction");
    check(api, api.cuMemAlloc(&where, 4), "cuMemAlloc");
    uint32_t value = 321, back = 0;
    void* parameters[] = {&where, &value};
    check(api, api.cuLaunchKernel(put, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr), "cuLaunchKernel");
    check(api, api.cuMemcpyDtoH(&back, where, 4), "cuMemcpyDtoH");
    CHECK(back == 321);
    check(api, api.cuCtxPopCurrent(nullptr), "cuCtxPopCurrent");
    check(api, api.cuDevicePrimaryCtxRelease(0), "cuDevicePrimaryCtxRelease");
}

TEST_CASE("what is not simulated says so once and is refused", "[sim][driver]") {
    void* handle = dlopen(library().c_str(), RTLD_NOW | RTLD_LOCAL);
    REQUIRE(handle != nullptr);
    const auto missing = reinterpret_cast<CUresult (*)(void*, void*)>(dlsym(handle, "cuArrayCreate_v2"));
    REQUIRE(missing != nullptr);
    CHECK(missing(nullptr, nullptr) == CUDA_ERROR_NOT_SUPPORTED);
    const auto tables = reinterpret_cast<CUresult (*)(const void**, const CUuuid*)>(dlsym(handle, "cuGetExportTable"));
    const void* table = &handle;
    const CUuuid id = {};
    CHECK(tables(&table, &id) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK(table == nullptr);
    const auto lookup =
        reinterpret_cast<CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*)>(
            dlsym(handle, "cuGetProcAddress_v2"));
    void* address = nullptr;
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
    CHECK(lookup("cuNoSuchFunction", &address, 13000, 0, &found) == CUDA_SUCCESS);
    CHECK(found == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    CHECK(address == nullptr);
    CHECK(lookup("cuGraphAddKernelNode", &address, 11000, 0, &found) == CUDA_SUCCESS);
    CHECK(found == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    CHECK(lookup("cuCtxCreate", &address, 11000, 0, &found) == CUDA_SUCCESS);
    CHECK(address == dlsym(handle, "cuCtxCreate_v2"));
    const auto report = reinterpret_cast<const char* (*)()>(dlsym(handle, "nvfp4r_sim_last_report"));
    CHECK(report != nullptr);
    dlclose(handle);
}

TEST_CASE("child: the driver that is found as libcuda.so.1", "[.driver-child]") {
    const DriverApi& api = cuda_driver();
    char name[64] = {};
    api.cuDeviceGetName(name, sizeof name, 0);
    std::printf("found %s: %s\n", api.origin.c_str(), name);
}

TEST_CASE("C52 the simulator is found as libcuda.so.1 on the loader's path or by LD_PRELOAD", "[sim][driver]") {
    const std::string own = fs::read_symlink("/proc/self/exe").string();
    const std::string clean = "env -u NVFP4R_LIBCUDA NVFP4R_SIM_ARCH=103a ";
    CHECK_THAT(
        output_of(clean + "LD_LIBRARY_PATH=" + (build_folder() / "sim").string() + " " + own + " '[.driver-child]'"),
        Contains("found libcuda.so.1") && Contains("B300"));
#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // a sanitizer's runtime insists on being loaded first
    CHECK_THAT(output_of(clean + "LD_PRELOAD=" + library().string() + " " + own + " '[.driver-child]'"),
               Contains("B300"));
#endif
    CHECK_THAT(output_of("NVFP4R_SIM_ARCH=42 LD_LIBRARY_PATH=" + (build_folder() / "sim").string() + " " + own +
                         " '[.driver-child]'"),
               Contains("NVFP4R_SIM_ARCH=42"));
}

TEST_CASE("a C program links against the simulator in place of libcuda", "[sim][driver]") {
    const auto folder = fs::temp_directory_path() / ("nvfp4r-link-" + std::to_string(getpid()));
    fs::create_directories(folder);
    // Prototypes of its own: the program shows the symbols, and needs no toolkit.
    std::ofstream(folder / "main.c")
        << "#include <stdio.h>\n"
           "int cuInit(unsigned); int cuDeviceGetCount(int*); int cuMemAlloc_v2(unsigned long long*, unsigned long);\n"
           "int cuCtxCreate_v2(void**, unsigned, int);\n"
           "int main(void) { int n = 0; unsigned long long p = 0; void* c = 0;\n"
           "  int r = cuInit(0); r |= cuDeviceGetCount(&n); r |= cuCtxCreate_v2(&c, 0, 0); r |= cuMemAlloc_v2(&p, "
           "64);\n"
           "  printf(\"result %d devices %d memory %d\\n\", r, n, p != 0); return r; }\n";
    const std::string binary = (folder / "main").string();
    // The library of a sanitized build needs its runtime loaded first: the program brings it.
#if defined(__SANITIZE_ADDRESS__)
    const std::string compiler = "cc -fsanitize=address";
#elif defined(__SANITIZE_THREAD__)
    const std::string compiler = "cc -fsanitize=thread";
#else
    const std::string compiler = "cc";
#endif
    const std::string built =
        output_of(compiler + " -o " + binary + " " + (folder / "main.c").string() + " " + library().string());
    CHECK_THAT(output_of("NVFP4R_SIM_DEVICES=2 LD_LIBRARY_PATH=" + (build_folder() / "sim").string() + " " + binary),
               Contains("result 0 devices 2 memory 1"));
    INFO(built);
    fs::remove_all(folder);
}
