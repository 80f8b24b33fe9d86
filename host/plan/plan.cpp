#include "plan/plan.hpp"

#include <algorithm>
#include <array>

#include "core/error.hpp"
#include "jit/target.hpp"
#include "plan/plan_parts.hpp"

namespace nvfp4r {
namespace {

constexpr std::array<int64_t, kTokenBands> kBandLimits = {8, 16, 64, 256, 640, 1024, 2048, 4096, NVFP4R_MAX_TOKENS};
constexpr int64_t kTilesPerLaunch = 65535;  // grid.y

void set_operands(const nvfp4r_settings& settings, TokenForm tokens, KernelPlan& kernel) {
    kernel.gate_form = GateForm::Nvfp4;
    kernel.token_form = tokens;
    kernel.quantise_tokens = false;
    switch (settings.precision) {
        case NVFP4R_PRECISION_NVFP4: kernel.gate_planes = 1, kernel.quantise_tokens = true; break;
        case NVFP4R_PRECISION_NVFP4X2: kernel.gate_planes = 2, kernel.quantise_tokens = true; break;
        case NVFP4R_PRECISION_NVFP4X3: kernel.gate_planes = 3, kernel.quantise_tokens = true; break;
        case NVFP4R_PRECISION_NVFP4_W: kernel.gate_planes = 1; break;
        case NVFP4R_PRECISION_NVFP4X2_W: kernel.gate_planes = 2; break;
        case NVFP4R_PRECISION_BF16: kernel.gate_planes = 1, kernel.gate_form = GateForm::Bf16; break;
        default:
            fail(NVFP4R_UNSUPPORTED,
                 "precision {}: the GPU kernels have nvfp4, nvfp4x2, nvfp4x3, nvfp4-w, nvfp4x2-w and bf16; rescore "
                 "runs on the CPU device",
                 static_cast<int>(settings.precision));
    }
    if (tokens == TokenForm::Nvfp4) {
        kernel.quantise_tokens = false;
        kernel.token_planes = 1;
    } else if (kernel.quantise_tokens) {
        kernel.token_planes = kernel.gate_planes;
    } else {
        // f16 and f32 values are exact sums of two and three bf16 numbers.
        kernel.token_planes = tokens == TokenForm::Bf16 ? 1 : (tokens == TokenForm::F16 ? 2 : 3);
    }
    const bool all_products = !kernel.quantise_tokens;
    kernel.product_order = all_products ? kernel.gate_planes + kernel.token_planes : kernel.gate_planes;
}

}  // namespace

TokenBand token_band(int64_t tokens) {
    uint32_t band = 0;
    while (tokens > kBandLimits[band]) ++band;
    return static_cast<TokenBand>(band);
}

int64_t band_limit(TokenBand band) {
    return kBandLimits[static_cast<uint32_t>(band)];
}

KernelPlan problem_of(const nvfp4r_settings& settings, TokenForm tokens) {
    KernelPlan kernel{};
    kernel.cluster = 1;
    kernel.experts = settings.experts;
    kernel.hidden = settings.hidden;
    kernel.top_k = settings.top_k;
    kernel.score = static_cast<Score>(settings.score);
    kernel.weighting = static_cast<Weighting>(settings.weighting);
    kernel.groups = std::max(settings.groups, 1u);
    kernel.groups_kept = kernel.groups > 1 ? settings.groups_kept : 1;
    kernel.group_score = static_cast<GroupScore>(settings.group_score);
    kernel.renormalise = settings.renormalise != 0;
    set_operands(settings, tokens, kernel);
    return kernel;
}

uint32_t products(const KernelPlan& kernel) {
    uint32_t count = 0;
    for (uint32_t q = 0; q < kernel.gate_planes; ++q)
        for (uint32_t t = 0; t < kernel.token_planes; ++t) count += q + t < kernel.product_order;
    return count;
}

void set_launch_size(Plan& plan, TokenBand band, bool joined) {
    const int64_t tiles = (band_limit(band) + plan.tile_tokens - 1) / plan.tile_tokens;
    const int64_t most = joined ? kJoinedTilesPerLaunch : kTilesPerLaunch;
    plan.tiles_per_launch = static_cast<uint32_t>(std::min(tiles, most));
    plan.mailbox_words =
        joined ? uint64_t{plan.tiles_per_launch} * plan.tile_tokens * plan.kernel.slices * plan.kernel.experts : 0;
}

uint32_t selecting_ctas(const Plan& plan, int64_t tokens) {
    // Measured on an H200: from 4 tokens up a CTA that has nothing to multiply selects sooner.
    constexpr int64_t kOwnSelectors = 4;
    if (!plan.own_selectors || tokens < kOwnSelectors) return 0;
    return static_cast<uint32_t>(std::min<int64_t>(tokens, plan.tile_tokens));
}

Plan make_plan(const nvfp4r_settings& settings, TokenForm tokens, TokenBand band, const DeviceLimits& device,
               const TileWish& wish, bool plain) {
    const bool hopper = target_for(device.major, device.minor).family == KernelFamily::kWgmma;
    Plan plan = hopper ? make_hopper_plan(settings, tokens, band, device, wish, plain)
                       : make_blackwell_plan(settings, tokens, band, device, wish);
    plan.kernel.plain = plain;
    return plan;
}

std::string kernel_plan_header(const KernelPlan& plan) {
    return fmt::format(
        "#pragma once\n#include \"router_params.h\"\nnamespace nvfp4r {{\ninline constexpr KernelPlan kPlan{{\n"
        ".experts = {}, .hidden = {}, .top_k = {}, .score = Score({}), .weighting = Weighting({}), .groups = {},\n"
        ".groups_kept = {}, .group_score = GroupScore({}), .renormalise = {}, .plain = {}, .gate_form = GateForm({}), "
        ".gate_planes "
        "= {},\n"
        ".token_form = TokenForm({}), .token_planes = {}, .quantise_tokens = {}, .product_order = {}, .token_tiles = "
        "{},\n"
        ".expert_tiles = {}, .warps = {}, .warps_m = {}, .warps_k = {}, .slices = {}, .chunks_per_warp = {}, "
        ".ctas_per_sm = "
        "{}, .stages = {}, .tmem_columns = {}, .cluster = {}}};\n}}\n",
        plan.experts, plan.hidden, plan.top_k, static_cast<unsigned>(plan.score), static_cast<unsigned>(plan.weighting),
        plan.groups, plan.groups_kept, static_cast<unsigned>(plan.group_score), plan.renormalise, plan.plain,
        static_cast<unsigned>(plan.gate_form), plan.gate_planes, static_cast<unsigned>(plan.token_form),
        plan.token_planes, plan.quantise_tokens, plan.product_order, plan.token_tiles, plan.expert_tiles, plan.warps,
        plan.warps_m, plan.warps_k, plan.slices, plan.chunks_per_warp, plan.ctas_per_sm, plan.stages, plan.tmem_columns,
        plan.cluster);
}

}  // namespace nvfp4r
