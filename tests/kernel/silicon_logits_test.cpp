// The Hopper kernels on an H200 and on the simulator: the same PTX, the same bits.
#include <catch2/catch.hpp>

#include "gpu_case.hpp"
#include "sim/driver/sim_driver.hpp"

using namespace nvfp4r;
using namespace nvfp4r::test;

TEST_CASE("logits of a GPU and of the simulator have the same bits", "[kernel][cuda]") {
    if (const std::string missing = cuda_missing(); !missing.empty()) {
        WARN("skipped: " << missing);
        return;
    }
    sim::GpuConfig config = sim::GpuConfig::for_sm(90);
    config.sms = 132;  // an H200's, which the plan looks at
    sim::driver::restart_driver({config});
    struct Shape {
        uint32_t experts, hidden;
        int64_t tokens;
    };
    for (const Shape& shape : {Shape{256, 1024, 1}, Shape{96, 720, 16}, Shape{200, 1040, 70}, Shape{384, 512, 200}})
        for (const nvfp4r_precision precision :
             {NVFP4R_PRECISION_NVFP4, NVFP4R_PRECISION_NVFP4_W, NVFP4R_PRECISION_NVFP4X2, NVFP4R_PRECISION_BF16}) {
            GpuCase c = gpu_case(shape.experts, shape.hidden, 6, NVFP4R_SCORE_SIGMOID, precision);
            c.tokens = shape.tokens;
            c.nan_rows = shape.tokens > 1 ? 1 : 0;
            INFO(c.name << ", M " << c.tokens << ", precision " << precision);
            CHECK(compare_with_simulator(c) == "");
        }
}
