// A CUDA context, memory and graphs for the tests that call the router on device memory.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "launch/context.hpp"

namespace nvfp4r::test {

/// The primary context of GPU 0, current while this lives.
class TestGpu {
  public:
    TestGpu();
    const DriverApi& api() const { return context->api(); }
    std::shared_ptr<const GpuContext> context;

  private:
    std::unique_ptr<ContextScope> scope_;
};

/// `count` random bf16 values of a normal distribution, on the device.
DeviceBuffer random_bf16(const TestGpu& gpu, uint64_t count, uint32_t seed);

/// What `record` launches on a stream, as an executable graph.
CUgraphExec capture(const TestGpu& gpu, const std::function<void(CUstream)>& record);

/// Median microseconds of one replay of `graph` over `samples` replays.
double replay_microseconds(const TestGpu& gpu, CUgraphExec graph, uint32_t samples);

}  // namespace nvfp4r::test
