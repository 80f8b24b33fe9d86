// Tile shapes of the Blackwell kernel (ptx/router_sm100.cu), chosen by an estimate: no such GPU was at hand to measure.
#include <algorithm>
#include <array>
#include <optional>

#include "core/error.hpp"
#include "plan/plan_parts.hpp"

namespace nvfp4r {
namespace {

constexpr uint32_t kMostSlicesSm100 = 32;
constexpr uint32_t kMaxStages = 8;
constexpr uint32_t kMaxStageRows = 4;
constexpr uint32_t kMaxCluster = 8;  // portable on every GPU with clusters
constexpr uint32_t kTmemColumns = 512;
constexpr uint32_t kMinTmemColumns = 32;
constexpr uint32_t kFirstTokenWarp = 4;        // warps 0..3 load, multiply, allocate (top of router_sm100.cu)
constexpr uint32_t kMaxTileTokensAlone = 128;  // chosen without being asked; 256 is the multiply's own limit

// Constants of the estimate. Times in ns; sources: measurements of B200 by others, collected with their origins in the
// tuning notes (ptx/TUNING.md, "Blackwell").
constexpr double kClocksPerNs = 1.85;        // sustained SM clock
constexpr double kFixedNs = 1900;            // launch ramp, first TMA round trip, accumulator read, selection
constexpr double kBytesPerNsOfSm = 54;       // 8 TB/s over 148 SMs
constexpr double kMultiplyFloorClocks = 32;  // an M = 128 step reads 4 KiB of A at 128 bytes a clock, plus N / 4 for B
constexpr double kQuantiseClocksPerBlock = 150;  // instructions of one 16-value block (SASS), at one a clock and warp
constexpr double kJoinNs = 600;                  // packet hop through L2
constexpr double kJoinNsPerSlice = 20;
constexpr double kSelectNsPerToken = 60;  // a warp a token, eight at a time, nothing hides it
constexpr double kScanBytesPerNs = 118;   // rows read for their amax: 64 bytes a clock and SM from L2
constexpr double kClusterNs = 650;        // launch and barriers of a cluster and one exchange in it, of an H200

struct Shape {
    uint32_t tile_tokens, blocks, slices, rows, cluster;
};

/// Fills in the tile of `kernel`; false when stages do not fit shared or tensor memory.
bool set_shape(const Shape& shape, uint32_t wished_stages, uint32_t shared_limit, KernelPlan& kernel) {
    kernel.token_tiles = shape.tile_tokens / kTokenTile;
    kernel.expert_tiles = shape.blocks;
    kernel.slices = shape.slices;
    kernel.warps = kFirstTokenWarp + (shape.tile_tokens >= 32 ? 8 : 4);
    kernel.warps_m = kernel.warps_k = kernel.ctas_per_sm = 1;
    kernel.chunks_per_warp = shape.rows;
    kernel.cluster = shape.cluster;
    const uint32_t k_stages = ceil_div(kernel.hidden, stage_k(kernel));
    const uint32_t most = std::min(kMaxStages, ceil_div(k_stages, shape.slices));
    for (kernel.stages = wished_stages ? wished_stages : most; kernel.stages > 0; --kernel.stages) {
        const bool fits =
            blackwell_columns(kernel) <= kTmemColumns &&
            kernel.stages * blackwell_stage_bytes(kernel) + blackwell_control_bytes(kernel) <= shared_limit;
        if (fits) break;
        if (wished_stages) return false;
    }
    if (kernel.stages == 0) return false;
    kernel.tmem_columns = kMinTmemColumns;
    while (kernel.tmem_columns < blackwell_columns(kernel)) kernel.tmem_columns *= 2;
    return true;
}

uint32_t token_bytes(TokenForm form) {
    return form == TokenForm::F32 ? 4 : 2;
}

bool joins(const KernelPlan& kernel) {
    return kernel.slices * ceil_div(ceil_div(kernel.experts, kMmaExperts), kernel.expert_tiles) > 1;
}

}  // namespace

double blackwell_estimate_ns(const KernelPlan& kernel, int64_t tokens, uint32_t multiprocessors) {
    const uint32_t tile = kernel.token_tiles * kTokenTile;
    const uint32_t k_stages = ceil_div(kernel.hidden, stage_k(kernel));
    const uint32_t groups = ceil_div(ceil_div(kernel.experts, kMmaExperts), kernel.expert_tiles);
    const double ctas = static_cast<double>((tokens + tile - 1) / tile) * groups * kernel.slices;
    const double waves = std::max(1.0, ctas / multiprocessors);
    const double load =
        kernel.chunks_per_warp * kernel.gate_planes * kernel.expert_tiles * kMmaExperts * kOperandRow / kBytesPerNsOfSm;
    const double multiply = products(kernel) * kernel.expert_tiles * stage_steps(kernel) *
                            std::max(tile / 2.0, kMultiplyFloorClocks + tile / 4.0) / kClocksPerNs;
    const double blocks = static_cast<double>(tile) * stage_k(kernel) / kScaleBlock * kernel.token_planes;
    const double lanes = (kernel.warps - kFirstTokenWarp) * kWarp;
    const double quantise = blocks / lanes * kQuantiseClocksPerBlock * std::max(1.0, lanes / 128) / kClocksPerNs;
    const double stage = std::max({load, multiply, quantise});
    const double join = joins(kernel) ? kJoinNs + kJoinNsPerSlice * kernel.slices : kSelectNsPerToken * tile;
    const double rows = static_cast<double>(std::min<int64_t>(tile, tokens));
    const double scan = kernel.quantise_tokens
                            ? rows * kernel.hidden * token_bytes(kernel.token_form) / kernel.cluster / kScanBytesPerNs
                            : 0;
    const double share = kernel.cluster > 1 ? kClusterNs : 0;
    return kFixedNs + std::ceil(waves) * (scan + share + ceil_div(k_stages, kernel.slices) * stage + join);
}

namespace {

/// Operand rows of a stage, as wished or one.
uint32_t rows_of_stage(const TileWish& wish, const KernelPlan& kernel) {
    const uint32_t row = row_k(kernel.gate_form);
    if (wish.k_tile % row != 0 || wish.k_tile > kMaxStageRows * row)
        fail(NVFP4R_INVALID_ARGUMENT,
             "k_tile {}: a stage is 1 to {} swizzled 128-byte rows of operands, so a multiple of {} up to {} here",
             wish.k_tile, kMaxStageRows, row, kMaxStageRows * row);
    return wish.k_tile == 0 ? 1 : wish.k_tile / row;
}

void check_wish(const TileWish& wish, const KernelPlan& kernel) {
    const uint32_t row = row_k(kernel.gate_form), stage = rows_of_stage(wish, kernel) * row;
    const uint32_t k_stages = ceil_div(kernel.hidden, stage);
    if (wish.tokens_per_tile % kTokenTile != 0 || wish.tokens_per_tile > 256)
        fail(NVFP4R_INVALID_ARGUMENT, "tokens_per_tile {}: a multiple of 8 up to 256 (N of the multiply)",
             wish.tokens_per_tile);
    if (wish.k_split > std::min(kMostSlicesSm100, k_stages))
        fail(NVFP4R_INVALID_ARGUMENT, "k_split {}: at most {} slices (K has {} stages of {}, a join holds {} packets)",
             wish.k_split, std::min(kMostSlicesSm100, k_stages), k_stages, stage, kMostSlicesSm100);
    if (wish.stages > kMaxStages) fail(NVFP4R_INVALID_ARGUMENT, "stages {}: at most {}", wish.stages, kMaxStages);
}

/// The cheapest shape by the estimate, among those that the wish allows and that fit.
std::optional<KernelPlan> choose_shape(const KernelPlan& problem, int64_t tokens, int64_t split_tokens,
                                       const DeviceLimits& device, const TileWish& wish) {
    const uint32_t all_blocks = ceil_div(problem.experts, kMmaExperts);
    const uint32_t rows = rows_of_stage(wish, problem);
    const uint32_t k_stages = ceil_div(problem.hidden, rows * row_k(problem.gate_form));
    std::optional<KernelPlan> best;
    double best_ns = 0;
    const auto consider = [&](const Shape& shape) {
        // Every slice has work, and the last is not empty.
        const uint32_t per_slice = ceil_div(k_stages, shape.slices);
        if (ceil_div(k_stages, per_slice) != shape.slices) return;
        KernelPlan kernel = problem;
        if (!set_shape(shape, wish.stages, device.shared_bytes_cta, kernel)) return;
        if (joins(kernel) && shape.tile_tokens > kMaxTileTokens) return;  // the start ticket has a bit a token
        const double ns = blackwell_estimate_ns(kernel, split_tokens, device.multiprocessors);
        if (!best || ns < best_ns) best = kernel, best_ns = ns;
    };
    std::vector<uint32_t> tiles = {8, 16, 32, 64, kMaxTileTokensAlone};
    if (wish.tokens_per_tile) tiles = {wish.tokens_per_tile};
    for (const uint32_t tile : tiles) {
        // A tile wider than the batch multiplies nothing.
        if (!wish.tokens_per_tile && tile > kTokenTile && tile / 2 >= tokens) continue;
        for (uint32_t blocks = 1; blocks <= all_blocks; ++blocks) {
            if (ceil_div(all_blocks, ceil_div(all_blocks, blocks)) != blocks) continue;  // even groups
            for (uint32_t slices = 1; slices <= std::min(kMostSlicesSm100, k_stages); ++slices) {
                if (wish.k_split != 0 && wish.k_split != slices) continue;
                // A tile of 8 serves a single token too, whose row is one load of each thread.
                const uint32_t most = problem.quantise_tokens && tile > kTokenTile ? std::min(kMaxCluster, slices) : 1;
                for (uint32_t cluster = 1; cluster <= most; ++cluster)
                    if (slices % cluster == 0) consider({tile, blocks, slices, rows, cluster});
            }
        }
    }
    return best;
}

}  // namespace

Plan make_blackwell_plan(const nvfp4r_settings& settings, TokenForm tokens, TokenBand band, const DeviceLimits& device,
                         const TileWish& wish) {
    Plan plan;
    plan.source = "router_sm100.cu";
    plan.kernel = problem_of(settings, tokens);
    if (!plan.kernel.quantise_tokens && plan.kernel.gate_form == GateForm::Nvfp4 && tokens != TokenForm::Nvfp4)
        fail(NVFP4R_UNSUPPORTED,
             "precision {}: tcgen05 multiplies FP4 with FP4, so {} needs quantised tokens; use nvfp4, nvfp4x2, nvfp4x3 "
             "or "
             "bf16",
             static_cast<int>(settings.precision), device.name);
    check_wish(wish, plan.kernel);
    // A batch-invariant router splits K the same way for every M; only then are its sums the same.
    const TokenBand split_band = settings.batch_invariant ? TokenBand::kUpTo8 : band;
    constexpr int64_t kManyTokens = 8192;  // stands for "any" in the estimate
    const int64_t most = std::min(band_limit(band), kManyTokens), split = std::min(band_limit(split_band), kManyTokens);
    const std::optional<KernelPlan> kernel = choose_shape(plan.kernel, most, split, device, wish);
    if (!kernel)
        fail(NVFP4R_INVALID_ARGUMENT,
             "tile of {} tokens, k_split {}, stages {} (0: free): no split of {} experts fits {} bytes of shared "
             "memory and "
             "{} tensor memory columns, with at most {} tokens where CTAs share a tile",
             wish.tokens_per_tile, wish.k_split, wish.stages, settings.experts, device.shared_bytes_cta, kTmemColumns,
             kMaxTileTokens);
    plan.kernel = *kernel;
    const uint32_t groups = ceil_div(ceil_div(settings.experts, kMmaExperts), kernel->expert_tiles);
    plan.tile_tokens = kernel->token_tiles * kTokenTile;
    plan.threads = kernel->warps * kWarp;
    plan.producers = groups * kernel->slices;
    plan.shared_bytes = kernel->stages * blackwell_stage_bytes(*kernel) + blackwell_control_bytes(*kernel);
    set_launch_size(plan, band, joins(*kernel));
    plan.estimate_ns = blackwell_estimate_ns(*kernel, most, device.multiprocessors);

    plan.reasons = {
        fmt::format("token tile {}: N of the multiply{}", plan.tile_tokens, wish.tokens_per_tile ? ", asked for" : ""),
        fmt::format(
            "experts in {} group(s) of {} block(s) of {}, K in {} slice(s) of {} stage(s): {} CTAs a token tile on "
            "{} multiprocessors",
            groups, kernel->expert_tiles, kMmaExperts, kernel->slices,
            ceil_div(ceil_div(settings.hidden, stage_k(*kernel)), kernel->slices), plan.producers,
            device.multiprocessors),
        fmt::format("ring of {} stage(s) of {} values of K, {} bytes each; shared memory {} of {} bytes",
                    kernel->stages, stage_k(*kernel), blackwell_stage_bytes(*kernel), plan.shared_bytes,
                    device.shared_bytes_cta),
        fmt::format("tensor memory: {} accumulator and {} scale columns, {} allocated",
                    kernel->expert_tiles * plan.tile_tokens,
                    blackwell_columns(*kernel) - kernel->expert_tiles * plan.tile_tokens, kernel->tmem_columns),
        fmt::format("{} threads: load, multiply, tensor memory and spare warps, {} token warps", plan.threads,
                    kernel->warps - kFirstTokenWarp),
        joins(*kernel) ? fmt::format("join: packets in global memory, {} words for {} token tile(s) a launch",
                                     plan.mailbox_words, plan.tiles_per_launch)
                       : std::string("join: none, one CTA has all experts and all of K"),
        kernel->cluster > 1 ? fmt::format("clusters of {} along K: each CTA reads that share of a token's row for its "
                                          "amax",
                                          kernel->cluster)
                            : std::string("no cluster: each CTA reads whole rows for their amax, where it needs it"),
        fmt::format("estimate for M = {}: {:.1f} us (an estimate; no such GPU was measured)", most,
                    plan.estimate_ns / 1000),
    };
    return plan;
}

}  // namespace nvfp4r
