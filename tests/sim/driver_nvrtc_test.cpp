// From CUDA C++ to a result: what NVRTC makes of a source runs on the simulated GPU that it was made for.
#include "driver_session.hpp"
#include "jit/compile.hpp"
#include "jit/target.hpp"

using namespace nvfp4r;
using namespace nvfp4r::test;

TEST_CASE("a kernel compiled by NVRTC runs on every architecture that is played", "[sim][driver][jit]") {
    try {
        nvrtc();
    } catch (const Error&) {
        WARN("no NVRTC here: not tested");
        return;
    }
    for (const uint32_t sm : {90u, 100u, 103u, 110u}) {
        SimSession session(gpus({sm}));
        const DriverApi& api = session.api;
        int major = 0, minor = 0;
        session.ok(api.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
        session.ok(api.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
        CompileRequest request;
        request.source = {"saxpy.cu",
                          "extern \"C\" __global__ void saxpy(int n, float a, const float* x, float* y) {\n"
                          "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                          "    if (i < n) y[i] = a * x[i] + y[i];\n"
                          "}\n"};
        request.arch = target_for(major, minor).arch;
        const CompiledKernel compiled = compile(nvrtc(), request);
        CUmodule module = nullptr;
        CUfunction saxpy = nullptr;
        session.ok(api.cuModuleLoadData(&module, compiled.ptx.c_str()));
        session.ok(api.cuModuleGetFunction(&saxpy, module, "saxpy"));
        int n = 1000;
        float a = 3;
        std::vector<float> x(1000), y(1000);
        for (int i = 0; i < n; ++i)
            x[static_cast<size_t>(i)] = static_cast<float>(i), y[static_cast<size_t>(i)] = static_cast<float>(i % 7);
        CUdeviceptr xs = session.words(1000), ys = session.words(1000);
        session.ok(api.cuMemcpyHtoD(xs, x.data(), 4000));
        session.ok(api.cuMemcpyHtoD(ys, y.data(), 4000));
        void* parameters[] = {&n, &a, &xs, &ys};
        session.ok(api.cuLaunchKernel(saxpy, 8, 1, 1, 128, 1, 1, 0, nullptr, parameters, nullptr));
        std::vector<float> out(1000);
        session.ok(api.cuMemcpyDtoH(out.data(), ys, 4000));
        int wrong = 0;
        for (size_t i = 0; i < 1000; ++i) wrong += out[i] != 3 * x[i] + y[i];  // small integers: exact
        CHECK(wrong == 0);
    }
}
