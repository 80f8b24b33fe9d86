// Tile shapes of the Hopper kernels (ptx/router_sm90.cu and ptx/router_sm90_batch.cu).
#include <algorithm>

#include "core/error.hpp"
#include "plan/plan_parts.hpp"

namespace nvfp4r {
namespace {

constexpr uint32_t kMaxWarps = 14;   // of a CTA: two CTAs an SM leave each thread 72 registers
constexpr uint32_t kLeanWarps = 10;  // the same with 96 registers
constexpr uint32_t kMaxSlices = 16;  // packets a selecting thread holds at once

struct Split {
    uint32_t expert_tiles, slices, warps_k, chunks_per_warp;
    double cost;
};

/// The cost of a split in packed tiles that a warp multiplies one after the other. A slice more costs its packet in the
/// join, a warp more its row in the sum over warps; both weights are from the stage times of an H200.
Split split_of(uint32_t expert_tiles, uint32_t slices, uint32_t chunks, uint32_t max_warps) {
    constexpr double kSliceCost = 0.02, kWarpCost = 0.015;
    const uint32_t per_slice = ceil_div(chunks, slices);
    const uint32_t per_warp = ceil_div(per_slice, max_warps);
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
            const Split split = split_of(expert_tiles, slices, chunks, tiles > 1 ? kLeanWarps : kMaxWarps);
            if (split.cost < best.cost) best = split;
        }
    }
    return best;
}

/// The kernel that joins K slices across CTAs: few tokens, or sums that must not depend on M.
void plan_decode(const nvfp4r_settings& settings, TokenBand band, const DeviceLimits& device, const TileWish& wish,
                 Plan& plan) {
    plan.source = "router_sm90.cu";
    plan.own_selectors = true;
    KernelPlan& kernel = plan.kernel;
    const uint32_t chunks = ceil_div(settings.hidden, kChunk);
    if (wish.k_tile != 0 && wish.k_tile != kChunk)
        fail(NVFP4R_INVALID_ARGUMENT, "k_tile {}: this kernel's K step is {}", wish.k_tile, kChunk);
    if (wish.stages > 2)
        fail(NVFP4R_INVALID_ARGUMENT, "stages {}: this kernel keeps at most 2 tiles in flight", wish.stages);
    if (wish.k_split > std::min(kMaxSlices, chunks))
        fail(NVFP4R_INVALID_ARGUMENT, "k_split {}: at most {} slices (K has {} steps of {}, a join holds {} packets)",
             wish.k_split, std::min(kMaxSlices, chunks), chunks, kChunk, kMaxSlices);
    if (wish.tokens_per_tile % kTokenTile != 0 || wish.tokens_per_tile > kMaxTileTokens)
        fail(NVFP4R_INVALID_ARGUMENT, "tokens_per_tile {}: the kernels take 8, 16, 24, 32 and, with K unsplit, 64",
             wish.tokens_per_tile);
    const uint32_t narrowest = band == TokenBand::kUpTo8 ? 8 : (band == TokenBand::kUpTo16 ? 16 : kMaxTileTokens);
    plan.tile_tokens = wish.tokens_per_tile ? wish.tokens_per_tile : narrowest;

    // A batch-invariant router splits K the same way for every M; only then are its sums the same.
    const TokenBand split_band = settings.batch_invariant ? TokenBand::kUpTo8 : band;
    const uint32_t split_tiles =
        split_band < TokenBand::kUpTo256 ? 1 : (split_band == TokenBand::kUpTo256 ? 8 : kJoinedTilesPerLaunch);
    const Split split = choose_split(settings.experts, chunks, split_tiles, device, wish.k_split);
    kernel.token_tiles = plan.tile_tokens / kTokenTile;
    kernel.expert_tiles = split.expert_tiles;
    kernel.slices = split.slices;
    kernel.warps_k = split.warps_k;
    kernel.chunks_per_warp = split.chunks_per_warp;
    // Selection has a thread an expert where that is possible.
    kernel.warps = std::max(split.warps_k, std::min(kMaxWarps, ceil_div(settings.experts, kWarp)));
    // Two CTAs of 14 warps leave 72 registers a thread, which plain fragments of one expert tile fit; wide token tiles with
    // a chunk fetched ahead need the 96 that 10 warps leave, and with tokens to dequantise more.
    const bool small = kernel.gate_form == GateForm::Nvfp4 && kernel.gate_planes == 1 && kernel.token_planes == 1 &&
                       !kernel.quantise_tokens && kernel.expert_tiles == 1 &&
                       (kernel.token_tiles <= 2 || (kernel.token_form == TokenForm::Bf16 &&
                                                    (kernel.chunks_per_warp == 1 || kernel.warps <= kLeanWarps)));
    kernel.ctas_per_sm = small ? 2 : 1;

    plan.producers = ceil_div(ceil_div(settings.experts, kExpertTile), kernel.expert_tiles) * kernel.slices;
    plan.shared_bytes = decode_shared_bytes(kernel);
    set_launch_size(plan, band, true);
    plan.reasons = {
        fmt::format("token tile {}: {}", plan.tile_tokens,
                    wish.tokens_per_tile ? "asked for" : "the narrowest multiply that this range of M fills"),
        fmt::format("{} expert tiles of {} a CTA, K in {} slices: {} producing CTAs on {} multiprocessors",
                    kernel.expert_tiles, kExpertTile, kernel.slices, plan.producers, device.multiprocessors),
        fmt::format("{} warps share a slice of {} steps of {}, {} each", kernel.warps_k,
                    ceil_div(chunks, kernel.slices), kChunk, kernel.chunks_per_warp),
        fmt::format("mailbox of {} words for {} token tiles a launch", plan.mailbox_words, plan.tiles_per_launch),
    };
}

