// Graphs made by hand or by capture.
#include <algorithm>

#include "sim/driver/capture.hpp"
#include "sim/driver/copy.hpp"
#include "sim/driver/entries.hpp"
#include "sim/driver/launch.hpp"
#include "sim/driver/module.hpp"
#include "sim/driver/node_params.hpp"
#include "sim/driver/perform.hpp"

namespace nvfp4r::sim::driver {

CUfunc_st& node_function(Call& call, const CUDA_KERNEL_NODE_PARAMS& params) {
    return params.func != nullptr ? function_of(call, params.func) : kernel_function(call, params.kern);
}

KernelWork kernel_node_work(Call& call, const CUDA_KERNEL_NODE_PARAMS& params) {
    CUfunc_st& function = node_function(call, params);
    const CUlaunchConfig config =
        plain_config({params.gridDimX, params.gridDimY, params.gridDimZ},
                     {params.blockDimX, params.blockDimY, params.blockDimZ}, params.sharedMemBytes, nullptr);
    return kernel_work(function, launch_request(function, config), params.kernelParams, params.extra);
}

KernelWork with_parameters(Call& call, const KernelWork& old, const CUDA_KERNEL_NODE_PARAMS& params) {
    KernelWork work = kernel_node_work(call, params);
    work.launch.cluster = old.launch.cluster;
    work.launch.explicit_cluster = old.launch.explicit_cluster;
    return work;
}

CUgraphNode_st& existing_node(CUgraphNode handle) {
    for (const auto& [key, graph] : state().graphs) {
        for (const auto& node : graph->nodes) {
            if (node.get() == handle) return *node;
        }
    }
    refuse(CUDA_ERROR_INVALID_VALUE, "graph node {} does not exist", static_cast<void*>(handle));
}

namespace cu {

namespace {

template <class MakeWork>
CUresult add_work_node(const char* name, CUgraphNode* handle, CUgraph graph_handle, const CUgraphNode* dependencies,
                       size_t count, MakeWork make_work) {
    return in_context(name, [&](Call& call) {
        require_pointer(handle, "phGraphNode");
        CUgraph_st& graph = live(state().graphs, graph_handle, "graph");
        if (count != 0) require_pointer(dependencies, "dependencies");
        std::vector<CUgraphNode_st::Dependency> after;
        for (size_t i = 0; i < count; ++i) {
            if (existing_node(dependencies[i]).graph != &graph)
                refuse(CUDA_ERROR_INVALID_VALUE, "dependency {} is a node of another graph", i);
            for (const auto& earlier : after) {
                if (earlier.node == dependencies[i])
                    refuse(CUDA_ERROR_INVALID_VALUE, "dependency {} is given twice", i);
            }
            after.push_back({dependencies[i], false});
        }
        Work work = make_work(call);
        const CUgraphNodeType type = node_type(work);
        *handle = add_node(graph, type, std::move(work), std::move(after));
    });
}

/// How the driver lists things: with a null array it only counts, else it fills up to *count.
template <class T>
void list(const std::vector<T>& items, T* out, size_t* count) {
    require_pointer(count, "the number");
    if (out != nullptr) {
        for (size_t i = 0; i < *count; ++i) out[i] = i < items.size() ? items[i] : nullptr;
        *count = std::min(*count, items.size());
    } else {
        *count = items.size();
    }
}

}  // namespace

CUresult cuGraphCreate(CUgraph* graph, unsigned flags) {
    return in_driver("cuGraphCreate", [&](Call&) {
        require_pointer(graph, "phGraph");
        if (flags != 0) refuse(CUDA_ERROR_INVALID_VALUE, "flags {}: must be 0", flags);
        *graph = &state().graphs.add(std::make_unique<CUgraph_st>());
    });
}

CUresult cuGraphDestroy(CUgraph graph) {
    return in_driver("cuGraphDestroy", [&](Call&) { state().graphs.remove(&live(state().graphs, graph, "graph")); });
}

CUresult cuGraphClone(CUgraph* clone, CUgraph graph_handle) {
    return in_driver("cuGraphClone", [&](Call&) {
        require_pointer(clone, "phGraphClone");
        const CUgraph_st& graph = live(state().graphs, graph_handle, "graph");
        auto copy = std::make_unique<CUgraph_st>();
        std::map<CUgraphNode, CUgraphNode> twin;
        for (const auto& node : graph.nodes) {
            std::vector<CUgraphNode_st::Dependency> after;
            for (const auto& dependency : node->after)
                after.push_back({twin.at(dependency.node), dependency.programmatic});
            twin[node.get()] = add_node(*copy, node->type, node->work, std::move(after));
        }
        *clone = &state().graphs.add(std::move(copy));
    });
}

CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                              const CUDA_KERNEL_NODE_PARAMS* params) {
    return add_work_node("cuGraphAddKernelNode", node, graph, dependencies, count, [&](Call& call) -> Work {
        require_pointer(params, "nodeParams");
        return kernel_node_work(call, *params);
    });
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                              const CUDA_MEMCPY3D* params, CUcontext) {
    return add_work_node("cuGraphAddMemcpyNode", node, graph, dependencies, count, [&](Call&) -> Work {
        CopyWork copy = copy_work(params);
        check_copy(copy);
        return copy;
    });
}

CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                              const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
    return add_work_node("cuGraphAddMemsetNode", node, graph, dependencies, count, [&](Call&) -> Work {
        require_pointer(params, "memsetParams");
        if (params->elementSize != 1 && params->elementSize != 2 && params->elementSize != 4)
            refuse(CUDA_ERROR_INVALID_VALUE, "element size {}: 1, 2 or 4 is expected", params->elementSize);
        const FillWork fill = {params->dst,   params->value,  params->elementSize,
                               params->width, params->height, params->pitch};
        check_fill(fill);
        return fill;
    });
}

CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                            const CUDA_HOST_NODE_PARAMS* params) {
    return add_work_node("cuGraphAddHostNode", node, graph, dependencies, count, [&](Call&) -> Work {
        require_pointer(params, "nodeParams");
        if (params->fn == nullptr) refuse(CUDA_ERROR_INVALID_VALUE, "fn is NULL");
        return HostWork{params->fn, params->userData};
    });
}

CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies, size_t count) {
    return add_work_node("cuGraphAddEmptyNode", node, graph, dependencies, count,
                         [](Call&) -> Work { return EmptyWork{}; });
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
    return in_driver("cuGraphGetNodes", [&](Call&) {
        std::vector<CUgraphNode> all;
        for (const auto& node : live(state().graphs, graph, "graph").nodes) all.push_back(node.get());
        list(all, nodes, count);
    });
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
    return in_driver("cuGraphGetRootNodes", [&](Call&) {
        std::vector<CUgraphNode> roots;
        for (const auto& node : live(state().graphs, graph, "graph").nodes) {
            if (node->after.empty()) roots.push_back(node.get());
        }
        list(roots, nodes, count);
    });
}

CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type) {
    return in_driver("cuGraphNodeGetType", [&](Call&) {
        require_pointer(type, "type");
        *type = existing_node(handle).type;
    });
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS* params) {
    return in_driver("cuGraphKernelNodeGetParams", [&](Call&) {
        require_pointer(params, "nodeParams");
        CUgraphNode_st& node = existing_node(handle);
        auto* kernel = std::get_if<KernelWork>(&node.work);
        if (kernel == nullptr) refuse(CUDA_ERROR_INVALID_VALUE, "the node is not a kernel");
        GridLaunch& launch = kernel->launch;
        node.parameter_pointers.clear();
        for (const Variable& parameter : launch.program->entry->params)
            node.parameter_pointers.push_back(launch.params.data() + parameter.offset);
        *params = {};
        params->func = kernel->function;
        params->gridDimX = launch.grid.x;
        params->gridDimY = launch.grid.y;
        params->gridDimZ = launch.grid.z;
        params->blockDimX = launch.block.x;
        params->blockDimY = launch.block.y;
        params->blockDimZ = launch.block.z;
        params->sharedMemBytes = launch.dynamic_shared;
        params->kernelParams = node.parameter_pointers.data();
    });
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode handle, const CUDA_KERNEL_NODE_PARAMS* params) {
    return in_context("cuGraphKernelNodeSetParams", [&](Call& call) {
        require_pointer(params, "nodeParams");
        auto* kernel = std::get_if<KernelWork>(&existing_node(handle).work);
        if (kernel == nullptr) refuse(CUDA_ERROR_INVALID_VALUE, "the node is not a kernel");
        *kernel = with_parameters(call, *kernel, *params);
    });
}

}  // namespace cu

}  // namespace nvfp4r::sim::driver
