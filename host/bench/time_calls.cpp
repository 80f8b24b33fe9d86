#include "bench/time_calls.hpp"

#include <algorithm>
#include <chrono>

#include "bench/gate_copies.hpp"

namespace nvfp4r::bench {
namespace {

// A batch of thousands of tokens takes as long as many small calls: its graphs need fewer.
constexpr int64_t kLargeBatch = 1024;
constexpr uint32_t kLargeBatchShare = 4;
constexpr uint32_t kHostCalls = 64;  // of a sample: far fewer than a stream's queue holds
constexpr int64_t kComparedRows = 64;

uint32_t round_up_to(uint32_t value, uint32_t step) {
    return (value + step - 1) / step * step;
}

void judge_graph(const CallGraph& graph, const CallTensors& tensors, const Judge& judge) {
    tensors.poison();
    graph.replay();
    judge(tensors);
}

}  // namespace

void route_or_fail(nvfp4r_router* router, const nvfp4r_call& call) {
    if (const nvfp4r_status status = nvfp4r_route(router, &call); status != NVFP4R_OK)
        throw Error(status, nvfp4r_last_error());
}

CallTimes time_calls(const Stream& stream, nvfp4r_router* router, const nvfp4r_settings& settings, int64_t tokens,
                     const std::vector<uint16_t>& values, bool codes, const Effort& effort, const Judge& judge) {
    const std::shared_ptr<const GpuContext>& context = stream.context();
    CallTimes times;
    const uint32_t wanted = std::max(1u, tokens >= kLargeBatch ? effort.calls / kLargeBatchShare : effort.calls);
    uint64_t bytes = CallTensors::hidden_bytes(settings, tokens);
    {
        const CallTensors tensors(context, settings, tokens, 1, values, codes);
        const CallGraph graph(stream, wanted,
                              [&](uint32_t i) { route_or_fail(router, tensors.call(i, stream.handle())); });
        judge_graph(graph, tensors, judge);
        times.warm = graph.time(effort.samples);
        times.kernel = graph.kernel_use();
        bytes += gate_bytes(*context, graph, !codes);
    }
    times.copies = static_cast<uint32_t>(std::max<uint64_t>(2, (effort.rotated_bytes + bytes - 1) / bytes));
    const CallTensors tensors(context, settings, tokens, times.copies, values, codes);
    CallGraph graph(stream, round_up_to(wanted, times.copies),
                    [&](uint32_t i) { route_or_fail(router, tensors.call(i, stream.handle())); });
    const GateCopies copies(context, graph, times.copies, !codes);
    judge_graph(graph, tensors, judge);
    times.cold = graph.time(effort.samples);
    const Rows right = tensors.rows(kComparedRows);
    copies.clear();
    graph.replay();
    if (tensors.rows(kComparedRows) == right)
        fail(NVFP4R_INTERNAL, "bench: the cold calls at {} tokens did not read the rotated copies of the gate", tokens);
    return times;
}

Spread time_host(const Stream& stream, nvfp4r_router* router, const CallTensors& tensors, uint32_t samples) {
    using Clock = std::chrono::steady_clock;
    const DriverApi& api = stream.context()->api();
    const ContextScope scope(*stream.context());
    const nvfp4r_call call = tensors.call(0, stream.handle());
    std::vector<double> times;
    for (uint32_t s = 0; s <= samples; ++s) {
        const Clock::time_point start = Clock::now();
        for (uint32_t i = 0; i < kHostCalls; ++i) route_or_fail(router, call);
        const std::chrono::duration<double, std::micro> spent = Clock::now() - start;
        check(api, api.cuStreamSynchronize(stream.handle()), "cuStreamSynchronize");
        if (s > 0) times.push_back(spent.count() / kHostCalls);  // the first sample may load the kernel
    }
    return spread_of(times);
}

}  // namespace nvfp4r::bench
