// Executable graphs: a frozen copy of a graph, launched into streams.
#include <algorithm>

#include "sim/driver/capture.hpp"
#include "sim/driver/entries.hpp"
#include "sim/driver/node_params.hpp"
#include "sim/driver/queue.hpp"

namespace nvfp4r::sim::driver::cu {

namespace {

std::vector<CUgraphExec_st::Node> freeze(const CUgraph_st& graph) {
    std::vector<CUgraphExec_st::Node> nodes;
    std::map<CUgraphNode, size_t> position;
    for (const auto& node : graph.nodes) {
        CUgraphExec_st::Node frozen;
        frozen.original = node.get();
        frozen.type = node->type;
        frozen.work = node->work;
        for (const auto& dependency : node->after) {
            frozen.after.push_back(position.at(dependency.node));
            frozen.programmatic = dependency.programmatic;  // only ever a single edge, see capture_work
        }
        position[node.get()] = nodes.size();
        nodes.push_back(std::move(frozen));
    }
    return nodes;
}

/// Adds every node to the capture of `stream` as a node of the graph that is being made.
void launch_into_capture(CUstream_st& stream, const CUgraphExec_st& exec) {
    const std::vector<CUgraphNode> before = stream.capture_tail;
    std::vector<CUgraphNode> nodes;
    for (const CUgraphExec_st::Node& node : exec.nodes) {
        std::vector<CUgraphNode_st::Dependency> after;
        for (const size_t i : node.after) after.push_back({nodes[i], node.programmatic});
        if (node.after.empty()) {
            for (const CUgraphNode earlier : before) after.push_back({earlier, false});
        }
        nodes.push_back(add_node(*stream.capture->graph, node.type, node.work, std::move(after)));
    }
    if (nodes.empty()) return;
    stream.capture_tail = std::move(nodes);
    stream.capture_last_kernel = nullptr;
}

void launch(CUstream_st& stream, CUgraphExec_st& exec) {
    Ops before = stream_dependencies(*stream.context, stream);
    before.insert(before.end(), exec.last_launch.begin(), exec.last_launch.end());
    std::vector<OpRef> ops;
    for (const CUgraphExec_st::Node& node : exec.nodes) {
        // What came before the graph holds for every node: an edge more than a node has through its own is no harm.
        Ops after = before;
        OpRef overlapped;
        for (const size_t i : node.after) {
            if (node.programmatic) {
                overlapped = ops[i];
            } else {
                after.push_back(ops[i]);
            }
        }
        std::erase_if(after, [](const OpRef& op) { return op->done; });
        ops.push_back(
            queue_work(device_of(stream.context->device), stream.context, node.work, std::move(after), overlapped));
    }
    if (ops.empty()) return;
    stream.waits.clear();
    stream.last_kernel = nullptr;
    stream.tail = ops;
    exec.last_launch = ops;
}

}  // namespace

CUresult cuGraphInstantiateWithFlags(CUgraphExec* handle, CUgraph graph, unsigned long long flags) {
    return in_context("cuGraphInstantiate", [&](Call& call) {
        require_pointer(handle, "phGraphExec");
        constexpr unsigned long long kKnown = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                              CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                              CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
        if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0)
            refuse(CUDA_ERROR_NOT_SUPPORTED, "graphs launched from the device are not simulated");
        if ((flags & ~kKnown) != 0) refuse(CUDA_ERROR_INVALID_VALUE, "flags {:#x}", flags);
        auto exec = std::make_unique<CUgraphExec_st>();
        exec->context = call.context;
        exec->nodes = freeze(live(state().graphs, graph, "graph"));
        *handle = &state().graph_execs.add(std::move(exec));
    });
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* handle, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
    if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = cu::cuGraphInstantiateWithFlags(handle, graph, params->flags);
    params->hErrNode_out = nullptr;
    params->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    return result;
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
    return in_context("cuGraphExecDestroy",
                      [&](Call&) { state().graph_execs.remove(&live(state().graph_execs, exec, "executable graph")); });
}

// There is nothing to carry over ahead of the launch.
CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
    return in_context("cuGraphUpload", [&](Call& call) {
        live(state().graph_execs, exec, "executable graph");
        stream_of(call, stream);
    });
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
    return in_context("cuGraphLaunch", [&](Call& call) {
        CUgraphExec_st& exec = live(state().graph_execs, handle, "executable graph");
        CUstream_st& stream = stream_of(call, stream_handle);
        if (exec.context->device != stream.context->device)
            refuse(CUDA_ERROR_INVALID_VALUE, "the graph was instantiated for device {}", exec.context->device);
        if (stream.capture) {
            if (stream.capture->invalid)
                refuse(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture was invalidated by an earlier call");
            launch_into_capture(stream, exec);
            return;
        }
        refuse_implicit_capture(call, stream);
        launch(stream, exec);
    });
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec handle, CUgraphNode node_handle,
                                        const CUDA_KERNEL_NODE_PARAMS* params) {
    return in_context("cuGraphExecKernelNodeSetParams", [&](Call& call) {
        require_pointer(params, "nodeParams");
        CUgraphExec_st& exec = live(state().graph_execs, handle, "executable graph");
        const auto node = std::find_if(exec.nodes.begin(), exec.nodes.end(),
                                       [&](const auto& n) { return n.original == node_handle; });
        if (node == exec.nodes.end() || node->type != CU_GRAPH_NODE_TYPE_KERNEL)
            refuse(CUDA_ERROR_INVALID_VALUE, "the node is not a kernel of this graph");
        node->work = with_parameters(call, std::get<KernelWork>(node->work), *params);
    });
}

CUresult cuGraphExecUpdate(CUgraphExec handle, CUgraph graph_handle, CUgraphExecUpdateResultInfo* info) {
    return in_context("cuGraphExecUpdate", [&](Call&) {
        require_pointer(info, "resultInfo");
        CUgraphExec_st& exec = live(state().graph_execs, handle, "executable graph");
        std::vector<CUgraphExec_st::Node> nodes = freeze(live(state().graphs, graph_handle, "graph"));
        *info = {CU_GRAPH_EXEC_UPDATE_SUCCESS, nullptr, nullptr};
        const auto reject = [&](CUgraphExecUpdateResult why, CUgraphNode node) {
            *info = {why, node, nullptr};
            refuse(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the graphs differ ({})", static_cast<int>(why));
        };
        if (nodes.size() != exec.nodes.size()) reject(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr);
        for (size_t i = 0; i < nodes.size(); ++i) {
            if (nodes[i].type != exec.nodes[i].type)
                reject(CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, nodes[i].original);
            if (nodes[i].after != exec.nodes[i].after || nodes[i].programmatic != exec.nodes[i].programmatic)
                reject(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nodes[i].original);
        }
        for (size_t i = 0; i < nodes.size(); ++i) exec.nodes[i].work = std::move(nodes[i].work);
    });
}

}  // namespace nvfp4r::sim::driver::cu
