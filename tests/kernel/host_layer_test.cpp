// The host layer on a real driver: streams, graphs, threads, contexts, edges of memory, very large M. Without a GPU these
// tests say so and pass.
#include <catch2/catch.hpp>
#include <thread>

#include "device_call.hpp"
#include "gpu_case.hpp"

using namespace nvfp4r;
using namespace nvfp4r::test;

namespace {

constexpr uint32_t kExperts = 64, kHidden = 256, kTopK = 4;

Router cuda_router(uint32_t experts, uint32_t hidden, uint32_t top_k) {
    return make_router(NVFP4R_DEVICE_CUDA, experts, hidden, top_k);
}

bool skip_without_gpu() {
    const std::string missing = cuda_missing();
    if (!missing.empty()) WARN("skipped: " << missing);
    return !missing.empty();
}

}  // namespace

TEST_CASE("A61 a launch follows the work before it on the caller's stream", "[kernel][cuda][host]") {
    if (skip_without_gpu()) return;
    const TestGpu gpu;
    const Router router = cuda_router(kExperts, kHidden, kTopK);
    const auto rows = random_rows(5, kHidden, 1);
    const Answer wanted = route_host(router.get(), rows, 5, kTopK);
    DeviceCall call(gpu.context, 5, kHidden, kTopK);
    // Half a gigabyte of memset keeps the stream busy long after the calls have returned.
    const DeviceBuffer busy(gpu.context, uint64_t{1} << 29), source = upload(gpu.context, std::span(rows));
    const Stream stream(gpu.context);
    for (uint32_t i = 0; i < 20; ++i)
        check(gpu.api(), gpu.api().cuMemsetD8Async(busy.address(), 0, busy.bytes(), stream.handle), "cuMemsetD8Async");
    check(gpu.api(), gpu.api().cuMemcpyDtoDAsync(call.x.address(), source.address(), rows.size() * 2, stream.handle),
          "cuMemcpyDtoDAsync");
    REQUIRE(call.route(router.get(), stream.handle) == NVFP4R_OK);
    CHECK(gpu.api().cuStreamQuery(stream.handle) == CUDA_ERROR_NOT_READY);  // route did not wait
    CHECK(call.answer() == wanted);
}

TEST_CASE("A61 tokens in host memory are this call's, however busy the copy engines are", "[kernel][cuda][host]") {
    if (skip_without_gpu()) return;
    const TestGpu gpu;
    const bool simulated = gpu.api().simulated;
    const uint32_t experts = simulated ? 16 : 64, hidden = simulated ? 128 : 2048, rounds = simulated ? 4 : 300;
    const int64_t tokens = simulated ? 20 : 1000;
    const Router router = make_router(NVFP4R_DEVICE_CUDA, experts, hidden, kTopK);
    const std::vector<uint16_t> rows[] = {random_rows(tokens, hidden, 1), random_rows(tokens, hidden, 2)};
    const Answer wanted[] = {route_host(router.get(), rows[0], tokens, kTopK),
                             route_host(router.get(), rows[1], tokens, kTopK)};
    CHECK(wanted[0] != wanted[1]);
    std::jthread busy([&](const std::stop_token& stop) {
        const TestGpu own;
        const Stream stream(own.context);
        const uint64_t bytes = uint64_t{simulated ? 1u : 64u} << 20;
        const DeviceBuffer to(own.context, bytes);
        void* from = nullptr;
        check(own.api(), own.api().cuMemAllocHost(&from, bytes), "cuMemAllocHost");
        while (!stop.stop_requested()) {
            for (uint32_t i = 0; i < 8; ++i)
                check(own.api(), own.api().cuMemcpyHtoDAsync(to.address(), from, bytes, stream.handle),
                      "cuMemcpyHtoDAsync");
            check(own.api(), own.api().cuStreamSynchronize(stream.handle), "cuStreamSynchronize");
        }
        check(own.api(), own.api().cuMemFreeHost(from), "cuMemFreeHost");
    });
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < rounds; ++i)
        wrong += route_host(router.get(), rows[i % 2], tokens, kTopK) != wanted[i % 2];
    CHECK(wrong == 0);
}

