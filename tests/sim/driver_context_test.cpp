#include <thread>

#include "driver_session.hpp"

using namespace nvfp4r;
using namespace nvfp4r::test;

TEST_CASE("C53 a primary context lives as long as it is retained", "[sim][driver]") {
    sim::driver::restart_driver(gpus({100}));
    const DriverApi& api = sim_driver();
    REQUIRE(api.cuInit(0) == CUDA_SUCCESS);
    unsigned flags = 0;
    int active = -1;
    CUcontext first = nullptr, second = nullptr;
    CHECK(api.cuDevicePrimaryCtxRelease(0) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(api.cuDevicePrimaryCtxGetState(0, &flags, &active) == CUDA_SUCCESS);
    CHECK(active == 0);
    REQUIRE(api.cuDevicePrimaryCtxRetain(&first, 0) == CUDA_SUCCESS);
    REQUIRE(api.cuDevicePrimaryCtxRetain(&second, 0) == CUDA_SUCCESS);
    CHECK(first == second);
    REQUIRE(api.cuCtxPushCurrent(first) == CUDA_SUCCESS);
    CUdeviceptr address = 0;
    CHECK(api.cuMemAlloc(&address, 64) == CUDA_SUCCESS);
    CHECK(api.cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
    CHECK(api.cuMemsetD8(address, 1, 64) == CUDA_SUCCESS);  // still retained once
    CHECK(api.cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
    CHECK(api.cuMemsetD8(address, 1, 64) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK(api.cuDevicePrimaryCtxGetState(0, &flags, &active) == CUDA_SUCCESS);
    CHECK(active == 0);
    // Retained again it is the same handle, and its old memory is gone.
    REQUIRE(api.cuDevicePrimaryCtxRetain(&second, 0) == CUDA_SUCCESS);
    CHECK(second == first);
    CHECK(api.cuMemsetD8(address, 1, 64) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("C53 the current context is a stack of each thread", "[sim][driver][threads]") {
    SimSession session(gpus({90, 100}));
    const DriverApi& api = session.api;
    CUcontext other = nullptr, current = nullptr;
    session.ok(api.cuDevicePrimaryCtxRetain(&other, 1));
    session.ok(api.cuCtxPushCurrent(other));
    CUdevice device = -1;
    session.ok(api.cuCtxGetDevice(&device));
    CHECK(device == 1);
    CUresult in_thread = CUDA_SUCCESS;
    CUcontext seen = other;
    std::thread([&] {
        api.cuCtxGetCurrent(&seen);
        in_thread = api.cuCtxSynchronize();
    }).join();
    CHECK(seen == nullptr);
    CHECK(in_thread == CUDA_ERROR_INVALID_CONTEXT);
    session.ok(api.cuCtxPopCurrent(&current));
    CHECK(current == other);
    session.ok(api.cuCtxGetDevice(&device));
    CHECK(device == 0);
    session.ok(api.cuCtxSetCurrent(other));  // replaces the top
    session.ok(api.cuCtxPopCurrent(&current));
    CHECK(current == other);
    CHECK(api.cuCtxPopCurrent(&current) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(api.cuCtxPushCurrent(reinterpret_cast<CUcontext>(&session)) == CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE("memory of one device is not the other's", "[sim][driver]") {
    SimSession session(gpus({90, 100}));
    const DriverApi& api = session.api;
    const CUdeviceptr first = session.words(4);
    CUcontext other = nullptr, owner = nullptr;
    session.ok(api.cuDevicePrimaryCtxRetain(&other, 1));
    session.ok(api.cuCtxPushCurrent(other));
    const CUdeviceptr second = session.words(4);
    int ordinal = -1;
    session.ok(api.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, first));
    CHECK(ordinal == 0);
    session.ok(api.cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, second));
    CHECK(owner == other);
    session.ok(api.cuMemsetD32(second, 7, 4));
    session.ok(api.cuMemcpyDtoD(first, second, 16));  // unified addresses: copies cross devices
    CHECK(session.word(first) == 7);
}
