#include "sim/driver/capture.hpp"

#include <algorithm>

#include "sim/driver/entries.hpp"
#include "sim/driver/queue.hpp"

namespace nvfp4r::sim::driver {

CUstreamCaptureMode& thread_capture_mode() {
    thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    return mode;
}

CUgraphNode add_node(CUgraph_st& graph, CUgraphNodeType type, Work work,
                     std::vector<CUgraphNode_st::Dependency> after) {
    auto node = std::make_unique<CUgraphNode_st>();
    node->graph = &graph;
    node->type = type;
    node->work = std::move(work);
    node->after = std::move(after);
    graph.nodes.push_back(std::move(node));
    return graph.nodes.back().get();
}

CUgraphNodeType node_type(const Work& work) {
    if (std::holds_alternative<KernelWork>(work)) return CU_GRAPH_NODE_TYPE_KERNEL;
    if (std::holds_alternative<CopyWork>(work)) return CU_GRAPH_NODE_TYPE_MEMCPY;
    if (std::holds_alternative<FillWork>(work)) return CU_GRAPH_NODE_TYPE_MEMSET;
    if (std::holds_alternative<HostWork>(work)) return CU_GRAPH_NODE_TYPE_HOST;
    return CU_GRAPH_NODE_TYPE_EMPTY;
}

void capture_work(CUstream_st& stream, Work work, bool programmatic) {
    Capture& capture = *stream.capture;
    if (capture.invalid)
        refuse(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture was invalidated by an earlier call");
    if (std::holds_alternative<ReleaseWork>(work)) {
        capture.invalid = true;
        refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "memory nodes of graphs are not simulated");
    }
    const bool is_kernel = std::holds_alternative<KernelWork>(work);
    std::vector<CUgraphNode_st::Dependency> after;
    const bool overlaps = programmatic && is_kernel && stream.capture_last_kernel != nullptr &&
                          stream.capture_tail == std::vector<CUgraphNode>{stream.capture_last_kernel};
    for (const CUgraphNode node : stream.capture_tail) after.push_back({node, overlaps});
    const CUgraphNodeType type = node_type(work);
    const CUgraphNode node = add_node(*capture.graph, type, std::move(work), std::move(after));
    stream.capture_tail = {node};
    stream.capture_last_kernel = is_kernel ? node : nullptr;
}

void refuse_implicit_capture(Call& call, const CUstream_st& stream) {
    if (!stream.legacy) return;
    for (const auto& [handle, other] : state().streams) {
        if (other->context != call.context || !other->blocking() || !other->capture) continue;
        other->capture->invalid = true;
        refuse(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "the default stream would wait for stream {}, which is captured",
               other->id);
    }
}

void refuse_during_capture(Call& call) {
    if (thread_capture_mode() == CU_STREAM_CAPTURE_MODE_RELAXED) return;
    bool forbidden = false;
    std::erase_if(state().captures,
                  [](const std::weak_ptr<Capture>& capture) { return capture.expired() || capture.lock()->ended; });
    for (const auto& weak : state().captures) {
        const auto capture = weak.lock();
        const bool own = capture->thread == std::this_thread::get_id();
        const bool reaches = own ? capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                                 : capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                                       thread_capture_mode() == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (!reaches) continue;
        capture->invalid = true;
        forbidden = true;
    }
    if (forbidden)
        refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "{} may allocate or wait, and a stream is being captured",
               call.name);
}

void refuse_captured_stream(CUstream_st& stream) {
    if (!stream.capture) return;
    stream.capture->invalid = true;
    refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "stream {} is being captured: its work has not run", stream.id);
}

void leave_capture(Capture& capture) {
    capture.ended = true;
    for (const CUstream handle : capture.streams) {
        CUstream_st* stream = state().streams.find(handle);
        if (stream == nullptr) continue;
        stream->capture_tail.clear();
        stream->capture_last_kernel = nullptr;
        stream->capture.reset();
    }
}

namespace {

/// Marks every node that `nodes` come after.
void mark_ancestors(const std::vector<CUgraphNode>& nodes, std::set<CUgraphNode>& seen) {
    for (const CUgraphNode node : nodes) {
        if (!seen.insert(node).second) continue;
        std::vector<CUgraphNode> before;
        for (const auto& dependency : node->after) before.push_back(dependency.node);
        mark_ancestors(before, seen);
    }
}

}  // namespace

namespace cu {

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
    return in_context("cuStreamBeginCapture", [&](Call& call) {
        CUstream_st& stream = stream_of(call, handle);
        if (stream.legacy)
            refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the legacy default stream cannot be captured");
        if (stream.capture) refuse(CUDA_ERROR_ILLEGAL_STATE, "stream {} is already being captured", stream.id);
        if (mode > CU_STREAM_CAPTURE_MODE_RELAXED)
            refuse(CUDA_ERROR_INVALID_VALUE, "capture mode {}", static_cast<int>(mode));
        auto capture = std::make_shared<Capture>();
        capture->origin = &stream;
        capture->mode = mode;
        capture->thread = std::this_thread::get_id();
        capture->streams.insert(&stream);
        state().captures.push_back(capture);
        stream.capture = std::move(capture);
        stream.capture_tail.clear();
        stream.capture_last_kernel = nullptr;
    });
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
    return in_context("cuStreamEndCapture", [&](Call& call) {
        require_pointer(graph, "phGraph");
        *graph = nullptr;
        CUstream_st& stream = stream_of(call, handle);
        if (!stream.capture) refuse(CUDA_ERROR_ILLEGAL_STATE, "stream {} is not being captured", stream.id);
        const std::shared_ptr<Capture> capture = stream.capture;
        if (capture->origin != &stream)
            refuse(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture began in another stream");
        if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != std::this_thread::get_id())
            refuse(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "the capture began in another thread");
        std::set<CUgraphNode> joined;
        mark_ancestors(stream.capture_tail, joined);
        leave_capture(*capture);
        if (capture->invalid)
            refuse(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture was invalidated by an earlier call");
        if (joined.size() != capture->graph->nodes.size())
            refuse(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                   "work of another stream was never joined to the stream of the capture");
        *graph = &state().graphs.add(std::move(capture->graph));
    });
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
    return in_context("cuStreamIsCapturing", [&](Call& call) {
        require_pointer(status, "captureStatus");
        CUstream_st& stream = stream_of(call, handle);
        refuse_implicit_capture(call, stream);
        *status = !stream.capture           ? CU_STREAM_CAPTURE_STATUS_NONE
                  : stream.capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                            : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    });
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
    return in_driver("cuThreadExchangeStreamCaptureMode", [&](Call&) {
        require_pointer(mode, "mode");
        if (*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
            refuse(CUDA_ERROR_INVALID_VALUE, "capture mode {}", static_cast<int>(*mode));
        std::swap(*mode, thread_capture_mode());
    });
}

}  // namespace cu

}  // namespace nvfp4r::sim::driver
