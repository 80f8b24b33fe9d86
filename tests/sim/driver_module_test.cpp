#include "driver_session.hpp"

using namespace nvfp4r;
using namespace nvfp4r::test;
using Catch::Matchers::Contains;

namespace {

std::string with_head(const std::string& version, const std::string& target) {
    return ".version " + version + "\n.target " + target + "\n.address_size 64\n.visible .entry nothing() { ret; }\n";
}

}  // namespace

TEST_CASE("the simulator loads PTX and refuses other images by name", "[sim][driver]") {
    const SimSession session;
    CUmodule module = nullptr;
    CHECK(session.api.cuModuleLoadData(&module,
                                       "\x7f"
                                       "ELF\x02\x01\x01") == CUDA_ERROR_NO_BINARY_FOR_GPU);
    CHECK_THAT(sim::driver::last_report(), Contains("cubin") && Contains("loads PTX"));
    const unsigned fat[] = {0xba55ed50, 0};
    CHECK(session.api.cuModuleLoadData(&module, fat) == CUDA_ERROR_NO_BINARY_FOR_GPU);
    CHECK_THAT(sim::driver::last_report(), Contains("fat binary"));
    CHECK(session.api.cuModuleLoadData(&module, nullptr) == CUDA_ERROR_INVALID_VALUE);
    CHECK(session.api.cuModuleLoadData(&module, "") == CUDA_ERROR_INVALID_PTX);
}

