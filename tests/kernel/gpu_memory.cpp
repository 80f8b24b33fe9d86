#include "gpu_memory.hpp"

namespace nvfp4r::test {

TestGpu::TestGpu(const DriverApi& api, int ordinal)
    : context(std::make_shared<GpuContext>(api, ordinal)), scope_(std::make_unique<ContextScope>(*context)) {}

CUgraphExec capture(const TestGpu& gpu, const std::function<void(CUstream)>& record) {
    const DriverApi& api = gpu.api();
    CUstream stream = nullptr;
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    check(api, api.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    check(api, api.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "cuStreamBeginCapture");
    record(stream);
    check(api, api.cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
    check(api, api.cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiateWithFlags");
    check(api, api.cuGraphDestroy(graph), "cuGraphDestroy");
    check(api, api.cuStreamDestroy(stream), "cuStreamDestroy");
    return exec;
}

}  // namespace nvfp4r::test
