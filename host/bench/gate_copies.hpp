// Copies of a router's gate on the device. Calls that take turns with more of them than the L2 cache holds find the gate
// in memory, as a model's next layer does, and still run one kernel with one mailbox.
#pragma once

#include <cstdint>
#include <memory>

#include "bench/call_graph.hpp"

namespace nvfp4r::bench {

/// Bytes of the gate that the kernels of `graph` read, padding of the copies included. `plain`: as KernelPlan::plain.
uint64_t gate_bytes(const GpuContext& context, const CallGraph& graph, bool plain);

class GateCopies {
  public:
    /// Copies the gate of the kernels in `graph`, which are the calls of one router, `count` times, and lets the kernels
    /// of call i read copy i mod count. The graph may be replayed while this lives.
    /// `plain`: as KernelPlan::plain. Throws OUT_OF_MEMORY or DRIVER_ERROR.
    GateCopies(std::shared_ptr<const GpuContext> context, CallGraph& graph, uint32_t count, bool plain);

    /// Makes every copy a gate of zeros. Calls whose answers stay the same afterwards have not read the copies.
    void clear() const;

  private:
    std::shared_ptr<const GpuContext> context_;
    DeviceBuffer memory_;
};

}  // namespace nvfp4r::bench
