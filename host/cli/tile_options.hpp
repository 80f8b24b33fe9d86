// The tile shape of GPU kernels on the command line. The library refuses what is illegal, with the limit.
#pragma once

#include <cstdint>

#include "cli/arguments.hpp"

namespace nvfp4r::cli {

/// Adds --tokens-per-tile, --k-split, --k-tile and --stages, which write to the fields of the same names of
/// nvfp4r_router_options or TileWish.
template <class Target>
void add_tile_options(const Arguments& app, Target& target) {
    constexpr const char* kGroup = "Tile shape of GPU kernels (0: planned)";
    const auto add = [&](const char* flag, uint32_t& field, const char* help) {
        app.option(flag, field, help).show_default().group(kGroup);
    };
    add("--tokens-per-tile", target.tokens_per_tile, "Tokens that a CTA multiplies at once");
    add("--k-split", target.k_split, "CTAs that share the K range");
    add("--k-tile", target.k_tile, "Values of K in one stage");
    add("--stages", target.stages, "Stages of the ring");
}

}  // namespace nvfp4r::cli
