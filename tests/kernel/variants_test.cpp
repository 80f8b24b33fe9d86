// Plans of every shape compile, and ptxas reports neither spills nor local memory.
#include <catch2/catch.hpp>
#include <string>

#include "jit/compile.hpp"
#include "jit/nvrtc.hpp"
#include "plan/plan.hpp"

using namespace nvfp4r;
using Catch::Matchers::Contains;

namespace {

DeviceLimits h200() {
    return {"NVIDIA H200", 9, 0, 132, 232448, 233472};
}

DeviceLimits b200() {
    return {"NVIDIA B200", 10, 0, 148, 232448, 233472};
}

nvfp4r_settings settings_of(uint32_t experts, uint32_t hidden, uint32_t top_k, nvfp4r_precision precision) {
    nvfp4r_settings s = NVFP4R_SETTINGS_INIT;
    s.experts = experts;
    s.hidden = hidden;
    s.top_k = top_k;
    s.score = NVFP4R_SCORE_SQRTSOFTPLUS;
    s.precision = precision;
    s.renormalise = 1;
    return s;
}

void require_clean(const Plan& plan, const char* arch = "sm_90a") {
    const CompileRequest request = embedded_request(plan.source, arch, {"--ptxas-options=-v"},
                                                    {{"kernel_plan.h", kernel_plan_header(plan.kernel)}});
    const CompiledKernel kernel = compile(nvrtc(), request);
    INFO(kernel_plan_header(plan.kernel) << kernel.log);
    CHECK_THAT(kernel.log, Contains("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"));
    const std::string used = "Used ";
    const size_t at = kernel.log.find(used);
    REQUIRE(at != std::string::npos);
    // Registers are handed out in eights; 65536 an SM must hold ctas_per_sm CTAs.
    const int registers = (std::stoi(kernel.log.substr(at + used.size())) + 7) / 8 * 8;
    CHECK(registers * static_cast<int>(plan.threads) * static_cast<int>(plan.kernel.ctas_per_sm) <= 65536);
}

}  // namespace

TEST_CASE("variants of the common shapes use no local memory", "[kernel]") {
    const uint32_t shapes[][3] = {{256, 7168, 8}, {384, 7168, 6}};
    for (const auto& s : shapes)
        for (uint32_t band = 0; band < kTokenBands; band += 3)
            for (const bool plain : {true, false})
                require_clean(make_plan(settings_of(s[0], s[1], s[2], NVFP4R_PRECISION_NVFP4_W), TokenForm::Bf16,
                                        static_cast<TokenBand>(band), h200(), {}, plain));
}

TEST_CASE("every precision and kind of tokens compiles without local memory", "[kernel][.long]") {
    for (const nvfp4r_precision precision :
         {NVFP4R_PRECISION_NVFP4, NVFP4R_PRECISION_NVFP4X2, NVFP4R_PRECISION_NVFP4X3, NVFP4R_PRECISION_NVFP4_W,
          NVFP4R_PRECISION_NVFP4X2_W, NVFP4R_PRECISION_BF16})
        for (uint32_t form = 0; form < 4; ++form)
            for (uint32_t band = 0; band < kTokenBands; ++band)
                for (const uint32_t experts : {256u, 384u})
                    require_clean(make_plan(settings_of(experts, 7168, 8, precision), static_cast<TokenForm>(form),
                                            static_cast<TokenBand>(band), h200(), {}));
    for (const uint32_t experts : {1u, 8u, 96u, 896u, 2048u})
        for (const uint32_t hidden : {16u, 2688u, 65536u})
            for (uint32_t band = 0; band < kTokenBands; ++band)
                require_clean(make_plan(settings_of(experts, hidden, std::min(experts, 32u), NVFP4R_PRECISION_NVFP4_W),
                                        TokenForm::Bf16, static_cast<TokenBand>(band), h200(), {}));
}

TEST_CASE("Blackwell variants of the common shapes use no local memory", "[kernel]") {
    const uint32_t shapes[][3] = {{256, 7168, 8}, {384, 7168, 6}};
    for (const auto& s : shapes)
        for (uint32_t band = 0; band < kTokenBands; band += 4)
            require_clean(make_plan(settings_of(s[0], s[1], s[2], NVFP4R_PRECISION_NVFP4), TokenForm::Bf16,
                                    static_cast<TokenBand>(band), b200(), {}),
                          "sm_100a");
}

TEST_CASE("every legal problem has a Blackwell plan within the machine's limits", "[kernel]") {
    for (const nvfp4r_precision precision :
         {NVFP4R_PRECISION_NVFP4, NVFP4R_PRECISION_NVFP4X2, NVFP4R_PRECISION_NVFP4X3, NVFP4R_PRECISION_BF16})
        for (const uint32_t experts : {1u, 8u, 128u, 129u, 144u, 384u, 896u, 2048u})
            for (const uint32_t hidden : {16u, 48u, 2688u, 7168u, 65536u})
                for (uint32_t band = 0; band < kTokenBands; ++band) {
                    INFO(experts << " experts, K " << hidden << ", precision " << precision << ", band " << band);
                    const nvfp4r_settings settings =
                        settings_of(experts, hidden, std::min(experts, NVFP4R_MAX_TOP_K), precision);
                    const Plan plan = make_plan(settings, TokenForm::F32, static_cast<TokenBand>(band), b200(), {});
                    const KernelPlan& kernel = plan.kernel;
                    CHECK(plan.shared_bytes <= b200().shared_bytes_cta);
                    CHECK(blackwell_columns(kernel) <= kernel.tmem_columns);
                    CHECK(kernel.tmem_columns <= 512);
                    CHECK(plan.tile_tokens % 8 == 0);
                    // Blocks and slices cover experts and K, and no slice is empty.
                    const uint32_t groups = plan.producers / kernel.slices;
                    CHECK(groups * kernel.expert_tiles * kMmaExperts >= experts);
                    const uint32_t k_stages = ceil_div(hidden, stage_k(kernel));
                    CHECK((kernel.slices - 1) * ceil_div(k_stages, kernel.slices) < k_stages);
                }
}

TEST_CASE("every Blackwell precision and kind of tokens compiles without local memory", "[kernel][.long]") {
    for (const nvfp4r_precision precision :
         {NVFP4R_PRECISION_NVFP4, NVFP4R_PRECISION_NVFP4X2, NVFP4R_PRECISION_NVFP4X3, NVFP4R_PRECISION_BF16})
        for (uint32_t form = 0; form < 4; ++form)
            for (uint32_t band = 0; band < kTokenBands; ++band)
                for (const char* arch : {"sm_100a", "sm_103a", "sm_110a"})
                    for (const uint32_t experts : {8u, 384u, 2048u})
                        require_clean(make_plan(settings_of(experts, 7168, 8, precision), static_cast<TokenForm>(form),
                                                static_cast<TokenBand>(band), b200(), {}),
                                      arch);
}
