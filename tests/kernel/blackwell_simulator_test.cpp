// The Blackwell kernel's PTX on the simulator, through the real host path: logits bit for bit against the tensor core's
// rule in the plan's own order of K, results against the contract, schedules of every policy.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>

#include "api/open_router.hpp"
#include "cpu/hardware_multiply.hpp"
#include "format/number.hpp"
#include "gpu_case.hpp"
#include "plan/plan.hpp"
#include "sim/driver/sim_driver.hpp"

using namespace nvfp4r;
using namespace nvfp4r::test;

namespace {

constexpr sim::Policy kPolicies[] = {sim::Policy::round_robin, sim::Policy::eager,     sim::Policy::late,
                                     sim::Policy::random,      sim::Policy::hold_warp, sim::Policy::hold_cta};

sim::GpuConfig b200() {
    return sim::GpuConfig::for_sm(100);
}

void play(sim::GpuConfig config, sim::Policy policy, uint64_t seed) {
    config.policy = policy;
    config.seed = seed;
    sim::driver::restart_driver({config});
}

void require_right(GpuCase c) {
    c.options.device = NVFP4R_DEVICE_SIM;
    INFO(c.name << ", M " << c.tokens);
    CHECK(run_gpu_case(c) == "");
    INFO(sim::driver::last_report());
}

/// A tile shape and a problem that it serves.
struct Shape {
    uint32_t experts, hidden, tokens;
    nvfp4r_precision precision;
    TileWish wish;
};
// Both forms of the join, one and several blocks, slices, stages, terms; K with a short last stage and a short last step;
// stages of several operand rows, the last of them short; clusters of four and of eight.
constexpr Shape kShapes[] = {
    {128, 256, 8, NVFP4R_PRECISION_NVFP4, {8, 1, 0, 0}},    {128, 1024, 16, NVFP4R_PRECISION_NVFP4, {16, 1, 0, 1}},
    {128, 1024, 5, NVFP4R_PRECISION_NVFP4, {8, 1, 0, 4}},   {256, 1024, 9, NVFP4R_PRECISION_NVFP4, {8, 2, 0, 2}},
    {384, 1024, 3, NVFP4R_PRECISION_NVFP4, {8, 4, 0, 0}},   {256, 768, 33, NVFP4R_PRECISION_NVFP4, {32, 3, 0, 0}},
    {144, 80, 12, NVFP4R_PRECISION_NVFP4, {16, 1, 0, 0}},   {40, 688, 70, NVFP4R_PRECISION_NVFP4, {64, 1, 0, 2}},
    {256, 512, 10, NVFP4R_PRECISION_NVFP4X2, {8, 1, 0, 1}}, {128, 768, 17, NVFP4R_PRECISION_NVFP4X2, {16, 3, 0, 0}},
    {128, 512, 4, NVFP4R_PRECISION_NVFP4X3, {8, 2, 0, 0}},  {64, 512, 130, NVFP4R_PRECISION_NVFP4, {128, 1, 0, 0}},
    {128, 1024, 5, NVFP4R_PRECISION_NVFP4, {8, 1, 512, 2}}, {256, 1312, 9, NVFP4R_PRECISION_NVFP4X2, {8, 2, 768, 1}},
    {128, 2048, 35, NVFP4R_PRECISION_NVFP4, {32, 4, 0, 0}}, {128, 4096, 17, NVFP4R_PRECISION_NVFP4, {16, 8, 0, 1}},
};

std::vector<float> random_values(size_t count, uint32_t seed) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    for (float& v : values) v = bf16_to_f32(f32_to_bf16(normal(generator)));
    return values;
}

