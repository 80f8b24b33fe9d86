#include "driver_session.hpp"

using namespace nvfp4r;
using namespace nvfp4r::test;

namespace {

CUgraphExec instantiate(const SimSession& session, CUgraph graph) {
    CUgraphExec exec = nullptr;
    session.ok(session.api.cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

size_t node_count(const SimSession& session, CUgraph graph) {
    size_t count = 0;
    session.ok(session.api.cuGraphGetNodes(graph, nullptr, &count));
    return count;
}

}  // namespace

TEST_CASE("A62 a captured stream runs nothing until its graph is launched, again and again", "[sim][driver]") {
    SimSession session;
    const DriverApi& api = session.api;
    const CUstream stream = session.stream();
    const CUdeviceptr a = session.words(2);
    session.ok(api.cuMemsetD32(a, 0, 2));
    session.kernel("put");  // loaded before: loading is not allowed in a capture
    CUgraph graph = nullptr;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    session.ok(api.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    session.ok(api.cuStreamIsCapturing(stream, &status));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    session.ok(session.put(a, 6, stream));
    session.ok(session.copy(a + 4, a, stream));
    session.ok(api.cuStreamEndCapture(stream, &graph));
    session.ok(api.cuStreamIsCapturing(stream, &status));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
    CHECK(node_count(session, graph) == 2);
    CHECK(session.word(a + 4) == 0);
    const CUgraphExec exec = instantiate(session, graph);
    session.ok(api.cuGraphDestroy(graph));  // the executable graph is a copy
    for (int round = 0; round < 3; ++round) {
        session.ok(api.cuMemsetD32Async(a, 0, 2, stream));
        session.ok(api.cuGraphLaunch(exec, stream));
        session.ok(api.cuStreamSynchronize(stream));
        CHECK(session.word(a + 4) == 6);
    }
    session.ok(api.cuGraphExecDestroy(exec));
    CHECK(api.cuGraphLaunch(exec, stream) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("A62 what may allocate or wait is refused during a capture, which is invalid then", "[sim][driver]") {
    struct Case {
        const char* name;
        CUresult (*call)(SimSession&, CUstream);
        CUresult expected;
    };
    const Case cases[] = {
        {"cuMemAlloc",
         [](SimSession& s, CUstream) {
             CUdeviceptr a = 0;
             return s.api.cuMemAlloc(&a, 4);
         },
         CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {"cuModuleLoadData",
         [](SimSession& s, CUstream) {
             CUmodule module = nullptr;
             return s.api.cuModuleLoadData(&module, kKernels);
         },
         CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {"cuStreamSynchronize", [](SimSession& s, CUstream stream) { return s.api.cuStreamSynchronize(stream); },
         CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {"cuStreamQuery", [](SimSession& s, CUstream stream) { return s.api.cuStreamQuery(stream); },
         CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {"cuCtxSynchronize", [](SimSession& s, CUstream) { return s.api.cuCtxSynchronize(); },
         CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {"a launch into the legacy stream", [](SimSession& s, CUstream) { return s.put(s.words(1), 1, nullptr); },
         CUDA_ERROR_STREAM_CAPTURE_IMPLICIT},
    };
    for (const Case& c : cases) {
        INFO(c.name);
        SimSession session;
        session.kernel("put");
        const CUstream stream = session.stream(CU_STREAM_DEFAULT);
        // The legacy launch needs memory, which global mode would refuse first.
        session.ok(session.api.cuStreamBeginCapture(stream, c.expected == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
                                                                ? CU_STREAM_CAPTURE_MODE_RELAXED
                                                                : CU_STREAM_CAPTURE_MODE_GLOBAL));
        CHECK(c.call(session, stream) == c.expected);
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
        session.ok(session.api.cuStreamIsCapturing(stream, &status));
        CHECK(status == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        CUgraph graph = nullptr;
        CHECK(session.api.cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        CHECK(graph == nullptr);
        // The stream is free again.
        session.ok(session.put(session.words(1), 1, stream));
        session.ok(session.api.cuStreamSynchronize(stream));
    }
}

TEST_CASE("relaxed captures and threads in relaxed mode may allocate", "[sim][driver]") {
    SimSession session;
    const DriverApi& api = session.api;
    const CUstream stream = session.stream();
    CUgraph graph = nullptr;
    session.ok(api.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    session.words(1);
    session.ok(api.cuStreamEndCapture(stream, &graph));
    session.ok(api.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    session.ok(api.cuThreadExchangeStreamCaptureMode(&mode));
    CHECK(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
    session.words(1);
    session.ok(api.cuThreadExchangeStreamCaptureMode(&mode));
    session.ok(api.cuStreamEndCapture(stream, &graph));
}

TEST_CASE("a second stream joins a capture by an event and must be joined back", "[sim][driver]") {
    SimSession session;
    const DriverApi& api = session.api;
    const CUstream first = session.stream(), second = session.stream();
    const CUdeviceptr a = session.words(3);
    session.kernel("put");
    CUevent fork = nullptr, join = nullptr;
    session.ok(api.cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    session.ok(api.cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    CUgraph graph = nullptr;
    const auto capture = [&](bool joined) {
        session.ok(api.cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        session.ok(session.put(a, 8, first));
        session.ok(api.cuEventRecord(fork, first));
        session.ok(api.cuStreamWaitEvent(second, fork, 0));
        session.ok(session.copy(a + 4, a, second));
        session.ok(api.cuEventRecord(join, second));
        CHECK(api.cuEventQuery(CUevent(nullptr)) == CUDA_ERROR_INVALID_HANDLE);
        if (joined) session.ok(api.cuStreamWaitEvent(first, join, 0));
        session.ok(session.copy(a + 8, joined ? a + 4 : a, first));
        return api.cuStreamEndCapture(first, &graph);
    };
    CHECK(capture(false) == CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    session.ok(capture(true));
    CHECK(node_count(session, graph) == 3);
    session.ok(api.cuGraphLaunch(instantiate(session, graph), first));
    session.ok(api.cuStreamSynchronize(first));
    CHECK(session.word(a + 8) == 8);
    // Ending in another stream than it began, and waiting for a captured event.
    session.ok(api.cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    session.ok(api.cuEventRecord(fork, first));
    session.ok(api.cuStreamWaitEvent(second, fork, 0));
    CHECK(api.cuStreamEndCapture(second, &graph) == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    CHECK(api.cuEventSynchronize(fork) == CUDA_ERROR_CAPTURED_EVENT);
    CHECK(api.cuStreamEndCapture(first, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_CASE("programmatic launches stay programmatic in a graph", "[sim][driver]") {
    SimSession session;
    const DriverApi& api = session.api;
    const CUstream stream = session.stream();
    const CUdeviceptr a = session.words(3);
    const CUfunction put = session.kernel("put");
    CUlaunchAttribute attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, stream, &attribute, 1};
    CUgraph graph = nullptr;
    session.ok(api.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    session.ok(session.put(a, 1, stream));
    CUdeviceptr where = a + 4;
    uint32_t value = 2;
    void* parameters[] = {&where, &value};
    session.ok(api.cuLaunchKernelEx(&config, put, parameters, nullptr));
    session.ok(api.cuStreamEndCapture(stream, &graph));
    const CUgraphExec exec = instantiate(session, graph);
    session.ok(api.cuGraphLaunch(exec, stream));
    session.ok(session.copy(a + 8, a + 4, stream));
    session.ok(api.cuStreamSynchronize(stream));
    CHECK(session.word(a) == 1);
    CHECK(session.word(a + 8) == 2);
}

TEST_CASE("graphs made by hand, their parameters and updates", "[sim][driver]") {
    SimSession session;
    const DriverApi& api = session.api;
    const CUstream stream = session.stream();
    const CUdeviceptr a = session.words(2);
    CUgraph graph = nullptr, clone = nullptr;
    CUgraphNode fill = nullptr, kernel = nullptr, empty = nullptr, foreign = nullptr;
    session.ok(api.cuGraphCreate(&graph, 0));
    CUDA_MEMSET_NODE_PARAMS set = {};
    set.dst = a;
    set.value = 17;
    set.elementSize = 4;
    set.width = 2;
    set.height = 1;
    session.ok(api.cuGraphAddMemsetNode(&fill, graph, nullptr, 0, &set, session.context));
    CUdeviceptr where = a + 4;
    uint32_t value = 18;
    void* parameters[] = {&where, &value};
    CUDA_KERNEL_NODE_PARAMS node = {};
    node.func = session.kernel("put");
    node.gridDimX = node.gridDimY = node.gridDimZ = node.blockDimX = node.blockDimY = node.blockDimZ = 1;
    node.kernelParams = parameters;
    session.ok(api.cuGraphAddKernelNode(&kernel, graph, &fill, 1, &node));
    session.ok(api.cuGraphAddEmptyNode(&empty, graph, &kernel, 1));
    CHECK(node_count(session, graph) == 3);
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    session.ok(api.cuGraphNodeGetType(kernel, &type));
    CHECK(type == CU_GRAPH_NODE_TYPE_KERNEL);
    const CUgraphExec exec = instantiate(session, graph);
    session.ok(api.cuGraphLaunch(exec, stream));
    session.ok(api.cuStreamSynchronize(stream));
    CHECK(session.word(a) == 17);
    CHECK(session.word(a + 4) == 18);

    CUDA_KERNEL_NODE_PARAMS read = {};
    session.ok(api.cuGraphKernelNodeGetParams(kernel, &read));
    CHECK(read.func == node.func);
    CHECK(*static_cast<uint32_t*>(read.kernelParams[1]) == 18);
    CHECK(api.cuGraphKernelNodeGetParams(fill, &read) == CUDA_ERROR_INVALID_VALUE);

    // New parameters of a node are those of executables made from then on.
    value = 20;
    session.ok(api.cuGraphKernelNodeSetParams(kernel, &node));
    CHECK(api.cuGraphKernelNodeSetParams(fill, &node) == CUDA_ERROR_INVALID_VALUE);
    session.ok(api.cuGraphLaunch(exec, stream));
    session.ok(api.cuStreamSynchronize(stream));
    CHECK(session.word(a + 4) == 18);
    const CUgraphExec changed = instantiate(session, graph);
    session.ok(api.cuGraphLaunch(changed, stream));
    session.ok(api.cuStreamSynchronize(stream));
    CHECK(session.word(a + 4) == 20);
    session.ok(api.cuGraphExecDestroy(changed));
    value = 18;
    session.ok(api.cuGraphKernelNodeSetParams(kernel, &node));

    value = 19;
    session.ok(api.cuGraphExecKernelNodeSetParams(exec, kernel, &node));
    CHECK(api.cuGraphExecKernelNodeSetParams(exec, fill, &node) == CUDA_ERROR_INVALID_VALUE);
    session.ok(api.cuGraphLaunch(exec, stream));
    session.ok(api.cuStreamSynchronize(stream));
    CHECK(session.word(a + 4) == 19);

    CUgraphExecUpdateResultInfo info = {};
    session.ok(api.cuGraphClone(&clone, graph));
    session.ok(api.cuGraphExecUpdate(exec, clone, &info));  // back to 18
    session.ok(api.cuGraphLaunch(exec, stream));
    session.ok(api.cuStreamSynchronize(stream));
    CHECK(session.word(a + 4) == 18);
    session.ok(api.cuGraphAddEmptyNode(&foreign, clone, nullptr, 0));
    CHECK(api.cuGraphExecUpdate(exec, clone, &info) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    CHECK(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    CHECK(api.cuGraphAddEmptyNode(&empty, graph, &foreign, 1) == CUDA_ERROR_INVALID_VALUE);
}
