// Tile shapes of the Hopper kernel (ptx/router_sm90.cu).
#include <algorithm>

#include "core/error.hpp"
#include "plan/plan_parts.hpp"

namespace nvfp4r {
namespace {

constexpr uint32_t kMaxWarps = 16;   // of a CTA: 512 threads leave each 128 registers
constexpr uint32_t kMaxSlices = 16;  // packets a selecting thread holds at once

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

Plan make_hopper_plan(const nvfp4r_settings& settings, TokenForm tokens, TokenBand band, const DeviceLimits& device,
                      const TileWish& wish) {
    Plan plan;
    plan.source = "router_sm90.cu";
    plan.kernel = problem_of(settings, tokens);
    KernelPlan& kernel = plan.kernel;
    const uint32_t chunks = ceil_div(settings.hidden, kChunk);
    check_wish(wish, chunks);
    // A batch-invariant router splits K the same way for every M; only then are its sums the same.
    const TokenBand split_band = settings.batch_invariant ? TokenBand::kUpTo8 : band;
    const uint32_t split_tiles =
        split_band < TokenBand::kUpTo256 ? 1 : (split_band == TokenBand::kUpTo256 ? 8 : kJoinedTilesPerLaunch);
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
    set_launch_size(plan, band, true);
    plan.own_selectors = true;

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

}  // namespace nvfp4r