/// Terms of the tokens as the kernel makes them: each row with the global scale of its own amax.
std::vector<Nvfp4Matrix> token_terms(const std::vector<float>& x, const Shape& s, uint32_t terms,
                                     std::vector<float>& global) {
    std::vector<Nvfp4Matrix> matrices(terms);
    for (Nvfp4Matrix& m : matrices) {
        m.rows = s.tokens;
        m.cols = s.hidden;
        m.codes.resize(size_t{s.tokens} * s.hidden / 2);
        m.scales.resize(size_t{s.tokens} * s.hidden / kBlock);
    }
    global.resize(s.tokens);
    for (uint32_t row = 0; row < s.tokens; ++row) {
        std::vector<float> left(x.begin() + row * s.hidden, x.begin() + (row + 1) * s.hidden), value(s.hidden);
        float amax = 0;
        for (const float v : left) amax = std::max(amax, std::fabs(v));
        global[row] = global_scale_of(amax);
        for (Nvfp4Matrix& m : matrices) {
            uint8_t* codes = m.codes.data() + size_t{row} * s.hidden / 2;
            uint8_t* scales = m.scales.data() + size_t{row} * s.hidden / kBlock;
            quantise_row(left, global[row], NVFP4R_BLOCK_AMAX, codes, scales);
            dequantise_row(codes, scales, value);
            for (uint32_t k = 0; k < s.hidden; ++k) left[k] = std::fma(-value[k], global[row], left[k]);
        }
    }
    return matrices;
}

/// How many logits of the simulated kernel differ from the rule.
size_t differing_logits(const Shape& s, uint32_t seed) {
    const std::vector<float> weight = random_values(size_t{s.experts} * s.hidden, seed);
    const std::vector<float> x = random_values(size_t{s.tokens} * s.hidden, seed + 1);
    std::vector<uint16_t> hidden(x.size());
    for (size_t i = 0; i < x.size(); ++i) hidden[i] = f32_to_bf16(x[i]);

    nvfp4r_settings settings = NVFP4R_SETTINGS_INIT;
    settings.experts = s.experts;
    settings.hidden = s.hidden;
    settings.top_k = 6;
    settings.score = NVFP4R_SCORE_SQRTSOFTPLUS;
    settings.renormalise = 1;
    settings.precision = s.precision;
    nvfp4r_router_options options = NVFP4R_ROUTER_OPTIONS_INIT;
    options.device = NVFP4R_DEVICE_SIM;
    options.tokens_per_tile = s.wish.tokens_per_tile;
    options.k_split = s.wish.k_split;
    options.k_tile = s.wish.k_tile;
    options.stages = s.wish.stages;
    const Router router = open_router(f32_gate(settings, weight), settings, options);

    std::vector<float> weights(size_t{s.tokens} * 6), logits(size_t{s.tokens} * s.experts, 12345.0f);
    std::vector<int32_t> ids(weights.size());
    nvfp4r_call call = NVFP4R_CALL_INIT;
    call.tokens = s.tokens;
    call.hidden = hidden.data();
    call.hidden_type = NVFP4R_BF16;
    call.weights = weights.data();
    call.ids = ids.data();
    call.logits = logits.data();
    const nvfp4r_status routed = nvfp4r_route(router.get(), &call);
    INFO(nvfp4r_last_error() << "\n" << sim::driver::last_report());
    REQUIRE(routed == NVFP4R_OK);

    const auto terms = static_cast<uint32_t>(s.precision);  // nvfp4, x2, x3 are 1, 2, 3
    const std::vector<Nvfp4Matrix> w =
        quantise_terms(weight.data(), s.experts, s.hidden, s.hidden, terms, NVFP4R_BLOCK_AMAX, "gate");
    std::vector<float> global;
    const std::vector<Nvfp4Matrix> tokens = token_terms(x, s, terms, global);
    const sim::GpuConfig gpu = b200();
    const Plan plan = make_plan(settings, TokenForm::Bf16, token_band(s.tokens),
                                {"B200", 10, 0, gpu.sms, gpu.shared_per_block_optin, gpu.shared_per_sm}, s.wish);
    const uint32_t stages = ceil_div(s.hidden, stage_k(plan.kernel));
    const uint32_t steps = stage_steps(plan.kernel);
    const std::vector<float> sums = logits_hardware(tokens, w, {ceil_div(stages, plan.kernel.slices) * steps, steps});
    size_t differing = 0;
    for (size_t i = 0; i < sums.size(); ++i) {
        const float expected = w[0].global_scale * global[i / s.experts] * sums[i];
        differing += std::memcmp(&expected, &logits[i], sizeof expected) != 0;
    }
    return differing;
}

}  // namespace

