#include "bench/call_graph.hpp"

#include <algorithm>
#include <utility>

namespace nvfp4r::bench {
namespace {

constexpr uint32_t kWarmUpSamples = 2;
constexpr uint32_t kReplaysPerSample = 4;  // the start of a graph, some microseconds, is shared by all their calls

}  // namespace

Spread spread_of(std::vector<double> samples) {
    std::sort(samples.begin(), samples.end());
    return {samples[samples.size() / 2], samples.front(), samples.back()};
}

Stream::Stream(std::shared_ptr<const GpuContext> context) : context_(std::move(context)) {
    const ContextScope scope(*context_);
    check(context_->api(), context_->api().cuStreamCreate(&handle_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
}

Stream::~Stream() {
    const DriverApi& api = context_->api();
    if (api.cuCtxPushCurrent(context_->handle()) != CUDA_SUCCESS) return;
    api.cuStreamDestroy(handle_);
    CUcontext popped = nullptr;
    api.cuCtxPopCurrent(&popped);
}

CallGraph::CallGraph(const Stream& stream, uint32_t calls, const std::function<void(uint32_t)>& record)
    : context_(stream.context()), calls_(calls), stream_(stream.handle()) {
    try {
        capture(record);
    } catch (...) {
        release();
        throw;
    }
}

CallGraph::~CallGraph() {
    release();
}

void CallGraph::capture(const std::function<void(uint32_t)>& record) {
    const DriverApi& api = context_->api();
    const ContextScope scope(*context_);
    check(api, api.cuEventCreate(&start_, CU_EVENT_DEFAULT), "cuEventCreate");
    check(api, api.cuEventCreate(&stop_, CU_EVENT_DEFAULT), "cuEventCreate");
    check(api, api.cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "cuStreamBeginCapture");
    try {
        for (uint32_t i = 0; i < calls_; ++i) record(i);
    } catch (...) {
        api.cuStreamEndCapture(stream_, &graph_);  // the stream serves other graphs
        throw;
    }
    check(api, api.cuStreamEndCapture(stream_, &graph_), "cuStreamEndCapture");
    instantiate();
}

void CallGraph::instantiate() {
    const DriverApi& api = context_->api();
    const ContextScope scope(*context_);
    if (executable_) check(api, api.cuGraphExecDestroy(std::exchange(executable_, nullptr)), "cuGraphExecDestroy");
    check(api, api.cuGraphInstantiateWithFlags(&executable_, graph_, 0), "cuGraphInstantiateWithFlags");
}

void CallGraph::release() {
    const DriverApi& api = context_->api();
    if (api.cuCtxPushCurrent(context_->handle()) != CUDA_SUCCESS) return;
    if (executable_) api.cuGraphExecDestroy(executable_);
    if (graph_) api.cuGraphDestroy(graph_);
    if (start_) api.cuEventDestroy(start_);
    if (stop_) api.cuEventDestroy(stop_);
    CUcontext popped = nullptr;
    api.cuCtxPopCurrent(&popped);
}

std::vector<CUgraphNode> CallGraph::kernels() const {
    const DriverApi& api = context_->api();
    size_t count = 0;
    check(api, api.cuGraphGetNodes(graph_, nullptr, &count), "cuGraphGetNodes");
    std::vector<CUgraphNode> nodes(count);
    check(api, api.cuGraphGetNodes(graph_, nodes.data(), &count), "cuGraphGetNodes");
    std::erase_if(nodes, [&](CUgraphNode node) {
        CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
        check(api, api.cuGraphNodeGetType(node, &type), "cuGraphNodeGetType");
        return type != CU_GRAPH_NODE_TYPE_KERNEL;
    });
    return nodes;
}

KernelUse CallGraph::kernel_use() const {
    const DriverApi& api = context_->api();
    const ContextScope scope(*context_);
    CUDA_KERNEL_NODE_PARAMS node{};
    check(api, api.cuGraphKernelNodeGetParams(kernels().at(0), &node), "cuGraphKernelNodeGetParams");
    KernelUse use;
    int static_bytes = 0;
    check(api, api.cuFuncGetAttribute(&use.registers, CU_FUNC_ATTRIBUTE_NUM_REGS, node.func), "cuFuncGetAttribute",
          "registers");
    check(api, api.cuFuncGetAttribute(&use.local_bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, node.func),
          "cuFuncGetAttribute", "local memory");
    check(api, api.cuFuncGetAttribute(&static_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, node.func),
          "cuFuncGetAttribute", "shared memory");
    use.shared_bytes = static_bytes + static_cast<int>(node.sharedMemBytes);
    return use;
}

void CallGraph::replay() const {
    const DriverApi& api = context_->api();
    const ContextScope scope(*context_);
    check(api, api.cuGraphLaunch(executable_, stream_), "cuGraphLaunch");
    check(api, api.cuStreamSynchronize(stream_), "cuStreamSynchronize", "after a graph of {} calls", calls_);
}

double CallGraph::sample() const {
    const DriverApi& api = context_->api();
    check(api, api.cuEventRecord(start_, stream_), "cuEventRecord");
    for (uint32_t i = 0; i < kReplaysPerSample; ++i)
        check(api, api.cuGraphLaunch(executable_, stream_), "cuGraphLaunch");
    check(api, api.cuEventRecord(stop_, stream_), "cuEventRecord");
    check(api, api.cuStreamSynchronize(stream_), "cuStreamSynchronize", "after a graph of {} calls", calls_);
    float milliseconds = 0;
    check(api, api.cuEventElapsedTime(&milliseconds, start_, stop_), "cuEventElapsedTime");
    return 1e3 * static_cast<double>(milliseconds) / (double{kReplaysPerSample} * calls_);
}

Spread CallGraph::time(uint32_t samples) const {
    const ContextScope scope(*context_);
    for (uint32_t i = 0; i < kWarmUpSamples; ++i) sample();
    std::vector<double> times;
    for (uint32_t i = 0; i < samples; ++i) times.push_back(sample());
    return spread_of(times);
}

}  // namespace nvfp4r::bench