TEST_CASE("C44 PTX of a later version is refused with both versions", "[sim][driver]") {
    const SimSession session;
    CUmodule module = nullptr;
    CHECK(session.api.cuModuleLoadData(&module, with_head("9.9", "sm_100a").c_str()) ==
          CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    CHECK_THAT(sim::driver::last_report(), Contains("9.9") && Contains("9.1"));
    session.ok(session.api.cuModuleLoadData(&module, with_head("9.0", "sm_100a").c_str()));
}

TEST_CASE("C40 a module runs on the GPUs of its target", "[sim][driver]") {
    struct Case {
        uint32_t sm;
        const char* target;
        bool runs;
    };
    for (const Case& c :
         {Case{90, "sm_90a", true}, Case{90, "sm_90", true}, Case{90, "sm_80", true}, Case{90, "sm_100a", false},
          Case{100, "sm_100a", true}, Case{100, "sm_90", true}, Case{100, "sm_90a", false}, Case{100, "sm_103a", false},
          Case{103, "sm_100a", false}, Case{103, "sm_100f", true}, Case{103, "sm_103a", true},
          Case{110, "sm_110a", true}, Case{110, "sm_100f", false}}) {
        const SimSession session(gpus({c.sm}));
        CUmodule module = nullptr;
        INFO(c.target << " on sm_" << c.sm << ": " << sim::driver::last_report());
        CHECK(session.api.cuModuleLoadData(&module, with_head("9.0", c.target).c_str()) ==
              (c.runs ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX));
    }
}

TEST_CASE("a PTX error reaches the caller's log buffer", "[sim][driver]") {
    const SimSession session;
    CUmodule module = nullptr;
    char log[256] = {};
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
    const std::string text = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry bad() { ret \n}\n";
    CHECK(session.api.cuModuleLoadDataEx(&module, text.c_str(), 2, options, values) == CUDA_ERROR_INVALID_PTX);
    CHECK_THAT(log, Contains("5"));  // the line where the semicolon was missed
}

TEST_CASE("an instruction that is not simulated is refused by name when its kernel is asked for", "[sim][driver]") {
    const SimSession session;
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    const std::string text =
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry good() { ret; }\n"
        ".visible .entry odd() { .reg .b32 %r<2>; frobnicate.u32 %r1, 0; ret; }\n";
    session.ok(session.api.cuModuleLoadData(&module, text.c_str()));
    session.ok(session.api.cuModuleGetFunction(&function, module, "good"));
    CHECK(session.api.cuModuleGetFunction(&function, module, "odd") == CUDA_ERROR_NOT_SUPPORTED);
    CHECK_THAT(sim::driver::last_report(), Contains("frobnicate") && Contains("5"));
    CHECK(session.api.cuModuleGetFunction(&function, module, "none") == CUDA_ERROR_NOT_FOUND);
}

TEST_CASE("globals, libraries and their kernels", "[sim][driver]") {
    SimSession session;
    const DriverApi& api = session.api;
    CUlibrary library = nullptr;
    CUkernel kernel = nullptr;
    CUfunction function = nullptr;
    session.ok(api.cuLibraryLoadData(&library, kKernels, nullptr, nullptr, 0, nullptr, nullptr, 0));
    session.ok(api.cuLibraryGetKernel(&kernel, library, "put"));
    CHECK(api.cuLibraryGetKernel(&kernel, library, "none") == CUDA_ERROR_NOT_FOUND);
    session.ok(api.cuKernelGetFunction(&function, kernel));
    CUdeviceptr counter = 0;
    size_t bytes = 0;
    session.ok(api.cuLibraryGetGlobal(&counter, &bytes, library, "counter"));
    CHECK(bytes == 4);
    CHECK(session.word(counter) == 5);
    uint32_t value = 9;
    void* parameters[] = {&counter, &value};
    // A CUkernel may stand where a CUfunction is expected.
    session.ok(
        api.cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
    CHECK(session.word(counter) == 9);
    session.ok(api.cuLibraryUnload(library));
    CHECK(api.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr) == CUDA_ERROR_INVALID_HANDLE);
    // A module has its own copy of the variable.
    CUmodule module = nullptr;
    session.ok(api.cuModuleLoadData(&module, kKernels));
    session.ok(api.cuModuleGetGlobal(&counter, &bytes, module, "counter"));
    CHECK(session.word(counter) == 5);
    CHECK(api.cuModuleGetGlobal(&counter, &bytes, module, "none") == CUDA_ERROR_NOT_FOUND);
    session.ok(api.cuModuleUnload(module));
    CHECK(api.cuModuleUnload(module) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("C56 function attributes", "[sim][driver]") {
    SimSession session(gpus({90}));
    const DriverApi& api = session.api;
    const auto get = [&](const char* name, CUfunction_attribute which) {
        int value = -1;
        session.ok(api.cuFuncGetAttribute(&value, which, session.kernel(name)));
        return value;
    };
    CHECK(get("put", CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) == 1024);
    CHECK(get("bounded", CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) == 64);
    CHECK(get("registers", CU_FUNC_ATTRIBUTE_NUM_REGS) == 128);
    CHECK(get("put", CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) == 0);
    CHECK(get("shared_static", CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) == 1024);
    CHECK(get("put", CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) == 48 * 1024);
    CHECK(get("shared_static", CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) == 47 * 1024);
    CHECK(get("put", CU_FUNC_ATTRIBUTE_PTX_VERSION) == 80);
    CHECK(get("pairs", CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH) == 2);
    CHECK(get("clustered", CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET) == 1);
    const auto set = [&](const char* name, CUfunction_attribute which, int value) {
        return api.cuFuncSetAttribute(session.kernel(name), which, value);
    };
    constexpr auto kDynamic = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    CHECK(set("put", kDynamic, 227 * 1024) == CUDA_SUCCESS);
    CHECK(get("put", kDynamic) == 227 * 1024);
    CHECK(set("put", kDynamic, 227 * 1024 + 1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(set("shared_static", kDynamic, 227 * 1024) == CUDA_ERROR_INVALID_VALUE);
    CHECK(set("put", kDynamic, -1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(get("put", kDynamic) == 227 * 1024);
    CHECK(set("put", CU_FUNC_ATTRIBUTE_NUM_REGS, 10) == CUDA_ERROR_INVALID_VALUE);
    CHECK(set("put", CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("occupancy follows threads, shared memory, registers and the measured cluster table", "[sim][driver]") {
    SimSession session(gpus({90}));
    const DriverApi& api = session.api;
    const auto blocks = [&](const char* name, int threads, size_t shared) {
        int value = -1;
        session.ok(api.cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, session.kernel(name), threads, shared));
        return value;
    };
    const CUfunction put = session.kernel("put");
    session.ok(api.cuFuncSetAttribute(put, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227 * 1024));
    session.ok(api.cuFuncSetAttribute(put, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
    CHECK(blocks("put", 1024, 0) == 1);         // 64 registers x 1024 threads fill the register file
    CHECK(blocks("put", 32, 227 * 1024) == 1);  // with the system's 1 KiB the whole 228
    CHECK(blocks("put", 32, 113 * 1024) == 2);
    CHECK(blocks("put", 32, 114 * 1024) == 1);
    CHECK(blocks("registers", 128, 0) == 4);  // 128 x 128 x 4 = 65536
    CHECK(blocks("bounded", 65, 0) == 0);
    const auto clusters = [&](unsigned size, unsigned threads, unsigned shared) {
        CUlaunchAttribute attribute = {};
        attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attribute.value.clusterDim.x = size;
        attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
        CUlaunchConfig config = {size, 1, 1, threads, 1, 1, shared, nullptr, &attribute, 1};
        int value = -1;
        session.ok(api.cuOccupancyMaxActiveClusters(&value, put, &config));
        return value;
    };
    // Measured on an H200: one block of 227 KiB an SM, and 128 threads without shared memory (8 blocks an SM).
    const int one_block[] = {132, 66, 39, 30, 22, 17, 15, 15, 9, 7, 7, 7, 7, 7, 7, 7};
    const int eight_blocks[] = {1056, 528, 327, 248, 193, 163, 139, 124, 102, 88, 81, 74, 67, 65, 58, 58};
    for (unsigned size = 1; size <= 16; ++size) {
        INFO("cluster of " << size);
        CHECK(clusters(size, 128, 227 * 1024) == one_block[size - 1]);
        CHECK(clusters(size, 128, 0) == eight_blocks[size - 1]);
    }
    CHECK(clusters(17, 128, 0) == 0);
}
