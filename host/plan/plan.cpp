#include "plan/plan.hpp"

#include <algorithm>
#include <array>

#include "core/error.hpp"

namespace nvfp4r {
namespace {

constexpr uint32_t kMaxWarps = 16;        // of a CTA: 512 threads leave each 128 registers
constexpr uint32_t kMaxSlices = 16;       // packets a selecting thread holds at once
constexpr uint32_t kTilesPerLaunch = 64;  // token tiles of one launch, so that the mailbox has a fixed size
constexpr std::array<int64_t, kTokenBands> kBandLimits = {8, 16, 64, 256, NVFP4R_MAX_TOKENS};

uint32_t tokens_of_tile(TokenBand band, const TileWish& wish) {
    if (wish.tokens_per_tile != 0) {
        if (wish.tokens_per_tile % kTokenTile != 0 || wish.tokens_per_tile > kMaxTileTokens)
            fail(NVFP4R_INVALID_ARGUMENT, "tokens_per_tile {}: this kernel takes 8, 16, 24 or 32",
                 wish.tokens_per_tile);
        return wish.tokens_per_tile;
    }
    if (band == TokenBand::kUpTo8) return 8;
    return band == TokenBand::kUpTo16 ? 16 : kMaxTileTokens;
}

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
                 "precision {}: the Hopper kernel has nvfp4, nvfp4x2, nvfp4x3, nvfp4-w, nvfp4x2-w and bf16; rescore "
                 "runs "
                 "on the CPU device",
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

struct Split {
    uint32_t expert_tiles, slices, warps_k, chunks_per_warp;
    double cost;
};

/// The cost of a split in packed tiles that a warp multiplies one after the other. A slice more costs its packet in the
/// join, a warp more its row in the sum over warps; both weights are from the stage times of an H200.
Split split_of(uint32_t expert_tiles, uint32_t slices, uint32_t chunks) {
    constexpr double kSliceCost = 0.02, kWarpCost = 0.015;
    const uint32_t per_slice = ceil_div(chunks, slices);
    const uint32_t per_warp = ceil_div(per_slice, kMaxWarps);
    const uint32_t warps = ceil_div(per_slice, per_warp);
    return {expert_tiles, slices, warps, per_warp, expert_tiles * per_warp + kSliceCost * slices + kWarpCost * warps};
}

Split choose_split(uint32_t experts, uint32_t chunks, uint32_t tiles, const DeviceLimits& device,
                   uint32_t wished_slices) {
    const uint32_t gate_tiles = ceil_div(experts, kExpertTile);
    Split best{0, 0, 0, 0, 1e30};
    for (const uint32_t expert_tiles : {1u, 2u}) {
        const uint32_t groups = ceil_div(gate_tiles, expert_tiles);
        // One wave: the token tiles' CTAs together fit the GPU, two a multiprocessor when there are several tiles.
        const uint32_t places = device.multiprocessors * (tiles > 1 ? 2 : 1);
        const uint32_t most = std::clamp(places / (groups * tiles), 1u, std::min(kMaxSlices, chunks));
        for (uint32_t slices = wished_slices ? wished_slices : 1; slices <= (wished_slices ? wished_slices : most);
             ++slices) {
            const Split split = split_of(expert_tiles, slices, chunks);
            if (split.cost < best.cost) best = split;
        }
    }
    return best;
}

void check_wish(const TileWish& wish, uint32_t chunks) {
    if (wish.k_tile != 0 && wish.k_tile != kChunk)
        fail(NVFP4R_INVALID_ARGUMENT, "k_tile {}: this kernel's K step is {}", wish.k_tile, kChunk);
    if (wish.stages > 2)
        fail(NVFP4R_INVALID_ARGUMENT, "stages {}: this kernel keeps at most 2 tiles in flight", wish.stages);
    if (wish.k_split > std::min(kMaxSlices, chunks))
        fail(NVFP4R_INVALID_ARGUMENT, "k_split {}: at most {} slices (K has {} steps of {}, a join holds {} packets)",
             wish.k_split, std::min(kMaxSlices, chunks), chunks, kChunk, kMaxSlices);
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

uint32_t selecting_ctas(const Plan& plan, int64_t tokens) {
    // Measured on an H200: from 4 tokens up a CTA that has nothing to multiply selects sooner.
    constexpr int64_t kOwnSelectors = 4;
    if (tokens < kOwnSelectors) return 0;
    return static_cast<uint32_t>(std::min<int64_t>(tokens, plan.tile_tokens));
}

Plan make_plan(const nvfp4r_settings& settings, TokenForm tokens, TokenBand band, const DeviceLimits& device,
               const TileWish& wish) {
    if (device.major != 9)
        fail(NVFP4R_UNSUPPORTED, "{} (compute capability {}.{}): the kernels here are for 9.0", device.name,
             device.major, device.minor);
    Plan plan;
    plan.source = "router_sm90.cu";
    KernelPlan& kernel = plan.kernel;
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

    const uint32_t chunks = ceil_div(settings.hidden, kChunk);
    check_wish(wish, chunks);
    // A batch-invariant router splits K the same way for every M; only then are its sums the same.
    const TokenBand split_band = settings.batch_invariant ? TokenBand::kUpTo8 : band;
    const uint32_t split_tiles =
        split_band < TokenBand::kUpTo256 ? 1 : (split_band == TokenBand::kUpTo256 ? 8 : kTilesPerLaunch);
    plan.tile_tokens = tokens_of_tile(band, wish);
    const Split split = choose_split(settings.experts, chunks, split_tiles, device, wish.k_split);
    kernel.token_tiles = plan.tile_tokens / kTokenTile;
    kernel.expert_tiles = split.expert_tiles;
    kernel.slices = split.slices;
    kernel.warps_k = split.warps_k;
    kernel.chunks_per_warp = split.chunks_per_warp;
    // Selection has a thread an expert where that is possible.
    kernel.warps = std::max(split.warps_k, std::min(kMaxWarps, ceil_div(settings.experts, kWarp)));
    // Two CTAs an SM leave 64 registers a thread, which only the smallest fragments fit.
    const bool small = kernel.gate_form == GateForm::Nvfp4 && kernel.gate_planes == 1 && kernel.token_planes == 1 &&
                       !kernel.quantise_tokens && kernel.expert_tiles == 1 && kernel.token_tiles <= 2;
    kernel.ctas_per_sm = small ? 2 : 1;

    plan.threads = kernel.warps * kWarp;
    plan.producers = ceil_div(ceil_div(settings.experts, kExpertTile), kernel.expert_tiles) * kernel.slices;
    plan.shared_bytes = decode_shared_bytes(kernel);
    if (plan.shared_bytes > device.shared_bytes_cta)
        fail(NVFP4R_UNSUPPORTED,
             "shared memory: the tile needs {} bytes, a CTA of {} has {}; tokens_per_tile 8 needs least",
             plan.shared_bytes, device.name, device.shared_bytes_cta);
    const int64_t most_tiles = (band_limit(band) + plan.tile_tokens - 1) / plan.tile_tokens;
    plan.tiles_per_launch = static_cast<uint32_t>(std::min<int64_t>(most_tiles, kTilesPerLaunch));
    plan.mailbox_words = uint64_t{plan.tiles_per_launch} * plan.tile_tokens * kernel.slices * settings.experts;

    plan.reasons = {
        fmt::format("token tile {}: {}", plan.tile_tokens,
                    wish.tokens_per_tile ? "asked for"
                                         : fmt::format("the narrowest that serves M up to {} well",
                                                       std::min<int64_t>(band_limit(band), kMaxTileTokens))),
        fmt::format("expert tiles {} of {} experts a CTA, K in {} slices: {} producing CTAs on {} multiprocessors",
                    kernel.expert_tiles, kExpertTile, kernel.slices, plan.producers, device.multiprocessors),
        fmt::format("{} warps share a slice of {} steps of {}, {} each", kernel.warps_k,
                    ceil_div(chunks, kernel.slices), kChunk, kernel.chunks_per_warp),
        fmt::format("{} threads: a thread an expert for selecting, at least the multiplying warps", plan.threads),
        fmt::format("shared memory {} of {} bytes; mailbox {} words for {} token tiles a launch", plan.shared_bytes,
                    device.shared_bytes_cta, plan.mailbox_words, plan.tiles_per_launch),
    };
    return plan;
}

std::string kernel_plan_header(const KernelPlan& plan) {
    return fmt::format(
        "#pragma once\n#include \"router_params.h\"\nnamespace nvfp4r {{\ninline constexpr KernelPlan kPlan{{\n"
        ".experts = {}, .hidden = {}, .top_k = {}, .score = Score({}), .weighting = Weighting({}), .groups = {},\n"
        ".groups_kept = {}, .group_score = GroupScore({}), .renormalise = {}, .gate_form = GateForm({}), .gate_planes "
        "= {},\n"
        ".token_form = TokenForm({}), .token_planes = {}, .quantise_tokens = {}, .product_order = {}, .token_tiles = "
        "{},\n"
        ".expert_tiles = {}, .warps = {}, .warps_k = {}, .slices = {}, .chunks_per_warp = {}, .ctas_per_sm = "
        "{}}};\n}}\n",
        plan.experts, plan.hidden, plan.top_k, static_cast<unsigned>(plan.score), static_cast<unsigned>(plan.weighting),
        plan.groups, plan.groups_kept, static_cast<unsigned>(plan.group_score), plan.renormalise,
        static_cast<unsigned>(plan.gate_form), plan.gate_planes, static_cast<unsigned>(plan.token_form),
        plan.token_planes, plan.quantise_tokens, plan.product_order, plan.token_tiles, plan.expert_tiles, plan.warps,
        plan.warps_k, plan.slices, plan.chunks_per_warp, plan.ctas_per_sm);
}

}  // namespace nvfp4r
