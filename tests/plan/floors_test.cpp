#include "plan/floors.hpp"

#include <catch2/catch.hpp>

#include "core/error.hpp"
#include "plan/memory_map.hpp"

using namespace nvfp4r;

namespace {

nvfp4r_settings settings_of(uint32_t experts, uint32_t hidden, nvfp4r_precision precision) {
    nvfp4r_settings s = NVFP4R_SETTINGS_INIT;
    s.experts = experts;
    s.hidden = hidden;
    s.top_k = 6;
    s.score = NVFP4R_SCORE_SQRTSOFTPLUS;
    s.precision = precision;
    return s;
}

}  // namespace

TEST_CASE("floors count every byte and product once", "[plan]") {
    const KnownGpu& gpu = known_gpu("b200");
    const auto settings = settings_of(384, 7168, NVFP4R_PRECISION_NVFP4X2);
    const Plan plan = make_plan(settings, TokenForm::Bf16, token_band(64), gpu.limits, {});
    const Floors f = floors_of(plan.kernel, 64, gpu);
    // Two terms of 0.5625 bytes a weight, bf16 tokens, 6 pairs of a float and an int a token.
    CHECK(f.gate_bytes == 2 * 384 * 7168 * 9 / 16);
    CHECK(f.token_bytes == 64 * 7168 * 2);
    CHECK(f.output_bytes == 64 * 6 * 8);
    // W1 X1, W2 X1 and W1 X2.
    CHECK(f.flops == 3.0 * 2 * 64 * 384 * 7168);
    CHECK(f.total_ns() >= f.launch_ns + f.bytes_ns);
}

TEST_CASE("a GPU without FP4 multiplies at its bf16 rate", "[plan]") {
    const auto settings = settings_of(256, 4096, NVFP4R_PRECISION_NVFP4);
    const KnownGpu &hopper = known_gpu("90a"), &blackwell = known_gpu("100a");
    const auto flops_ns = [&](const KnownGpu& gpu) {
        const Plan plan = make_plan(settings, TokenForm::Bf16, token_band(8192), gpu.limits, {});
        return floors_of(plan.kernel, 8192, gpu).flops_ns;
    };
    // 989 TFLOPS against 8.97 PFLOPS.
    CHECK(flops_ns(hopper) / flops_ns(blackwell) == Approx(8.97 / 0.989).epsilon(0.01));
    CHECK_THROWS_AS(known_gpu("120a"), Error);
}

TEST_CASE("memory maps have no gaps and end where the plan ends", "[plan]") {
    for (const KnownGpu& gpu : known_gpus())
        for (const nvfp4r_precision precision :
             {NVFP4R_PRECISION_NVFP4, NVFP4R_PRECISION_NVFP4X3, NVFP4R_PRECISION_BF16})
            for (const uint32_t experts : {8u, 384u, 2048u})
                for (const int64_t tokens : {1, 16, 64, 8192}) {
                    const auto settings = settings_of(experts, 7168, precision);
                    const Plan plan = make_plan(settings, TokenForm::Bf16, token_band(tokens), gpu.limits, {});
                    INFO(gpu.name << ", " << experts << " experts, " << tokens << " tokens, " << plan.source);
                    const auto end_of = [](const std::vector<Region>& regions) {
                        uint32_t end = 0;
                        for (const Region& region : regions) {
                            CHECK(region.first == end);
                            CHECK(region.size > 0);
                            end += region.size;
                        }
                        return end;
                    };
                    CHECK(end_of(shared_memory_map(plan)) == plan.shared_bytes);
                    CHECK(end_of(tensor_memory_map(plan)) == plan.kernel.tmem_columns);
                    CHECK((plan.kernel.tmem_columns != 0) == (gpu.arch != "90a"));
                }
}
