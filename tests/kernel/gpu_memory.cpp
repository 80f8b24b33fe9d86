#include "gpu_memory.hpp"

#include <algorithm>
#include <random>

#include "format/number.hpp"

namespace nvfp4r::test {

TestGpu::TestGpu()
    : context(std::make_shared<GpuContext>(cuda_driver(), 0)), scope_(std::make_unique<ContextScope>(*context)) {}

DeviceBuffer random_bf16(const TestGpu& gpu, uint64_t count, uint32_t seed) {
    // A period of 2^16 values, which divides no row length used here, fills large buffers quickly.
    constexpr uint64_t kPeriod = (1 << 16) + 1;
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<uint16_t> period(std::min(count, kPeriod)), values(count);
    for (uint16_t& v : period) v = f32_to_bf16(normal(random));
    for (uint64_t i = 0; i < count; ++i) values[i] = period[i % period.size()];
    return upload(gpu.context, std::span<const uint16_t>(values));
}

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

double replay_microseconds(const TestGpu& gpu, CUgraphExec graph, uint32_t samples) {
    const DriverApi& api = gpu.api();
    CUstream stream = nullptr;
    CUevent start = nullptr, stop = nullptr;
    check(api, api.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    check(api, api.cuEventCreate(&start, CU_EVENT_DEFAULT), "cuEventCreate");
    check(api, api.cuEventCreate(&stop, CU_EVENT_DEFAULT), "cuEventCreate");
    std::vector<double> times;
    for (uint32_t i = 0; i < samples + 2; ++i) {  // the first two warm up
        check(api, api.cuEventRecord(start, stream), "cuEventRecord");
        check(api, api.cuGraphLaunch(graph, stream), "cuGraphLaunch");
        check(api, api.cuEventRecord(stop, stream), "cuEventRecord");
        check(api, api.cuStreamSynchronize(stream), "cuStreamSynchronize");
        float milliseconds = 0.0f;
        check(api, api.cuEventElapsedTime(&milliseconds, start, stop), "cuEventElapsedTime");
        if (i >= 2) times.push_back(1e3 * static_cast<double>(milliseconds));
    }
    api.cuEventDestroy(start);
    api.cuEventDestroy(stop);
    api.cuStreamDestroy(stream);
    std::nth_element(times.begin(), times.begin() + samples / 2, times.end());
    return times[samples / 2];
}

}  // namespace nvfp4r::test