TEST_CASE("C04 Blackwell logits are the tensor core's bits in every tile shape", "[kernel][sim]") {
    play(b200(), sim::Policy::random, 1);
    for (const Shape& s : kShapes) {
        INFO(s.experts << " experts, K " << s.hidden << ", M " << s.tokens << ", precision " << s.precision);
        CHECK(differing_logits(s, 1) == 0);
    }
}

TEST_CASE("the Blackwell kernel takes every kind of tokens and precision", "[kernel][sim]") {
    play(b200(), sim::Policy::late, 1);
    for (const nvfp4r_precision precision : {NVFP4R_PRECISION_NVFP4, NVFP4R_PRECISION_BF16})
        for (const nvfp4r_dtype type : {NVFP4R_F16, NVFP4R_F32, NVFP4R_E2M1, NVFP4R_BF16}) {
            if (precision == NVFP4R_PRECISION_BF16 && type == NVFP4R_E2M1) continue;  // refused: a term for a value
            GpuCase c = gpu_case(40, 144, 5, NVFP4R_SCORE_SIGMOID, precision);
            c.hidden_type = type;
            c.tokens = 5;
            require_right(c);
            c.options.k_tile = precision == NVFP4R_PRECISION_BF16 ? 128 : 512;  // two operand rows
            require_right(c);
        }
}

TEST_CASE("the Blackwell kernel takes NVFP4 tokens by TMA and, where rows do not suit it, thread by thread",
          "[kernel][sim]") {
    play(b200(), sim::Policy::random, 4);
    struct Rows {
        uint32_t hidden, tokens, tile, split;
        bool by_tma;
    };
    // Short last tiles, rows and steps; masked rows; several stages of a ring; more tokens than a scale atom has.
    constexpr Rows kRows[] = {{160, 5, 8, 1, true},     {1312, 19, 16, 2, true}, {1024, 9, 8, 1, true},
                              {512, 130, 128, 1, true}, {144, 5, 8, 1, false},   {1296, 12, 16, 2, false}};
    for (const Rows& r : kRows) {
        GpuCase c = gpu_case(40, r.hidden, 5, NVFP4R_SCORE_SIGMOID, NVFP4R_PRECISION_NVFP4);
        c.hidden_type = NVFP4R_E2M1;
        c.tokens = r.tokens;
        c.mask = r.tokens > 9;
        c.options.tokens_per_tile = r.tile;
        c.options.k_split = r.split;
        c.options.stages = 1;
        const sim::driver::RunTotals before = sim::driver::run_totals();
        require_right(c);
        const sim::driver::RunTotals after = sim::driver::run_totals();
        // A box for each operand row of the one block of experts, and as many for the tokens.
        const uint64_t boxes = (after.grids - before.grids) * ceil_div(r.tokens, r.tile) * ceil_div(r.hidden, 256);
        const auto copies = [](const sim::driver::RunTotals& totals) {
            const auto at = totals.counters.find("operations of TMA load");
            return at == totals.counters.end() ? 0 : at->second;
        };
        CHECK(copies(after) - copies(before) == boxes * (r.by_tma ? 2 : 1));
    }
}

TEST_CASE("C58 the Blackwell kernel ends with right results however few CTAs fit", "[kernel][sim]") {
    sim::GpuConfig one = b200();
    one.sms = 1;
    play(one, sim::Policy::random, 3);
    GpuCase c = gpu_case(256, 1024, 6, NVFP4R_SCORE_SOFTMAX, NVFP4R_PRECISION_NVFP4);
    c.options.k_split = 4;
    c.tokens = 12;
    require_right(c);
}

TEST_CASE("the Blackwell kernel is clean under every policy and 50 seeds in every tile shape", "[kernel][sim][.long]") {
    for (const sim::Policy policy : kPolicies)
        for (uint64_t seed = 1; seed <= 50; ++seed) {
            play(b200(), policy, seed);
            for (const Shape& s : kShapes) {
                INFO("policy " << static_cast<int>(policy) << ", seed " << seed << ", " << s.experts << " experts, K "
                               << s.hidden << ", M " << s.tokens);
                CHECK(differing_logits(s, static_cast<uint32_t>(seed)) == 0);
            }
        }
}
