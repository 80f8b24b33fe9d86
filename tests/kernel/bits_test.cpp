// Logits bit for bit: from the same kernel on an H200 and in the simulator, and in the simulator whatever the schedule.
#include <catch2/catch.hpp>

#include "gpu_case.hpp"
#include "sim/driver/sim_driver.hpp"

using namespace nvfp4r;
using namespace nvfp4r::test;

namespace {

constexpr uint32_t kMultiprocessors = 132;  // of an H200: the plan, and with it the order of the sums, depends on them

std::vector<uint32_t> simulated_bits(const GpuCase& c, sim::Policy policy, uint64_t seed) {
    sim::GpuConfig config = sim::GpuConfig::for_sm(90);
    config.sms = kMultiprocessors;
    config.policy = policy;
    config.seed = seed;
    sim::driver::restart_driver({config});
    nvfp4r_router_options options = NVFP4R_ROUTER_OPTIONS_INIT;
    options.device = NVFP4R_DEVICE_SIM;
    return logit_bits(c, options);
}

/// Every kind of tokens: one call of the decode kernel and one of the batch kernel.
std::vector<GpuCase> small_cases(nvfp4r_precision precision) {
    std::vector<GpuCase> cases;
    for (const nvfp4r_dtype type : {NVFP4R_BF16, NVFP4R_F16, NVFP4R_F32, NVFP4R_E2M1})
        for (const int64_t tokens : {5, 70}) {
            GpuCase c = gpu_case(40, 272, 5, NVFP4R_SCORE_SIGMOID, precision);
            c.hidden_type = type;
            c.tokens = tokens;
            c.name += " type " + std::to_string(type) + ", M " + std::to_string(tokens);
            cases.push_back(c);
        }
    return cases;
}

bool is_hopper() {
    CUdevice device = 0;
    int major = 0, multiprocessors = 0;
    const DriverApi& api = cuda_driver();
    check(api, api.cuDeviceGet(&device, 0), "cuDeviceGet");
    check(api, api.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
          "cuDeviceGetAttribute");
    check(api, api.cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device),
          "cuDeviceGetAttribute");
    return major == 9 && multiprocessors == kMultiprocessors;
}

void compare_bits(nvfp4r_precision precision) {
    if (const std::string missing = cuda_missing(); !missing.empty()) {
        WARN("skipped: " << missing);
        return;
    }
    if (!is_hopper()) {
        WARN("skipped: the GPU is no H200, so its plan is another");
        return;
    }
    nvfp4r_router_options options = NVFP4R_ROUTER_OPTIONS_INIT;
    options.device = NVFP4R_DEVICE_CUDA;
    for (const GpuCase& c : small_cases(precision)) {
        INFO(c.name);
        CHECK(logit_bits(c, options) == simulated_bits(c, sim::Policy::random, 1));
    }
}

}  // namespace

// A test case for each precision: scripts/h200 runs them side by side.
TEST_CASE("an H200 and the simulator give the same logits: nvfp4", "[kernel][cuda][sim][bits]") {
    compare_bits(NVFP4R_PRECISION_NVFP4);
}
TEST_CASE("an H200 and the simulator give the same logits: nvfp4x2", "[kernel][cuda][sim][bits]") {
    compare_bits(NVFP4R_PRECISION_NVFP4X2);
}
TEST_CASE("an H200 and the simulator give the same logits: nvfp4x3", "[kernel][cuda][sim][bits]") {
    compare_bits(NVFP4R_PRECISION_NVFP4X3);
}
TEST_CASE("an H200 and the simulator give the same logits: nvfp4-w", "[kernel][cuda][sim][bits]") {
    compare_bits(NVFP4R_PRECISION_NVFP4_W);
}
TEST_CASE("an H200 and the simulator give the same logits: nvfp4x2-w", "[kernel][cuda][sim][bits]") {
    compare_bits(NVFP4R_PRECISION_NVFP4X2_W);
}
TEST_CASE("an H200 and the simulator give the same logits: bf16", "[kernel][cuda][sim][bits]") {
    compare_bits(NVFP4R_PRECISION_BF16);
}

TEST_CASE("the simulated Hopper kernels' logits do not depend on the schedule", "[kernel][sim]") {
    for (const int64_t tokens : {5, 70}) {
        GpuCase c = gpu_case(40, 272, 5, NVFP4R_SCORE_SIGMOID, NVFP4R_PRECISION_NVFP4X2);
        c.tokens = tokens;
        INFO(tokens << " tokens");
        const std::vector<uint32_t> first = simulated_bits(c, sim::Policy::eager, 1);
        CHECK(simulated_bits(c, sim::Policy::late, 1) == first);
        CHECK(simulated_bits(c, sim::Policy::random, 2) == first);
        c.seed = 2;
        CHECK(simulated_bits(c, sim::Policy::eager, 1) != first);
    }
}
