// From stream order to runs of the machine. A call only queues its work; the queue is emptied where the program waits,
// so that kernels which may overlap are handed to the machine together. Everything is deterministic: the order is that
// of the calls.
#pragma once

#include "sim/driver/state.hpp"

namespace nvfp4r::sim::driver {

/// The stream behind a handle: NULL and CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, or a created one.
CUstream_st& stream_of(Call& call, CUstream handle);

/// Queues work behind the stream's earlier work (or adds it to the graph that the stream is captured into).
/// `programmatic`: a kernel launched with programmatic stream serialisation.
void enqueue(Call& call, CUstream_st& stream, Work work, bool programmatic = false);

/// What an operation in this stream would come after now: the stream's own tail and, by the legacy stream's rule,
/// others'.
Ops stream_dependencies(const CUctx_st& context, const CUstream_st& stream);

/// Appends work with given dependencies to the device's queue.
OpRef queue_work(Device& device, CUcontext context, Work work, Ops after, OpRef programmatic_after);

/// Runs everything queued on the device. A kernel's fault is left in its context. Host functions run without the lock.
void drain(Call& call, int device);

/// drain, then throws the current context's fault if there is one.
void synchronise(Call& call);

}  // namespace nvfp4r::sim::driver
