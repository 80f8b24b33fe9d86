// Microseconds of a call on a GPU: replays of a graph of equal calls, warm and with the L2 emptied in between.
#include <catch2/catch.hpp>
#include <cstdio>
#include <random>

#include "gpu_case.hpp"
#include "gpu_memory.hpp"

using namespace nvfp4r;
using namespace nvfp4r::test;

namespace {

struct Shape {
    uint32_t experts, hidden, top_k;
};

nvfp4r_router* make_router(const Shape& shape, nvfp4r_precision precision, bool programmatic) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    std::vector<float> weight(size_t{shape.experts} * shape.hidden);
    for (float& v : weight) v = 0.02f * normal(random);
    const std::vector<float> bias(shape.experts, 0.1f);
    nvfp4r_gate_desc desc = NVFP4R_GATE_DESC_INIT;
    desc.experts = shape.experts;
    desc.hidden = shape.hidden;
    desc.weight = weight.data();
    desc.weight_type = NVFP4R_F32;
    desc.bias = bias.data();
    nvfp4r_settings settings = gpu_case(shape.experts, shape.hidden, shape.top_k).settings;
    settings.precision = precision;
    settings.use_bias = 1;
    settings.activation_scale = 0.002f;
    nvfp4r_router_options options = NVFP4R_ROUTER_OPTIONS_INIT;
    options.device = NVFP4R_DEVICE_CUDA;
    options.programmatic_launch = programmatic;
    nvfp4r_gate* gate = nullptr;
    nvfp4r_router* router = nullptr;
    REQUIRE(nvfp4r_gate_create(&desc, &gate) == NVFP4R_OK);
    const nvfp4r_status status = nvfp4r_router_create(gate, &settings, &options, &router);
    nvfp4r_gate_destroy(gate);
    INFO(nvfp4r_last_error());
    REQUIRE(status == NVFP4R_OK);
    return router;
}

struct Times {
    double warm, cold;
};

Times time_router(const TestGpu& gpu, nvfp4r_router* router, const Shape& shape, int64_t tokens) {
    constexpr uint64_t kFlushBytes = uint64_t{160} << 20;  // several times the L2
    const uint32_t calls = tokens > 2000 ? 10 : 60;
    const DeviceBuffer hidden = random_bf16(gpu, static_cast<uint64_t>(tokens) * shape.hidden, 3);
    const DeviceBuffer weights(gpu.context, static_cast<uint64_t>(tokens) * shape.top_k * 4);
    const DeviceBuffer ids(gpu.context, static_cast<uint64_t>(tokens) * shape.top_k * 4);
    const DeviceBuffer flush(gpu.context, kFlushBytes);
    nvfp4r_call call = NVFP4R_CALL_INIT;
    call.memory = NVFP4R_MEMORY_DEVICE;
    call.tokens = tokens;
    call.hidden = hidden.as<void>();
    call.hidden_type = NVFP4R_BF16;
    call.weights = weights.as<void>();
    call.ids = ids.as<void>();
    call.stream = nullptr;
    REQUIRE(nvfp4r_route(router, &call) == NVFP4R_OK);
    check(gpu.api(), gpu.api().cuCtxSynchronize(), "cuCtxSynchronize");
    const auto graph_of = [&](bool route, bool empty) {
        return capture(gpu, [&](CUstream stream) {
            call.stream = stream;
            for (uint32_t i = 0; i < calls; ++i) {
                if (empty)
                    check(gpu.api(), gpu.api().cuMemsetD32Async(flush.address(), i, kFlushBytes / 4, stream), "memset");
                if (route && nvfp4r_route(router, &call) != NVFP4R_OK) FAIL(nvfp4r_last_error());
            }
        });
    };
    const CUgraphExec warm = graph_of(true, false), cold = graph_of(true, true), bare = graph_of(false, true);
    Times times{};
    times.warm = replay_microseconds(gpu, warm, 15) / calls;
    times.cold = (replay_microseconds(gpu, cold, 15) - replay_microseconds(gpu, bare, 15)) / calls;
    for (const CUgraphExec graph : {warm, cold, bare}) gpu.api().cuGraphExecDestroy(graph);
    return times;
}

}  // namespace

TEST_CASE("times of the GPU kernels", "[.timing][cuda]") {
    if (const std::string missing = cuda_missing(); !missing.empty()) {
        WARN("skipped: " << missing);
        return;
    }
    const TestGpu gpu;
    std::printf("%-16s %-10s %6s %9s %9s %9s\n", "shape", "precision", "M", "warm us", "cold us", "PDL us");
    for (const nvfp4r_precision precision : {NVFP4R_PRECISION_NVFP4_W, NVFP4R_PRECISION_NVFP4})
        for (const Shape& shape : {Shape{256, 7168, 8}, Shape{384, 7168, 6}, Shape{256, 4096, 6}}) {
            nvfp4r_router* router = make_router(shape, precision, false);
            nvfp4r_router* dependent = make_router(shape, precision, true);
            for (const int64_t tokens : {1, 4, 16, 64, 256, 512, 1024, 4096, 16384}) {
                const Times times = time_router(gpu, router, shape, tokens);
                const Times pdl = time_router(gpu, dependent, shape, tokens);
                std::printf("E%u K%u k%-5u %-10s %6lld %9.2f %9.2f %9.2f\n", shape.experts, shape.hidden, shape.top_k,
                            precision == NVFP4R_PRECISION_NVFP4 ? "nvfp4" : "nvfp4-w", static_cast<long long>(tokens),
                            times.warm, times.cold, pdl.warm);
                std::fflush(stdout);
                CHECK(times.warm > 0.0);
            }
            nvfp4r_router_destroy(router);
            nvfp4r_router_destroy(dependent);
        }
}
