// Stream capture: work becomes nodes of a graph instead of running.
#pragma once

#include "sim/driver/state.hpp"

namespace nvfp4r::sim::driver {

/// Adds a node behind the nodes in `after`.
CUgraphNode add_node(CUgraph_st& graph, CUgraphNodeType type, Work work, std::vector<CUgraphNode_st::Dependency> after);
CUgraphNodeType node_type(const Work& work);

/// Adds the work to the graph that `stream` is captured into. Refuses when the capture was invalidated.
void capture_work(CUstream_st& stream, Work work, bool programmatic);

/// Refuses (and invalidates) when the legacy stream is used while a stream that it would wait for is captured.
void refuse_implicit_capture(Call& call, const CUstream_st& stream);

/// Refuses calls that may allocate or wait while this thread captures, or any thread captures in global mode
/// (cuStreamBeginCapture, cuThreadExchangeStreamCaptureMode). Invalidates the captures in question, as the driver does.
void refuse_during_capture(Call& call);

/// Refuses waiting for or asking about a stream that is captured.
void refuse_captured_stream(CUstream_st& stream);

/// Ends the capture in every stream that takes part.
void leave_capture(Capture& capture);

/// The calling thread's mode, see cuThreadExchangeStreamCaptureMode.
CUstreamCaptureMode& thread_capture_mode();

}  // namespace nvfp4r::sim::driver