/// The kernel whose CTAs own all experts of their tokens.
void plan_batch(const nvfp4r_settings& settings, TokenBand band, const DeviceLimits& device, const TileWish& wish,
                Plan& plan) {
    constexpr uint32_t kMaxWarpgroups = 4;  // 512 threads: 128 registers each
    constexpr uint32_t kNarrowest = 16, kMiddle = 32, kWidest = 64;
    plan.source = "router_sm90_batch.cu";
    KernelPlan& kernel = plan.kernel;
    const uint32_t blocks = ceil_div(settings.experts, kWarpgroupExperts);
    // The fewest multiplied blocks of 64 experts, padding included; among equals the fewest passes over the tokens.
    uint32_t warpgroups = std::min(blocks, kMaxWarpgroups);
    for (const uint32_t fewer : {3u, 2u})
        if (fewer < warpgroups && round_up(blocks, fewer) < round_up(blocks, warpgroups)) warpgroups = fewer;
    kernel.warps = 4 * warpgroups;
    kernel.expert_tiles = kWarpgroupExperts / kExpertTile;
    kernel.slices = kernel.warps_k = kernel.chunks_per_warp = kernel.ctas_per_sm = 1;
    // One wave: the widest tile of which the range of M has one for every multiprocessor. Converting tokens takes the
    // registers that the accumulators of wide tiles need.
    uint32_t widest = kWidest;
    if (kernel.token_planes > 1 || kernel.gate_planes > 1 || kernel.token_form == TokenForm::F32 ||
        kernel.gate_form == GateForm::Bf16 || kernel.quantise_tokens)
        widest = kernel.quantise_tokens ? kNarrowest : kMiddle;
    uint32_t tokens = band == TokenBand::kUpTo2048 ? kNarrowest : (band == TokenBand::kUpTo4096 ? kMiddle : kWidest);
    tokens = wish.tokens_per_tile ? wish.tokens_per_tile : std::min(tokens, widest);
    while (true) {
        kernel.token_tiles = tokens / kTokenTile;
        plan.shared_bytes = batch_shared_bytes(kernel);
        if (plan.shared_bytes <= device.shared_bytes_cta || tokens == kNarrowest || wish.tokens_per_tile) break;
        tokens /= 2;
    }
    plan.tile_tokens = tokens;
    plan.producers = 1;
    set_launch_size(plan, band, false);
    plan.reasons = {
        fmt::format(
            "token tile {}: {}", tokens,
            wish.tokens_per_tile ? "asked for" : "the widest that fits and still gives every multiprocessor one"),
        fmt::format("{} warpgroups of {} experts, {} passes over the tokens", warpgroups, kWarpgroupExperts,
                    ceil_div(blocks, warpgroups)),
        fmt::format("{} buffers of {} K steps of {}; {} warps select", kBatchBuffers, batch_stage_chunks(kernel),
                    kChunk, batch_select_warps(kernel)),
    };
}

}  // namespace

Plan make_hopper_plan(const nvfp4r_settings& settings, TokenForm tokens, TokenBand band, const DeviceLimits& device,
                      const TileWish& wish, bool plain) {
    Plan plan;
    plan.kernel = problem_of(settings, tokens);
    plan.kernel.plain = plain;
    constexpr uint32_t kWideTile = 64;  // only the batch kernel has it
    const bool wide = wish.tokens_per_tile == kWideTile && wish.k_split <= 1;
    // Measured on an H200: up to 640 tokens the split gate wins, above it the gate that is dequantised once per tile.
    const bool many = band > TokenBand::kUpTo640 && wish.tokens_per_tile == 0 && wish.k_split == 0;
    const bool batch = (many || wide) && !settings.batch_invariant;
    if (batch) plan_batch(settings, band, device, wish, plan);
    // All logits of even the narrowest tile may be too much at the largest E; the split kernel needs no such room.
    if (!batch || (many && plan.shared_bytes > device.shared_bytes_cta))
        plan_decode(settings, band, device, wish, plan);
    plan.threads = plan.kernel.warps * kWarp;
    if (plan.shared_bytes > device.shared_bytes_cta)
        fail(NVFP4R_UNSUPPORTED,
             "shared memory: the tile needs {} bytes, a CTA of {} has {}; tokens_per_tile 8 needs least",
             plan.shared_bytes, device.name, device.shared_bytes_cta);
    plan.reasons.push_back(fmt::format("{} threads, {} of {} bytes of shared memory", plan.threads, plan.shared_bytes,
                                       device.shared_bytes_cta));
    return plan;
}

}  // namespace nvfp4r
