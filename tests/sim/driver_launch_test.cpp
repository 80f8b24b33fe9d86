#include "driver_session.hpp"

using namespace nvfp4r;
using namespace nvfp4r::test;
using Catch::Matchers::Contains;

namespace {

CUlaunchAttribute cluster(unsigned x, unsigned y = 1, unsigned z = 1) {
    CUlaunchAttribute attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim.x = x;
    attribute.value.clusterDim.y = y;
    attribute.value.clusterDim.z = z;
    return attribute;
}

}  // namespace

TEST_CASE("a launch runs the kernel with its parameters", "[sim][driver]") {
    SimSession session;
    const CUdeviceptr a = session.words(2);
    session.ok(session.put(a, 42));
    session.ok(session.copy(a + 4, a));
    CHECK(session.word(a + 4) == 42);
    // The same through a packed buffer.
    struct {
        CUdeviceptr where;
        uint32_t value;
    } packed = {a, 43};
    size_t bytes = 12;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    session.ok(session.api.cuLaunchKernel(session.kernel("put"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
    CHECK(session.word(a) == 43);
    bytes = 8;
    CHECK(session.api.cuLaunchKernel(session.kernel("put"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra) ==
          CUDA_ERROR_INVALID_VALUE);
    CHECK(session.api.cuLaunchKernel(session.kernel("put"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr) ==
          CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("launches that the driver refuses", "[sim][driver]") {
    SimSession session(gpus({90}));
    struct Case {
        const char* kernel;
        unsigned grid[3], block[3], shared;
        CUresult expected;
    };
    const Case cases[] = {
        {"bounded", {1, 1, 1}, {64, 1, 1}, 0, CUDA_SUCCESS},
        {"bounded", {1, 1, 1}, {65, 1, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {"exact", {1, 1, 1}, {32, 2, 1}, 0, CUDA_SUCCESS},
        {"exact", {1, 1, 1}, {64, 1, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {"registers", {0, 1, 1}, {32, 1, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {"registers", {1, 65536, 1}, {32, 1, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {"registers", {0x80000000u, 1, 1}, {32, 1, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {"registers", {1, 1, 1}, {32, 0, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {"registers", {1, 1, 1}, {1, 1, 65}, 0, CUDA_ERROR_INVALID_VALUE},
        {"registers", {1, 1, 1}, {1025, 1, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {"registers", {1, 1, 1}, {1024, 1, 1}, 0, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES},  // 128 registers each
        {"shared_static", {1, 1, 1}, {1, 1, 1}, 47 * 1024, CUDA_SUCCESS},
        {"shared_static", {1, 1, 1}, {1, 1, 1}, 47 * 1024 + 1, CUDA_ERROR_INVALID_VALUE},
        {"pairs", {2, 1, 1}, {1, 1, 1}, 0, CUDA_SUCCESS},  // .reqnctapercluster needs no attribute
        {"pairs", {3, 1, 1}, {1, 1, 1}, 0, CUDA_ERROR_INVALID_CLUSTER_SIZE},
        {"clustered", {2, 1, 1}, {1, 1, 1}, 0, CUDA_ERROR_INVALID_CLUSTER_SIZE},
    };
    for (const Case& c : cases) {
        INFO(c.kernel << " grid " << c.grid[0] << "," << c.grid[1] << " block " << c.block[0] << "," << c.block[1]
                      << "," << c.block[2] << " shared " << c.shared);
        CHECK(session.api.cuLaunchKernel(session.kernel(c.kernel), c.grid[0], c.grid[1], c.grid[2], c.block[0],
                                         c.block[1], c.block[2], c.shared, nullptr, nullptr, nullptr) == c.expected);
    }
    session.ok(session.api.cuCtxSynchronize());
}

TEST_CASE("cluster sizes as an H200 takes them", "[sim][driver]") {
    SimSession session(gpus({90}));
    const CUfunction kernel = session.kernel("clustered");
    const auto launch = [&](unsigned grid, CUlaunchAttribute size) {
        CUlaunchConfig config = {grid, 1, 1, 32, 1, 1, 0, nullptr, &size, 1};
        return session.api.cuLaunchKernelEx(&config, kernel, nullptr, nullptr);
    };
    for (unsigned size = 1; size <= 8; ++size) CHECK(launch(2 * size, cluster(size)) == CUDA_SUCCESS);
    for (unsigned size = 9; size <= 17; ++size) CHECK(launch(size, cluster(size)) == CUDA_ERROR_INVALID_CLUSTER_SIZE);
    CHECK(launch(5, cluster(2)) == CUDA_ERROR_INVALID_CLUSTER_SIZE);  // not a multiple
    CHECK(launch(0, cluster(0)) == CUDA_ERROR_INVALID_VALUE);
    session.ok(session.api.cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
    for (unsigned size = 9; size <= 16; ++size) CHECK(launch(size, cluster(size)) == CUDA_SUCCESS);
    CHECK(launch(17, cluster(17)) == CUDA_ERROR_INVALID_CLUSTER_SIZE);
    session.ok(session.api.cuCtxSynchronize());
}

TEST_CASE("C37 a cluster that no place holds is refused", "[sim][driver]") {
    auto small = gpus({90});
    small[0].sms = 7;
    SimSession session(small);
    CUlaunchAttribute size = cluster(8);
    session.ok(session.api.cuFuncSetAttribute(session.kernel("clustered"),
                                              CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 200 * 1024));
    CUlaunchConfig config = {8, 1, 1, 32, 1, 1, 200 * 1024, nullptr, &size, 1};
    int clusters = -1;
    session.ok(session.api.cuOccupancyMaxActiveClusters(&clusters, session.kernel("clustered"), &config));
    CHECK(clusters == 0);
    CHECK(session.api.cuLaunchKernelEx(&config, session.kernel("clustered"), nullptr, nullptr) ==
          CUDA_ERROR_INVALID_CLUSTER_SIZE);
    CHECK_THAT(sim::driver::last_report(), Contains("8 blocks") && Contains("7 SMs"));
}

TEST_CASE("A65 a cooperative grid larger than what fits is refused", "[sim][driver]") {
    auto small = gpus({90});
    small[0].sms = 2;
    SimSession session(small);
    const CUfunction kernel = session.kernel("registers");  // 128 threads of 128 registers: 4 blocks an SM
    CHECK(session.api.cuLaunchCooperativeKernel(kernel, 8, 1, 1, 128, 1, 1, 0, nullptr, nullptr) == CUDA_SUCCESS);
    CHECK(session.api.cuLaunchCooperativeKernel(kernel, 9, 1, 1, 128, 1, 1, 0, nullptr, nullptr) ==
          CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
}

TEST_CASE("launch attributes that mean nothing here are taken, unknown ones refused", "[sim][driver]") {
    SimSession session;
    const auto launch = [&](CUlaunchAttribute attribute) {
        CUlaunchConfig config = {1, 1, 1, 32, 1, 1, 0, nullptr, &attribute, 1};
        return session.api.cuLaunchKernelEx(&config, session.kernel("registers"), nullptr, nullptr);
    };
    CUlaunchAttribute attribute = {};
    for (const CUlaunchAttributeID id :
         {CU_LAUNCH_ATTRIBUTE_IGNORE, CU_LAUNCH_ATTRIBUTE_PRIORITY, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN,
          CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
          CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT}) {
        attribute.id = id;
        CHECK(launch(attribute) == CUDA_SUCCESS);
    }
    attribute.id = CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE;
    CHECK(launch(attribute) == CUDA_ERROR_NOT_SUPPORTED);
    attribute.id = CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
    attribute.value.sharedMemCarveout = 101;
    CHECK(launch(attribute) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("C59 a kernel's fault is reported when waited for, stays in its context and names itself", "[sim][driver]") {
    SECTION("outside every allocation") {
        SimSession session;
        CHECK(session.put(4096, 1) == CUDA_SUCCESS);  // the launch itself is innocent
        CHECK(session.api.cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
        CHECK_THAT(sim::driver::last_report(), Contains("kernel put") && Contains("out of bounds"));
        CUdeviceptr address = 0;
        CHECK(session.api.cuMemAlloc(&address, 4) == CUDA_ERROR_ILLEGAL_ADDRESS);
        CHECK(session.api.cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
        CHECK_THAT(sim::driver::last_report(), Contains("kernel put"));
        // A reset gives a working context again.
        CHECK(session.api.cuDevicePrimaryCtxReset(0) == CUDA_SUCCESS);
        CHECK(session.api.cuMemAlloc(&address, 4) == CUDA_SUCCESS);
    }
    SECTION("just past an allocation") {
        SimSession session;
        CHECK(session.put(session.words(1) + 4, 1) == CUDA_SUCCESS);
        CHECK(session.api.cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
        CHECK_THAT(sim::driver::last_report(), Contains("cuMemAlloc #"));
    }
    SECTION("misaligned") {
        SimSession session;
        CHECK(session.put(session.words(2) + 1, 1) == CUDA_SUCCESS);
        CHECK(session.api.cuCtxSynchronize() == CUDA_ERROR_MISALIGNED_ADDRESS);
    }
    SECTION("trap") {
        SimSession session;
        CHECK(session.api.cuLaunchKernel(session.kernel("trapping"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr) ==
              CUDA_SUCCESS);
        CHECK(session.api.cuCtxSynchronize() == CUDA_ERROR_LAUNCH_FAILED);
    }
    SECTION("what was queued behind a fault does not run") {
        SimSession session;
        const CUdeviceptr a = session.words(1);
        session.ok(session.api.cuMemsetD32(a, 1, 1));
        session.ok(session.api.cuCtxSynchronize());
        CHECK(session.put(4096, 1) == CUDA_SUCCESS);
        CHECK(session.put(a, 2) == CUDA_SUCCESS);
        CHECK(session.api.cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
        CHECK(*reinterpret_cast<const uint32_t*>(a) == 1);  // a device address is a host address here
    }
}
