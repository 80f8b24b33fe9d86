// The call path allocates nothing: a call of the library takes as many heap allocations on its thread as the driver calls
// that it makes, which on the simulator are some.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>

#include "bench/time_calls.hpp"
#include "gpu_case.hpp"
#include "random_router.hpp"
#include "sim/driver/sim_driver.hpp"

namespace {
thread_local uint64_t allocations = 0;
}

void* operator new(size_t bytes) {
    ++allocations;
    if (void* memory = std::malloc(bytes ? bytes : 1)) return memory;
    throw std::bad_alloc();
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
    ++allocations;
    return std::malloc(bytes ? bytes : 1);
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
    std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
    std::free(memory);
}

using namespace nvfp4r;
using namespace nvfp4r::test;

namespace {

/// The fewest allocations of several runs: a queue of the simulator that grows now and then does not count.
template <class Work>
uint64_t fewest(const bench::Stream& stream, Work work) {
    constexpr uint32_t kRuns = 8;
    uint64_t least = UINT64_MAX;
    const DriverApi& api = stream.context()->api();
    for (uint32_t i = 0; i < kRuns; ++i) {
        const uint64_t before = allocations;
        work();
        least = std::min(least, allocations - before);
        const ContextScope scope(*stream.context());
        check(api, api.cuStreamSynchronize(stream.handle()), "cuStreamSynchronize");
    }
    return least;
}

}  // namespace

TEST_CASE("a call on device memory allocates nothing on the heap", "[kernel][sim]") {
    sim::driver::restart_driver({sim::GpuConfig::for_sm(90)});
    const uint64_t before = allocations;
    ::operator delete(::operator new(8));
    REQUIRE(allocations == before + 1);  // the counter counts

    const nvfp4r_settings settings = gpu_case(16, 128, 2).settings;
    nvfp4r_router_options options = NVFP4R_ROUTER_OPTIONS_INIT;
    options.device = NVFP4R_DEVICE_SIM;
    const Router router = random_router(settings, options);
    const auto context = std::make_shared<GpuContext>(sim_driver(), 0);
    const bench::Stream stream(context);
    constexpr int64_t kTokens = 3;
    const std::vector<uint16_t> values(kTokens * 128, 0x3f80);
    const bench::CallTensors tensors(context, settings, kTokens, 1, values, false);
    const nvfp4r_call call = tensors.call(0, stream.handle());
    bench::route_or_fail(router.get(), call);  // loads the kernel, gives the stream its mailbox
    const uint64_t routed = fewest(stream, [&] { nvfp4r_route(router.get(), &call); });

    // The same driver calls without the library, with the parameters of a captured call.
    const bench::CallGraph graph(stream, 1, [&](uint32_t) { bench::route_or_fail(router.get(), call); });
    const DriverApi& api = context->api();
    CUDA_KERNEL_NODE_PARAMS node{};
    check(api, api.cuGraphKernelNodeGetParams(graph.kernels().at(0), &node), "cuGraphKernelNodeGetParams");
    CUlaunchConfig config{};
    config.gridDimX = node.gridDimX, config.gridDimY = node.gridDimY, config.gridDimZ = node.gridDimZ;
    config.blockDimX = node.blockDimX, config.blockDimY = node.blockDimY, config.blockDimZ = node.blockDimZ;
    config.sharedMemBytes = node.sharedMemBytes;
    config.hStream = stream.handle();
    const uint64_t launched = fewest(stream, [&] {
        const ContextScope scope(*context);
        CUstreamCaptureStatus capturing{};
        check(api, api.cuStreamIsCapturing(stream.handle(), &capturing), "cuStreamIsCapturing");
        check(api, api.cuLaunchKernelEx(&config, node.func, node.kernelParams, nullptr), "cuLaunchKernelEx");
    });
    CHECK(routed == launched);
}