TEST_CASE("A62 the first call of a router may be captured, and replays use new inputs", "[kernel][cuda][host][graph]") {
    if (skip_without_gpu()) return;
    const TestGpu gpu;
    for (const bool prepared : {true, false}) {
        const Router router = cuda_router(kExperts, kHidden, kTopK);
        if (prepared) REQUIRE(nvfp4r_router_prepare(router.get(), 16) == NVFP4R_OK);
        DeviceCall call(gpu.context, 9, kHidden, kTopK);
        nvfp4r_status status = NVFP4R_INTERNAL;
        const CUgraphExec graph = capture(gpu, [&](CUstream s) { status = call.route(router.get(), s); });
        INFO("prepared " << prepared << ": " << nvfp4r_last_error());
        REQUIRE(status == NVFP4R_OK);
        const Stream stream(gpu.context);
        for (uint32_t seed = 1; seed <= 3; ++seed) {
            const auto rows = random_rows(9, kHidden, seed);
            call.fill(rows);
            call.poison();
            check(gpu.api(), gpu.api().cuGraphLaunch(graph, stream.handle), "cuGraphLaunch");
            check(gpu.api(), gpu.api().cuStreamSynchronize(stream.handle), "cuStreamSynchronize");
            CHECK(call.answer() == route_host(router.get(), rows, 9, kTopK));
        }
        gpu.api().cuGraphExecDestroy(graph);
    }
}

TEST_CASE("one router serves several threads and streams at once", "[kernel][cuda][host][threads]") {
    if (skip_without_gpu()) return;
    constexpr uint32_t kThreads = 4, kRounds = 200;
    const TestGpu gpu;
    const Router router = cuda_router(256, 2048, 8);
    std::vector<uint32_t> wrong(kThreads, 0);
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < kThreads; ++t)
        threads.emplace_back([&, t] {
            const TestGpu own;
            const Stream stream(own.context);
            const int64_t tokens = 1 + 13 * t;
            const auto rows = random_rows(tokens, 2048, 100 + t);
            DeviceCall call(own.context, tokens, 2048, 8);
            call.fill(rows);
            if (call.route(router.get(), stream.handle) != NVFP4R_OK) ++wrong[t];
            const Answer first = call.answer();
            for (uint32_t round = 0; round < kRounds; ++round) {
                if (call.route(router.get(), stream.handle) != NVFP4R_OK) ++wrong[t];
                if (round % 20 == 0 && !(call.answer() == first)) ++wrong[t];
            }
            if (!(call.answer() == first)) ++wrong[t];
        });
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == std::vector<uint32_t>(kThreads, 0));
}

TEST_CASE("C53 the caller's current context stays what it was", "[kernel][cuda][host]") {
    if (skip_without_gpu()) return;
    const DriverApi& api = cuda_driver();
    CUcontext before = nullptr, after = nullptr;
    check(api, api.cuCtxSetCurrent(nullptr), "cuCtxSetCurrent");
    {
        const Router router = cuda_router(kExperts, kHidden, kTopK);
        route_host(router.get(), random_rows(3, kHidden, 1), 3, kTopK);
        check(api, api.cuCtxGetCurrent(&after), "cuCtxGetCurrent");
        CHECK(after == nullptr);
    }
    check(api, api.cuCtxGetCurrent(&after), "cuCtxGetCurrent");
    CHECK(after == nullptr);
    const TestGpu gpu;
    check(api, api.cuCtxGetCurrent(&before), "cuCtxGetCurrent");
    const Router router = cuda_router(kExperts, kHidden, kTopK);
    check(api, api.cuCtxGetCurrent(&after), "cuCtxGetCurrent");
    CHECK(after == before);
}

