// A CUDA context, memory and graphs for the tests that call the router on device memory.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "launch/context.hpp"

namespace nvfp4r::test {

/// A context of a GPU (the primary one unless another is current), current while this lives.
class TestGpu {
  public:
    explicit TestGpu(const DriverApi& api = cuda_driver(), int ordinal = 0);
    const DriverApi& api() const { return context->api(); }
    std::shared_ptr<const GpuContext> context;

  private:
    std::unique_ptr<ContextScope> scope_;
};

/// What `record` launches on a stream, as an executable graph.
CUgraphExec capture(const TestGpu& gpu, const std::function<void(CUstream)>& record);

}  // namespace nvfp4r::test
