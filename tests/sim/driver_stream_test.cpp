#include <atomic>
#include <thread>

#include "driver_session.hpp"

using namespace nvfp4r;
using namespace nvfp4r::test;

TEST_CASE("work of a stream runs in order, and waiting ends it", "[sim][driver]") {
    SimSession session;
    const DriverApi& api = session.api;
    const CUstream stream = session.stream();
    const CUdeviceptr a = session.words(3);
    session.ok(api.cuMemsetD32Async(a, 1, 3, stream));
    session.ok(session.put(a, 2, stream));
    session.ok(session.copy(a + 4, a, stream));
    session.ok(session.put(a, 3, stream));
    session.ok(session.copy(a + 8, a, stream));
    session.ok(api.cuStreamSynchronize(stream));
    CHECK(session.word(a) == 3);
    CHECK(session.word(a + 4) == 2);
    CHECK(session.word(a + 8) == 3);
    CHECK(api.cuStreamQuery(stream) == CUDA_SUCCESS);
    session.ok(api.cuStreamDestroy(stream));
    CHECK(api.cuStreamSynchronize(stream) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("A61 the legacy stream waits for blocking streams and they for it", "[sim][driver]") {
    SimSession session;
    const CUstream blocking = session.stream(CU_STREAM_DEFAULT);
    const CUdeviceptr a = session.words(3);
    session.ok(session.put(a, 7, blocking));
    session.ok(session.copy(a + 4, a, nullptr));
    session.ok(session.copy(a + 8, a + 4, blocking));
    session.ok(session.api.cuCtxSynchronize());
    CHECK(session.word(a + 8) == 7);
}

TEST_CASE("an event orders two streams, and carries the simulated clock", "[sim][driver]") {
    SimSession session;
    const DriverApi& api = session.api;
    const CUstream first = session.stream(), second = session.stream();
    CUevent before = nullptr, after = nullptr, untimed = nullptr, never = nullptr;
    session.ok(api.cuEventCreate(&before, CU_EVENT_DEFAULT));
    session.ok(api.cuEventCreate(&after, CU_EVENT_DEFAULT));
    session.ok(api.cuEventCreate(&never, CU_EVENT_DEFAULT));
    session.ok(api.cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    const CUdeviceptr a = session.words(2);
    session.ok(api.cuEventRecord(before, first));
    session.ok(session.put(a, 11, first));
    session.ok(api.cuEventRecord(after, first));
    session.ok(api.cuStreamWaitEvent(second, after, 0));
    session.ok(session.copy(a + 4, a, second));
    float milliseconds = -1;
    CHECK(api.cuEventElapsedTime(&milliseconds, before, after) == CUDA_ERROR_NOT_READY);
    session.ok(api.cuStreamSynchronize(second));
    CHECK(session.word(a + 4) == 11);
    session.ok(api.cuEventElapsedTime(&milliseconds, before, after));
    CHECK(milliseconds > 0);
    CHECK(milliseconds < 1);  // two instructions of one thread
    session.ok(api.cuEventRecord(untimed, first));
    CHECK(api.cuEventElapsedTime(&milliseconds, before, untimed) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(api.cuEventElapsedTime(&milliseconds, before, never) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(api.cuEventQuery(never) == CUDA_SUCCESS);
    CHECK(api.cuEventSynchronize(after) == CUDA_SUCCESS);
    session.ok(api.cuEventDestroy(after));
    CHECK(api.cuEventQuery(after) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("an event waits for work of another device", "[sim][driver]") {
    SimSession session(gpus({90, 100}));
    const DriverApi& api = session.api;
    const CUstream first = session.stream();
    const CUdeviceptr a = session.words(1);
    CUevent done = nullptr;
    session.ok(api.cuEventCreate(&done, CU_EVENT_DEFAULT));
    session.ok(session.put(a, 5, first));
    session.ok(api.cuEventRecord(done, first));
    CUcontext other = nullptr;
    session.ok(api.cuDevicePrimaryCtxRetain(&other, 1));
    session.ok(api.cuCtxPushCurrent(other));
    const CUstream second = session.stream();
    const CUdeviceptr b = session.words(1);
    session.ok(api.cuStreamWaitEvent(second, done, 0));
    session.ok(api.cuMemcpyDtoDAsync(b, a, 4, second));
    session.ok(api.cuStreamSynchronize(second));
    CHECK(session.word(b) == 5);
}

TEST_CASE("a host function runs in its place, and may not call the driver", "[sim][driver]") {
    SimSession session;
    const DriverApi& api = session.api;
    const CUstream stream = session.stream();
    struct Seen {
        const DriverApi* api;
        CUdeviceptr where;
        uint32_t value = 0;
        CUresult call = CUDA_SUCCESS;
    } seen{&api, session.words(1)};
    session.ok(session.put(seen.where, 1, stream));
    session.ok(api.cuLaunchHostFunc(
        stream,
        [](void* data) {
            auto* s = static_cast<Seen*>(data);
            s->value = *reinterpret_cast<const uint32_t*>(s->where);
            s->call = s->api->cuCtxSynchronize();
        },
        &seen));
    session.ok(session.put(seen.where, 2, stream));
    session.ok(api.cuStreamSynchronize(stream));
    CHECK(seen.value == 1);
    CHECK(seen.call == CUDA_ERROR_NOT_PERMITTED);
    CHECK(session.word(seen.where) == 2);
}

TEST_CASE("kernels launched with programmatic serialisation keep their order of results", "[sim][driver]") {
    SimSession session;
    const CUstream stream = session.stream();
    const CUdeviceptr a = session.words(4);
    CUlaunchAttribute attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, stream, &attribute, 1};
    session.ok(session.put(a, 3, stream));
    // It writes elsewhere than its predecessor, so it may overlap it; the plain launch behind both sees both.
    CUdeviceptr where = a + 4;
    uint32_t value = 4;
    void* parameters[] = {&where, &value};
    session.ok(session.api.cuLaunchKernelEx(&config, session.kernel("put"), parameters, nullptr));
    session.ok(session.copy(a + 8, a, stream));
    session.ok(session.copy(a + 12, a + 4, stream));
    session.ok(session.api.cuStreamSynchronize(stream));
    CHECK(session.word(a + 8) == 3);
    CHECK(session.word(a + 12) == 4);
}

TEST_CASE("two threads with streams of their own get their own results", "[sim][driver][threads]") {
    SimSession session;
    const DriverApi& api = session.api;
    const CUfunction put = session.kernel("put");
    std::atomic<int> wrong = 0;
    const auto work = [&](uint32_t base) {
        CUstream stream = nullptr;
        CUdeviceptr a = 0;
        wrong += api.cuCtxPushCurrent(session.context) != CUDA_SUCCESS;
        wrong += api.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS;
        wrong += api.cuMemAlloc(&a, 4) != CUDA_SUCCESS;
        for (uint32_t i = 0; i < 20; ++i) {
            uint32_t value = base + i, back = 0;
            void* parameters[] = {&a, &value};
            wrong += api.cuLaunchKernel(put, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr) != CUDA_SUCCESS;
            wrong += api.cuMemcpyDtoHAsync(&back, a, 4, stream) != CUDA_SUCCESS;
            wrong += api.cuStreamSynchronize(stream) != CUDA_SUCCESS;
            wrong += back != value;
        }
        wrong += api.cuMemFree(a) != CUDA_SUCCESS;
    };
    std::thread first(work, 100), second(work, 1000);
    first.join();
    second.join();
    CHECK(wrong == 0);
}