TEST_CASE("the same call gives the same bits on every run", "[kernel][cuda][host]") {
    if (skip_without_gpu()) return;
    const TestGpu gpu;
    const Router router = cuda_router(384, 7168, 6);
    const auto rows = random_rows(33, 7168, 9);
    DeviceCall call(gpu.context, 33, 7168, 6);
    call.fill(rows);
    const Stream stream(gpu.context);
    const Answer wanted = route_host(router.get(), rows, 33, 6);
    for (uint32_t i = 0; i < 300; ++i) {
        call.poison();
        REQUIRE(call.route(router.get(), stream.handle) == NVFP4R_OK);
        CHECK(call.answer() == wanted);
    }
}

TEST_CASE("a batch-invariant router gives a row the same bits wherever it stands", "[kernel][cuda][host]") {
    if (skip_without_gpu()) return;
    GpuCase invariant = gpu_case(256, 2048, 8);
    invariant.settings.batch_invariant = 1;
    const Router router = random_router(invariant.settings, invariant.options);
    const auto row = random_rows(1, 2048, 21);
    const Answer alone = route_host(router.get(), row, 1, 8);
    for (const int64_t tokens : {5, 16, 40, 200, 300}) {
        auto rows = random_rows(tokens, 2048, 22);
        const int64_t place = tokens - 2;
        std::copy(row.begin(), row.end(), rows.begin() + place * 2048);
        const Answer all = route_host(router.get(), rows, tokens, 8);
        CHECK(std::equal(alone.weights.begin(), alone.weights.end(), all.weights.begin() + place * 8));
        CHECK(std::equal(alone.ids.begin(), alone.ids.end(), all.ids.begin() + place * 8));
    }
}

TEST_CASE("A25 A26 very large batches keep their last rows", "[kernel][cuda][host][.long]") {
    if (skip_without_gpu()) return;
    const TestGpu gpu;
    // 2^20 rows of 4096: element offsets pass 2^32.
    for (const int64_t tokens : {int64_t{65536}, (int64_t{1} << 20) + 1}) {
        constexpr uint32_t kWide = 4096;
        const Router router = cuda_router(kExperts, kWide, kTopK);
        DeviceCall call(gpu.context, tokens, kWide, kTopK);
        check(gpu.api(), gpu.api().cuMemsetD16(call.x.address(), 0x3c00, call.x.bytes() / 2), "cuMemsetD16");
        const auto tail = random_rows(3, kWide, 4);
        check(gpu.api(),
              gpu.api().cuMemcpyHtoD(call.x.address() + static_cast<uint64_t>(tokens - 3) * kWide * 2, tail.data(),
                                     tail.size() * 2),
              "cuMemcpyHtoD");
        check(gpu.api(), gpu.api().cuCtxSynchronize(), "cuCtxSynchronize");  // `stream` does not wait for the copies
        const Stream stream(gpu.context);
        REQUIRE(call.route(router.get(), stream.handle) == NVFP4R_OK);
        const Answer all = call.answer(), last = route_host(router.get(), tail, 3, kTopK);
        CHECK(std::equal(last.ids.begin(), last.ids.end(), all.ids.end() - 3 * kTopK));
        bool same = true;
        for (int64_t row = 1; row < tokens - 3; ++row)
            for (uint32_t r = 0; r < kTopK; ++r) same = same && all.ids[row * kTopK + r] == all.ids[r];
        CHECK(same);
    }
}

TEST_CASE("A55 tokens may end where their memory ends", "[kernel][cuda][host]") {
    if (skip_without_gpu()) return;
    const TestGpu gpu;
    constexpr uint64_t kGranule = uint64_t{2} << 20;  // of cuMemAlloc: what follows is not mapped
    const Router router = cuda_router(96, 720, 6);
    const auto rows = random_rows(7, 720, 3);
    const DeviceBuffer memory(gpu.context, kGranule);
    const CUdeviceptr at = memory.address() + kGranule - rows.size() * 2;
    check(gpu.api(), gpu.api().cuMemcpyHtoD(at, rows.data(), rows.size() * 2), "cuMemcpyHtoD");
    DeviceCall call(gpu.context, 7, 720, 6);
    call.call.hidden = reinterpret_cast<const void*>(at);
    REQUIRE(call.route(router.get(), nullptr) == NVFP4R_OK);
    CHECK(call.answer() == route_host(router.get(), rows, 7, 6));
}
