// A CUDA graph of equal calls, and the time of one of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "launch/context.hpp"

namespace nvfp4r::bench {

/// Of several samples, in microseconds of one call.
struct Spread {
    double median = 0, lowest = 0, highest = 0;
};

/// Sorts `samples`, which must not be empty.
Spread spread_of(std::vector<double> samples);

/// A stream of its own. A router keeps a mailbox for every stream it has seen, so one stream serves all graphs.
class Stream {
  public:
    explicit Stream(std::shared_ptr<const GpuContext> context);
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    const std::shared_ptr<const GpuContext>& context() const { return context_; }
    CUstream handle() const { return handle_; }

  private:
    std::shared_ptr<const GpuContext> context_;
    CUstream handle_ = nullptr;
};

/// What a kernel takes of a multiprocessor, as the driver reports it for the loaded code.
struct KernelUse {
    int registers = 0;     // of a thread
    int local_bytes = 0;   // of a thread: spills, and arrays that found no registers
    int shared_bytes = 0;  // of a CTA, static and dynamic
};

class CallGraph {
  public:
    /// Captures record(i) on `stream` for i = 0 .. calls - 1 and instantiates the graph. Throws DRIVER_ERROR and what
    /// `record` throws. The stream must outlive the graph.
    CallGraph(const Stream& stream, uint32_t calls, const std::function<void(uint32_t)>& record);
    ~CallGraph();
    CallGraph(const CallGraph&) = delete;
    CallGraph& operator=(const CallGraph&) = delete;

    uint32_t calls() const { return calls_; }
    /// Makes the executable anew, after parameters of kernels() were set.
    void instantiate();
    /// The kernel launches in the order of capture, a whole number of them for each call.
    std::vector<CUgraphNode> kernels() const;

    KernelUse kernel_use() const;

    /// Replays the graph once and waits.
    void replay() const;
    /// `samples` times the replays of one sample between two events, after two samples that only warm up.
    Spread time(uint32_t samples) const;

  private:
    void capture(const std::function<void(uint32_t)>& record);
    void release();
    double sample() const;

    std::shared_ptr<const GpuContext> context_;
    const uint32_t calls_;
    const CUstream stream_;
    CUevent start_ = nullptr, stop_ = nullptr;
    CUgraph graph_ = nullptr;
    CUgraphExec executable_ = nullptr;
};

}  // namespace nvfp4r::bench
