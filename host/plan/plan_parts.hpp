// What the plans of all kernels share.
#pragma once

#include "plan/plan.hpp"

namespace nvfp4r {

/// The problem and the operands of a kernel; the tile is left 0. Throws UNSUPPORTED for a precision without a kernel.
KernelPlan problem_of(const nvfp4r_settings& settings, TokenForm tokens);

/// Pairs (gate plane, token plane) that are multiplied.
uint32_t products(const KernelPlan& kernel);

/// Token tiles of one launch where CTAs join through the mailbox, so that it has a fixed size.
inline constexpr uint32_t kJoinedTilesPerLaunch = 64;

/// tiles_per_launch and mailbox_words for calls of the band; `joined`: CTAs share a tile through the mailbox.
void set_launch_size(Plan& plan, TokenBand band, bool joined);

Plan make_hopper_plan(const nvfp4r_settings& settings, TokenForm tokens, TokenBand band, const DeviceLimits& device,
                      const TileWish& wish, bool plain);
Plan make_blackwell_plan(const nvfp4r_settings& settings, TokenForm tokens, TokenBand band, const DeviceLimits& device,
                         const TileWish& wish);

}  // namespace nvfp4r
