// From a problem and a device to a kernel variant: tile shape, split of K, shared memory, every number with its reason.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nvfp4router.h"
#include "router_params.h"

namespace nvfp4r {

/// What the plan needs to know of a GPU.
struct DeviceLimits {
    std::string name;
    int major = 0, minor = 0;  // compute capability
    uint32_t multiprocessors = 0;
    uint32_t shared_bytes_cta = 0;  // opt-in limit of one CTA
    uint32_t shared_bytes_sm = 0;
};

/// Tile shape asked for by the user; 0: the plan chooses.
struct TileWish {
    uint32_t tokens_per_tile = 0, k_split = 0, k_tile = 0, stages = 0;
};

/// Calls are served by a few variants, each for a range of M.
enum class TokenBand : uint32_t { kUpTo8, kUpTo16, kUpTo64, kUpTo256, kUpTo640, kUpTo1024, kUpTo2048, kUpTo4096, kAny };
inline constexpr uint32_t kTokenBands = 9;
TokenBand token_band(int64_t tokens);
/// The largest M of a band; NVFP4R_MAX_TOKENS for the last.
int64_t band_limit(TokenBand band);

struct Plan {
    std::string source;  // file of ptx/
    KernelPlan kernel{};
    uint32_t tile_tokens = 0;
    uint32_t threads = 0;
    uint32_t producers = 0;            // CTAs that multiply, of one token tile
    uint32_t shared_bytes = 0;         // dynamic
    uint32_t tiles_per_launch = 0;     // grid.y; more tokens take several launches
    uint64_t mailbox_words = 0;        // of one launch
    bool early_start = true;           // programmatic launch: may start before its predecessor has ended
    bool natural_gate = false;         // Hopper: takes the gate packed in StepOrder::kNatural
    bool own_selectors = false;        // CTAs that only select may be added to each tile
    double estimate_ns = 0;            // Blackwell: of the band's largest call; 0: none made
    std::vector<std::string> reasons;  // one line for each choice
};

/// CTAs that only select, of each token tile, in a call of `tokens`.
uint32_t selecting_ctas(const Plan& plan, int64_t tokens);

/// Throws UNSUPPORTED for a precision or a device without a kernel, INVALID_ARGUMENT for a wish that breaks a limit,
/// with the limit.
/// `plain`: for calls without any option (KernelPlan::plain).
Plan make_plan(const nvfp4r_settings& settings, TokenForm tokens, TokenBand band, const DeviceLimits& device,
               const TileWish& wish, bool plain = false);

/// The plan as the constants a kernel is compiled with (text of kernel_plan.h).
std::string kernel_plan_header(const KernelPlan& plan);

}  // namespace nvfp4r
