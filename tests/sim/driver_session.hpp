// A fresh simulated driver for a test, and kernels small enough to need loads and stores only.
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "sim/driver/sim_driver.hpp"

namespace nvfp4r::test {

inline constexpr const char* kKernels = R"(
.version 8.0
.target sm_90
.address_size 64
.global .align 4 .u32 counter = 5;
.visible .entry put(.param .u64 where, .param .u32 value) {
    .reg .b64 %rd<2>; .reg .b32 %r<2>;
    ld.param.u64 %rd1, [where]; ld.param.u32 %r1, [value];
    st.global.u32 [%rd1], %r1;
    ret;
}
.visible .entry copy(.param .u64 to, .param .u64 from) {
    .reg .b64 %rd<3>; .reg .b32 %r<2>;
    ld.param.u64 %rd1, [to]; ld.param.u64 %rd2, [from];
    ld.global.u32 %r1, [%rd2]; st.global.u32 [%rd1], %r1;
    ret;
}
.visible .entry trapping() { trap; }
.visible .entry bounded() .maxntid 64, 1, 1 { ret; }
.visible .entry exact() .reqntid 32, 2, 1 { ret; }
.visible .entry pairs() .explicitcluster .reqnctapercluster 2, 1, 1 { ret; }
.visible .entry clustered() .explicitcluster { ret; }
.visible .entry registers() .maxnreg 128 { ret; }
.visible .entry shared_static() { .shared .align 16 .b8 tile[1024]; ret; }
)";

inline std::vector<sim::GpuConfig> gpus(std::initializer_list<uint32_t> sms) {
    std::vector<sim::GpuConfig> configs;
    for (const uint32_t sm : sms) configs.push_back(sim::GpuConfig::for_sm(sm));
    return configs;
}

struct SimSession {
    const DriverApi& api = sim_driver();
    CUcontext context = nullptr;
    CUmodule module = nullptr;

    explicit SimSession(std::vector<sim::GpuConfig> configs = gpus({100})) {
        sim::driver::restart_driver(std::move(configs));
        ok(api.cuInit(0));
        ok(api.cuDevicePrimaryCtxRetain(&context, 0));
        ok(api.cuCtxPushCurrent(context));
    }
    ~SimSession() { sim::driver::restart_driver(gpus({100})); }

    void ok(CUresult result) const {
        INFO(sim::driver::last_report());
        REQUIRE(result == CUDA_SUCCESS);
    }
    CUfunction kernel(const char* name) {
        if (module == nullptr) ok(api.cuModuleLoadData(&module, kKernels));
        CUfunction function = nullptr;
        ok(api.cuModuleGetFunction(&function, module, name));
        return function;
    }
    CUdeviceptr words(size_t count) const {
        CUdeviceptr address = 0;
        ok(api.cuMemAlloc(&address, count * 4));
        return address;
    }
    CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) const {
        CUstream made = nullptr;
        ok(api.cuStreamCreate(&made, flags));
        return made;
    }
    /// Launches put: *where = value.
    CUresult put(CUdeviceptr where, uint32_t value, CUstream stream = nullptr) {
        void* parameters[] = {&where, &value};
        return api.cuLaunchKernel(kernel("put"), 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
    }
    /// Launches copy: *to = *from.
    CUresult copy(CUdeviceptr to, CUdeviceptr from, CUstream stream = nullptr) {
        void* parameters[] = {&to, &from};
        return api.cuLaunchKernel(kernel("copy"), 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
    }
    uint32_t word(CUdeviceptr where) const {
        uint32_t value = 0;
        ok(api.cuMemcpyDtoH(&value, where, sizeof value));
        return value;
    }
};

}  // namespace nvfp4r::test
