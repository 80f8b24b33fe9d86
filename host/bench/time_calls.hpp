// Times of a router's calls: warm and cold, as graphs, and what the host spends on one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "bench/call_graph.hpp"
#include "bench/call_tensors.hpp"

namespace nvfp4r::bench {

struct Effort {
    uint32_t samples = 11;
    uint32_t calls = 40;                 // of a graph, at least; a batch of thousands of tokens takes fewer
    uint64_t rotated_bytes = 220000000;  // gate and tokens of a cold round: several times any L2 cache
};

struct CallTimes {
    Spread warm, cold;  // of one call on the GPU
    KernelUse kernel;
    uint32_t copies = 0;  // of gate and tokens, in the cold round
};

/// Judges a finished call; throws when it is wrong.
using Judge = std::function<void(const CallTensors&)>;

/// Calls of `tokens` tokens. Before a graph is timed, its outputs are poisoned and its answer judged; after the cold one,
/// that its kernels read the rotated copies. The router is one of the stream's context. Throws what the router's call and
/// `judge` report, OUT_OF_MEMORY, DRIVER_ERROR.
CallTimes time_calls(const Stream& stream, nvfp4r_router* router, const nvfp4r_settings& settings, int64_t tokens,
                     const std::vector<uint16_t>& values, bool codes, const Effort& effort, const Judge& judge);

/// Microseconds from a call's argument checks to its launch returning, on an idle stream that never fills.
Spread time_host(const Stream& stream, nvfp4r_router* router, const CallTensors& tensors, uint32_t samples);

/// nvfp4r_route, with a failure as an Error.
void route_or_fail(nvfp4r_router* router, const nvfp4r_call& call);

}  // namespace nvfp4r::bench
