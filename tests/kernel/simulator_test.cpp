// The Hopper kernels' PTX on the simulator, through the same host path: against the contract, on GPUs of any size, under
// every scheduling policy.
#include <catch2/catch.hpp>

#include "gpu_case.hpp"
#include "sim/driver/sim_driver.hpp"

using namespace nvfp4r;
using namespace nvfp4r::test;

namespace {

/// Lets the simulator play one Hopper GPU. `ctas_per_sm`: no more are there at once, however small.
void play_hopper(uint32_t multiprocessors, sim::Policy policy, uint64_t seed, uint32_t ctas_per_sm = 32) {
    sim::GpuConfig config = sim::GpuConfig::for_sm(90);
    config.ctas_per_sm = ctas_per_sm;
    config.sms = multiprocessors;
    config.policy = policy;
    config.seed = seed;
    sim::driver::restart_driver({config});
}

void require_right(GpuCase c) {
    c.options.device = NVFP4R_DEVICE_SIM;
    INFO(c.name << ", M " << c.tokens);
    const std::string wrong = run_gpu_case(c);
    INFO(sim::driver::last_report());
    CHECK(wrong == "");
}

}  // namespace

TEST_CASE("the simulator runs the Hopper kernels in every precision and with every kind of tokens", "[kernel][sim]") {
    play_hopper(132, sim::Policy::random, 1);
    for (const nvfp4r_precision precision :
         {NVFP4R_PRECISION_NVFP4, NVFP4R_PRECISION_NVFP4X2, NVFP4R_PRECISION_NVFP4X3, NVFP4R_PRECISION_NVFP4_W,
          NVFP4R_PRECISION_NVFP4X2_W, NVFP4R_PRECISION_BF16})
        for (const nvfp4r_dtype type : {NVFP4R_BF16, NVFP4R_F32, NVFP4R_E2M1}) {
            GpuCase c = gpu_case(40, 144, 5, NVFP4R_SCORE_SIGMOID, precision);
            c.hidden_type = type;
            c.tokens = 5;
            require_right(c);
        }
}

TEST_CASE("C58 the Hopper kernels end with right results however few CTAs fit", "[kernel][sim]") {
    // With one multiprocessor the CTAs that join cannot all wait beside those that multiply: tokens are handed over. No CTA of
    // the batch kernel has all of 384 experts.
    for (const uint32_t multiprocessors : {1u, 7u}) {
        play_hopper(multiprocessors, sim::Policy::random, 1);
        GpuCase decode = gpu_case(96, 256, 6);
        decode.tokens = 40;
        require_right(decode);
        GpuCase batch = gpu_case(384, 144, 6);
        batch.tokens = 100;
        require_right(batch);
    }
    for (uint64_t seed = 1; seed <= 4; ++seed) {
        play_hopper(1, sim::Policy::random, seed, 2);
        for (const uint32_t experts : {32u, 96u}) {  // one warp selects, several do
            GpuCase c = gpu_case(experts, 256, 4);
            c.tokens = 16;
            require_right(c);
            c.options.device = NVFP4R_DEVICE_SIM;
            INFO("plain, " << experts << " experts");
            CHECK(run_plain_case(c) == "");
        }
    }
}

TEST_CASE("the Hopper batch kernel joins experts and K across CTAs for every kind of tile", "[kernel][sim]") {
    play_hopper(132, sim::Policy::random, 5);
    struct Shape {
        uint32_t experts, hidden;
        int64_t tokens;
    };
    for (const Shape& shape : {Shape{200, 1040, 70}, Shape{384, 512, 130}})
        for (const nvfp4r_precision precision :
             {NVFP4R_PRECISION_NVFP4_W, NVFP4R_PRECISION_NVFP4, NVFP4R_PRECISION_NVFP4X2}) {
            GpuCase c = gpu_case(shape.experts, shape.hidden, 6, NVFP4R_SCORE_SQRTSOFTPLUS, precision);
            c.tokens = shape.tokens;
            c.mask = true;
            require_right(c);
        }
}

TEST_CASE("the Hopper kernels are right for plain calls", "[kernel][sim]") {
    play_hopper(132, sim::Policy::random, 6);
    struct Shape {
        uint32_t experts, hidden;
        int64_t tokens;
    };
    for (const Shape& shape : {Shape{256, 512, 3}, Shape{200, 1040, 70}, Shape{384, 512, 300}, Shape{256, 192, 1030}}) {
        GpuCase c = gpu_case(shape.experts, shape.hidden, 6);
        c.tokens = shape.tokens;
        c.options.device = NVFP4R_DEVICE_SIM;
        INFO(c.name << ", M " << c.tokens);
        CHECK(run_plain_case(c) == "");
    }
}

TEST_CASE("a Hopper CTA with all experts and all of K selects its tokens itself", "[kernel][sim]") {
    // Four multiprocessors make the split of K and experts dearer than the tile that owns both.
    play_hopper(4, sim::Policy::random, 7);
    GpuCase c = gpu_case(256, 192, 8);
    c.tokens = 700;
    c.options.device = NVFP4R_DEVICE_SIM;
    CHECK(run_plain_case(c) == "");
}

TEST_CASE("the Hopper batch kernel touches no register that wgmma still owns", "[kernel][sim][.long]") {
    // The compiler may copy fragments between chunks; strict mode stops when one is copied or written too early.
    play_hopper(132, sim::Policy::late, 8);
    for (const nvfp4r_precision precision :
         {NVFP4R_PRECISION_NVFP4, NVFP4R_PRECISION_NVFP4X2, NVFP4R_PRECISION_NVFP4X3, NVFP4R_PRECISION_NVFP4_W,
          NVFP4R_PRECISION_NVFP4X2_W, NVFP4R_PRECISION_BF16})
        for (const uint32_t experts : {64u, 200u})
            for (const uint32_t hidden : {272u, 1040u}) {
                GpuCase c = gpu_case(experts, hidden, 6, NVFP4R_SCORE_SIGMOID, precision);
                c.tokens = 70;
                require_right(c);
            }
}

TEST_CASE("the Hopper kernels are right under every scheduling policy", "[kernel][sim][.long]") {
    for (const sim::Policy policy : {sim::Policy::round_robin, sim::Policy::eager, sim::Policy::late,
                                     sim::Policy::random, sim::Policy::hold_warp, sim::Policy::hold_cta})
        for (uint64_t seed = 1; seed <= 2; ++seed) {
            play_hopper(132, policy, seed);
            GpuCase decode = gpu_case(64, 320, 6, NVFP4R_SCORE_SOFTMAX);
            decode.tokens = 11;
            decode.mask = true;
            require_right(decode);
            GpuCase batch = gpu_case(40, 144, 5);
            batch.tokens = 650;
            require_right(batch);
        }
}
