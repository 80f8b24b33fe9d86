#include <set>

#include "driver_session.hpp"

using namespace nvfp4r;
using namespace nvfp4r::test;

namespace {

int attribute(const DriverApi& api, CUdevice_attribute which, CUdevice device = 0) {
    int value = -1;
    REQUIRE(api.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS);
    return value;
}

}  // namespace

TEST_CASE("nothing but version and error texts works before cuInit", "[sim][driver]") {
    sim::driver::restart_driver(gpus({100}));
    const DriverApi& api = sim_driver();
    int value = 0;
    CUdevice device = 0;
    CHECK(api.cuDriverGetVersion(&value) == CUDA_SUCCESS);
    CHECK(value == api.version);
    CHECK(value >= kOldestDriverVersion);
    CHECK(api.cuDeviceGetCount(&value) == CUDA_ERROR_NOT_INITIALIZED);
    CHECK(api.cuDeviceGet(&device, 0) == CUDA_ERROR_NOT_INITIALIZED);
    CHECK(api.cuInit(1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(api.cuInit(0) == CUDA_SUCCESS);
    CHECK(api.cuDeviceGetCount(&value) == CUDA_SUCCESS);
    CHECK(value == 1);
}

TEST_CASE("every entry of the table is filled", "[sim][driver]") {
    const DriverApi& api = sim_driver();
#define NVFP4R_CHECK_ENTRY(name) CHECK(api.name != nullptr);
    NVFP4R_DRIVER_ENTRIES(NVFP4R_CHECK_ENTRY)
#undef NVFP4R_CHECK_ENTRY
    CHECK(api.origin == "simulator");
}

TEST_CASE("C58 devices answer as the GPU that they play", "[sim][driver]") {
    struct Case {
        uint32_t sm;
        int major, minor, sms;
        const char* name;
    };
    for (const Case& c : {Case{90, 9, 0, 132, "H200"}, Case{100, 10, 0, 148, "B200"}, Case{103, 10, 3, 148, "B300"},
                          Case{110, 11, 0, 20, "Thor"}}) {
        const SimSession session(gpus({c.sm}));
        const DriverApi& api = session.api;
        CHECK(attribute(api, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) == c.major);
        CHECK(attribute(api, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) == c.minor);
        CHECK(attribute(api, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) == c.sms);
        CHECK(attribute(api, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) == 232448);  // 227 KiB, isa.md 14
        CHECK(attribute(api, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) == 228 * 1024);
        CHECK(attribute(api, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH) == 1);
        char name[64] = {};
        session.ok(api.cuDeviceGetName(name, sizeof name, 0));
        CHECK_THAT(name, Catch::Matchers::Contains(c.name));
        char cut[5] = {'x', 'x', 'x', 'x', 'x'};
        session.ok(api.cuDeviceGetName(cut, 4, 0));
        CHECK(std::string(cut) == std::string(name).substr(0, 3));
        CHECK(cut[4] == 'x');
    }
    auto odd = gpus({90});
    odd[0].sms = 7;
    const SimSession session(odd);
    CHECK(attribute(session.api, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) == 7);
}

TEST_CASE("several devices are told apart", "[sim][driver]") {
    const SimSession session(gpus({90, 100}));
    const DriverApi& api = session.api;
    int count = 0;
    session.ok(api.cuDeviceGetCount(&count));
    CHECK(count == 2);
    CHECK(attribute(api, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0) == 9);
    CHECK(attribute(api, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 1) == 10);
    CUuuid first = {}, second = {};
    session.ok(api.cuDeviceGetUuid(&first, 0));
    session.ok(api.cuDeviceGetUuid(&second, 1));
    CHECK(std::string(first.bytes, 16) != std::string(second.bytes, 16));
    int value = 0;
    CUdevice device = 0;
    CHECK(api.cuDeviceGet(&device, 2) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(api.cuDeviceGet(&device, -1) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(api.cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(0), 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(api.cuDeviceGetAttribute(nullptr, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("error names and texts", "[sim][driver]") {
    const DriverApi& api = sim_driver();
    const char* text = nullptr;
    CHECK(api.cuGetErrorName(CUDA_ERROR_INVALID_CLUSTER_SIZE, &text) == CUDA_SUCCESS);
    CHECK(std::string(text) == "CUDA_ERROR_INVALID_CLUSTER_SIZE");
    CHECK(api.cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text) == CUDA_SUCCESS);
    CHECK(std::string(text) == "an illegal memory access was encountered");
    CHECK(api.cuGetErrorName(static_cast<CUresult>(950), &text) == CUDA_ERROR_INVALID_VALUE);
    CHECK(text == nullptr);
    CHECK_THROWS_WITH(check(api, CUDA_ERROR_OUT_OF_MEMORY, "cuMemAlloc"),
                      "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory");
}
