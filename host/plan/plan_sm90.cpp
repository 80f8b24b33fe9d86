// Tile shapes of the Hopper kernels (ptx/router_sm90.cu and ptx/router_sm90_batch.cu).
#include <algorithm>

#include "core/error.hpp"
#include "plan/plan_parts.hpp"

namespace nvfp4r {
namespace {

constexpr uint32_t kMaxWarps = 14;        // of a CTA: two CTAs an SM leave each thread 72 registers
constexpr uint32_t kLeanWarps = 10;       // the same with 96 registers
constexpr uint32_t kMostSlicesSm90 = 16;  // packets a selecting thread holds at once

struct Split {
    uint32_t warps_m, expert_tiles, slices, warps_k, chunks_per_warp;
    double cost;
};

/// The cost of a split in packed tiles that a warp multiplies one after the other. A slice more costs its packet in the
/// join, a warp more its row in the sum over warps, every CTA of a multiprocessor reads its slice of the tokens, and may have
/// to quantise it; the weights are from the stage times of an H200.
Split split_of(const KernelPlan& kernel, uint32_t warps_m, uint32_t expert_tiles, uint32_t slices, uint32_t ctas_per_sm,
               uint32_t most_warps) {
    constexpr double kSliceCost = 0.02, kWarpCost = 0.015, kTokenCost = 0.003, kQuantiseCost = 1.0;
    constexpr uint32_t kManyTokens = 17;  // fewer are read in no time
    const uint32_t tokens = kernel.token_tiles * kTokenTile;
    const uint32_t per_slice = ceil_div(ceil_div(kernel.hidden, kChunk), slices);
    const uint32_t per_warp = ceil_div(per_slice, most_warps / warps_m);
    const uint32_t warps = ceil_div(per_slice, per_warp);
    double cost = expert_tiles * per_warp + kSliceCost * slices + kWarpCost * warps;
    if (tokens >= kManyTokens) cost += kTokenCost * tokens * per_slice * ctas_per_sm;
    if (kernel.quantise_tokens) cost += kQuantiseCost * kernel.token_tiles * kernel.token_planes * per_warp;
    return {warps_m, expert_tiles, slices, warps, per_warp, cost};
}

/// CTAs of a cluster that has the slices of K, or 1. Eight is what every GPU can place.
uint32_t cluster_of(const KernelPlan& kernel, uint32_t slices) {
    return kernel.quantise_tokens && (slices == 2 || slices == 4 || slices == 8) ? slices : 1;
}

/// The split for calls of `tiles` token tiles.
Split choose_split(const KernelPlan& kernel, uint32_t tiles, const DeviceLimits& device, uint32_t wished_slices) {
    const uint32_t gate_tiles = ceil_div(kernel.experts, kExpertTile);
    // One wave: the token tiles' CTAs together fit the GPU, two a multiprocessor where the registers allow it.
    // Quantising CTAs have a multiprocessor each, and clusters do not fill a GPU: of an H200's 132 multiprocessors 128 in
    // clusters of 8 took two waves.
    const uint32_t reserve = kernel.quantise_tokens ? device.multiprocessors / 4 : 0;
    const uint32_t places = device.multiprocessors * (tiles > 1 && !kernel.quantise_tokens ? 2 : 1) - reserve;
    const uint32_t chunks = ceil_div(kernel.hidden, kChunk);
    Split best{0, 0, 0, 0, 0, 1e30};
    for (const uint32_t warps_m : {1u, 2u})
        for (const uint32_t expert_tiles : {1u, 2u}) {
            const uint32_t groups = ceil_div(gate_tiles, warps_m * expert_tiles);
            const uint32_t most = std::clamp(places / (groups * tiles), 1u, std::min(kMostSlicesSm90, chunks));
            for (uint32_t slices = wished_slices ? wished_slices : 1; slices <= (wished_slices ? wished_slices : most);
                 ++slices) {
                // Without a cluster every CTA looks through whole rows.
                const bool whole_rows = kernel.quantise_tokens && slices > 1 && cluster_of(kernel, slices) == 1;
                if (whole_rows && !wished_slices) continue;
                const uint32_t ctas = ceil_div(groups * slices * tiles, device.multiprocessors);
                // Two CTAs a multiprocessor: one expert tile a warp, and fewer warps where a chunk is fetched ahead.
                if (ctas > 1 && expert_tiles > 1 && !wished_slices) continue;
                Split split = split_of(kernel, warps_m, expert_tiles, slices, ctas, kMaxWarps);
                if (ctas > 1 && split.chunks_per_warp > 1)
                    split = split_of(kernel, warps_m, expert_tiles, slices, ctas, kLeanWarps);
                if (split.cost < best.cost) best = split;
            }
        }
    return best;
}

/// The kernel that joins K slices across CTAs: few tokens, or sums that must not depend on M.
void plan_decode(const nvfp4r_settings& settings, TokenBand band, const DeviceLimits& device, const TileWish& wish,
                 Plan& plan) {
    plan.source = "router_sm90.cu";
    KernelPlan& kernel = plan.kernel;
    const uint32_t chunks = ceil_div(settings.hidden, kChunk);
    if (wish.k_tile != 0 && wish.k_tile != kChunk)
        fail(NVFP4R_INVALID_ARGUMENT, "k_tile {}: this kernel's K step is {}", wish.k_tile, kChunk);
    if (wish.stages > 2)
        fail(NVFP4R_INVALID_ARGUMENT, "stages {}: this kernel keeps at most 2 tiles in flight", wish.stages);
    if (wish.k_split > std::min(kMostSlicesSm90, chunks))
        fail(NVFP4R_INVALID_ARGUMENT, "k_split {}: at most {} slices (K has {} steps of {}, a join holds {} packets)",
             wish.k_split, std::min(kMostSlicesSm90, chunks), chunks, kChunk, kMostSlicesSm90);
    if (wish.tokens_per_tile % kTokenTile != 0 || wish.tokens_per_tile > kMaxTileTokens)
        fail(NVFP4R_INVALID_ARGUMENT, "tokens_per_tile {}: the kernels take 8, 16, 24, 32 and, with K unsplit, 64",
             wish.tokens_per_tile);
    const uint32_t narrowest = band == TokenBand::kUpTo8 ? 8 : (band == TokenBand::kUpTo16 ? 16 : kMaxTileTokens);
    plan.tile_tokens = wish.tokens_per_tile ? wish.tokens_per_tile : narrowest;

    kernel.token_tiles = plan.tile_tokens / kTokenTile;
    // A batch-invariant router splits K the same way for every M; only then are its sums the same.
    KernelPlan split_for = kernel;
    if (settings.batch_invariant) split_for.token_tiles = 1;
    const TokenBand split_band = settings.batch_invariant ? TokenBand::kUpTo8 : band;
    const uint32_t split_tiles = split_band < TokenBand::kUpTo64     ? 1
                                 : split_band == TokenBand::kUpTo64  ? 2
                                 : split_band == TokenBand::kUpTo256 ? 8
                                                                     : kJoinedTilesPerLaunch;
    const Split split = choose_split(split_for, split_tiles, device, wish.k_split);
    kernel.warps_m = split.warps_m;
    kernel.expert_tiles = split.expert_tiles;
    kernel.slices = split.slices;
    kernel.cluster = cluster_of(kernel, split.slices);
    kernel.warps_k = split.warps_k;
    kernel.chunks_per_warp = split.chunks_per_warp;
    // Selection has a thread an expert where that is possible.
    kernel.warps = std::max(split.warps_m * split.warps_k, std::min(kMaxWarps, ceil_div(settings.experts, kWarp)));
    // Two CTAs of 14 warps leave 72 registers a thread, which plain fragments of one expert tile fit; wide token tiles with
    // a chunk fetched ahead need the 96 that 10 warps leave, and with tokens to dequantise more.
    const bool small = kernel.gate_form == GateForm::Nvfp4 && kernel.gate_planes == 1 && kernel.token_planes == 1 &&
                       !kernel.quantise_tokens && kernel.expert_tiles == 1 &&
                       (kernel.token_tiles <= 2 || (kernel.token_form == TokenForm::Bf16 &&
                                                    (kernel.chunks_per_warp == 1 || kernel.warps <= kLeanWarps)));
    kernel.ctas_per_sm = small ? 2 : 1;

    // A cluster takes no CTAs besides those of its slices; two tiles fit one wave only without more.
    plan.own_selectors = kernel.cluster == 1 && band <= TokenBand::kUpTo16;
    plan.producers =
        ceil_div(ceil_div(settings.experts, kExpertTile), kernel.warps_m * kernel.expert_tiles) * kernel.slices;
    plan.shared_bytes = decode_shared_bytes(kernel);
    set_launch_size(plan, band, true);
    plan.reasons = {
        fmt::format("token tile {}: {}", plan.tile_tokens,
                    wish.tokens_per_tile ? "asked for" : "the narrowest multiply that this range of M fills"),
        fmt::format("{} expert tiles of {} a CTA, K in {} slices: {} producing CTAs on {} multiprocessors",
                    kernel.warps_m * kernel.expert_tiles, kExpertTile, kernel.slices, plan.producers,
                    device.multiprocessors),
        fmt::format("{} warps share a slice of {} steps of {}, {} each", kernel.warps_k,
                    ceil_div(chunks, kernel.slices), kChunk, kernel.chunks_per_warp),
        fmt::format("mailbox of {} words for {} token tiles a launch", plan.mailbox_words, plan.tiles_per_launch),
    };
}

/// A CTA of the batch kernel: tokens, and its warpgroups as sets of 64 experts times turns at K.
struct BatchShape {
    uint32_t tokens, groups_m, groups_k;
};
constexpr BatchShape kBatchShapes[] = {{16, 1, 4}, {16, 4, 1}, {32, 1, 4},  {32, 4, 1},  {64, 1, 4}, {64, 2, 2},
                                       {64, 3, 1}, {64, 4, 1}, {128, 2, 2}, {128, 3, 1}, {128, 4, 1}};
constexpr uint32_t kBatchMostTokens = 128;

/// The widest tile whose accumulators leave the registers that the operands take. Plain bf16 tokens are copied; all others
/// are converted by the threads that multiply.
uint32_t widest_batch_tile(const KernelPlan& kernel) {
    constexpr uint32_t kConverted = 32, kQuantisedTerms = 16;
    const bool copied = kernel.plain && kernel.token_form == TokenForm::Bf16 && !kernel.quantise_tokens;
    if (copied && kernel.gate_planes == 1 && kernel.gate_form == GateForm::Nvfp4) return kBatchMostTokens;
    return kernel.quantise_tokens && kernel.gate_planes > 1 ? kQuantisedTerms : kConverted;
}

/// Fills in the tile of one shape with K in `slices`; false when a CTA's shared memory does not hold three stages.
bool set_batch_tile(const BatchShape& shape, uint32_t slices, const DeviceLimits& device, KernelPlan& kernel) {
    constexpr uint32_t kMostStages = 6, kLeastStages = 3;
    const uint32_t chunks = ceil_div(kernel.hidden, kChunk);
    kernel.token_tiles = shape.tokens / kTokenTile;
    kernel.warps = 4 * shape.groups_m * shape.groups_k;
    kernel.warps_k = shape.groups_k;
    kernel.slices = slices;
    for (kernel.chunks_per_warp = std::max(shape.groups_k, 2u);; kernel.chunks_per_warp /= 2) {
        const uint32_t stages = ceil_div(ceil_div(chunks, slices), kernel.chunks_per_warp);
        kernel.stages = std::clamp(stages + 2, kLeastStages, kMostStages);
        while (kernel.stages > kLeastStages && batch_shared_bytes(kernel) > device.shared_bytes_cta) --kernel.stages;
        if (batch_shared_bytes(kernel) <= device.shared_bytes_cta) return true;
        if (kernel.chunks_per_warp / 2 < shape.groups_k) return false;
    }
}

/// What a call of `tokens` takes, in microseconds. The constants are measured on an H200: cycles that a 64-wide chunk of
/// 64 experts takes, bytes a cycle of one multiprocessor's reads, the join's fixed part and its part per kilobyte, a warp's
/// selection of one token, and the wait for the first stages of tiles wider than kFilledTokens.
double batch_time(const KernelPlan& kernel, int64_t tokens, const DeviceLimits& device) {
    constexpr double kClock = 1980, kNarrowBlock = 320, kWideBlock = 410, kConvertRow = 2.3, kQuantiseRow = 4.7;
    constexpr double kReadBytes = 50, kJoin = 0.8, kJoinKilobyte = 0.06, kSelect = 1.4;
    constexpr double kFillToken = 0.025, kFilledTokens = 32;
    const uint32_t tile = kernel.token_tiles * kTokenTile, ctas = batch_ctas(kernel);
    const double waves = ceil_div(ceil_div(static_cast<uint32_t>(tokens), tile) * ctas, device.multiprocessors);
    const double chunks = ceil_div(ceil_div(kernel.hidden, kChunk), kernel.slices);
    const bool copied = kernel.plain && kernel.token_form == TokenForm::Bf16 && !kernel.quantise_tokens;
    const double planes = std::max(kernel.gate_planes, products(kernel));
    double cycles = chunks * planes * kernel.warps / 4 / kernel.warps_k * (tile > 64 ? kWideBlock : kNarrowBlock);
    if (!copied) cycles += chunks * tile * (kernel.quantise_tokens ? kQuantiseRow : kConvertRow);
    if (kernel.quantise_tokens) cycles += 2.0 * tile * kernel.hidden / kReadBytes;
    const double fill = kFillToken * (tile > kFilledTokens ? tile - kFilledTokens : 0.0);
    const double share = batch_share_tokens(kernel);
    const double join = ctas > 1 ? kJoin + kJoinKilobyte * share * kernel.slices * kernel.experts * 4 / 1024 : 0.0;
    return waves *
           (cycles / kClock + fill + join + ceil_div(batch_share_tokens(kernel), batch_select_warps(kernel)) * kSelect);
}

/// The kernel for many tokens: the shape and the split of K that take the least time by batch_time. False when none fits.
bool plan_batch(TokenBand band, const DeviceLimits& device, const TileWish& wish, Plan& plan) {
    plan.source = "router_sm90_batch.cu";
    plan.natural_gate = true;
    // It gains little from an early start: 13.0 against 13.6 us at M = 256 on an H200.
    plan.early_start = false;
    KernelPlan& kernel = plan.kernel;
    kernel.warps_m = 1;
    kernel.expert_tiles = kWarpgroupExperts / kExpertTile;
    kernel.ctas_per_sm = 1;
    const uint32_t chunks = ceil_div(kernel.hidden, kChunk), blocks = ceil_div(kernel.experts, kWarpgroupExperts);
    // Calls above the largest band are as many waves as they are; this many tokens stand for them.
    constexpr int64_t kManyTokens = 16384;
    const int64_t tokens = std::min(band_limit(band), kManyTokens);
    KernelPlan best{};
    double best_time = 1e30;
    for (const BatchShape& shape : kBatchShapes) {
        const bool fits =
            wish.tokens_per_tile ? shape.tokens == wish.tokens_per_tile : shape.tokens <= widest_batch_tile(kernel);
        if (!fits || (shape.groups_m > blocks && shape.groups_m > 1)) continue;
        for (uint32_t slices = 1; slices <= std::min(kMostSlicesSm90, ceil_div(chunks, 4)); ++slices) {
            if (wish.k_split && slices != wish.k_split) continue;
            if ((slices - 1) * ceil_div(chunks, slices) >= chunks) continue;  // the last slice would be empty
            if (!set_batch_tile(shape, slices, device, kernel)) continue;
            const double time = batch_time(kernel, tokens, device);
            if (time >= best_time) continue;
            best_time = time;
            best = kernel;
        }
    }
    if (best_time >= 1e30) return false;
    kernel = best;
    plan.tile_tokens = kernel.token_tiles * kTokenTile;
    plan.producers = batch_ctas(kernel);
    plan.shared_bytes = batch_shared_bytes(kernel);
    const bool joined = plan.producers > 1;
    set_launch_size(plan, band, false);
    if (joined) {
        // The mailbox of a launch has at most this much memory.
        constexpr uint64_t kMailboxWords = 8 << 20;
        const uint64_t tile_words = uint64_t{plan.tile_tokens} * kernel.slices * round_up(kernel.experts, 4);
        plan.tiles_per_launch = static_cast<uint32_t>(
            std::clamp<uint64_t>(kMailboxWords / tile_words, 1, std::min(plan.tiles_per_launch, kBatchMostTokens)));
        plan.mailbox_words = plan.tiles_per_launch * tile_words;
    }
    plan.reasons = {
        fmt::format("token tile {}: {}", plan.tile_tokens,
                    wish.tokens_per_tile ? "asked for" : "least time by the constants measured on an H200"),
        fmt::format("{} experts a CTA, K in {} slices: {} CTAs a tile on {} multiprocessors", batch_experts(kernel),
                    kernel.slices, plan.producers, device.multiprocessors),
        fmt::format("{} warpgroups take turns at the {} steps of {} of a slice", kernel.warps_k,
                    ceil_div(chunks, kernel.slices), kChunk),
        fmt::format("{} stages of {} K steps of {}; {} warps select", kernel.stages, kernel.chunks_per_warp, kChunk,
                    batch_select_warps(kernel)),
    };
    return true;
}

}  // namespace

Plan make_hopper_plan(const nvfp4r_settings& settings, TokenForm tokens, TokenBand band, const DeviceLimits& device,
                      const TileWish& wish, bool plain) {
    Plan plan;
    plan.kernel = problem_of(settings, tokens);
    plan.kernel.plain = plain;
    constexpr uint32_t kWideTile = 64;  // only the batch kernel has it
    const bool wide = wish.tokens_per_tile == kWideTile && wish.k_split <= 1;
    // Up to 64 tokens the decode kernel is faster on an H200, unless tokens of several terms leave it no registers.
    const bool terms = plan.kernel.quantise_tokens && plan.kernel.token_planes > 1;
    const bool many =
        band >= (terms ? TokenBand::kUpTo64 : TokenBand::kUpTo256) && wish.tokens_per_tile == 0 && wish.k_split == 0;
    const Plan problem = plan;
    const bool batch = (many || wide) && !settings.batch_invariant && plan_batch(band, device, wish, plan);
    if (!batch) {
        plan = problem;
        plan_decode(settings, band, device, wish, plan);
    }
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
