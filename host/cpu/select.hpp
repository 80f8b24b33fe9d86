// Group limiting and top-k of one row's rank values.
#pragma once

#include <cstdint>
#include <span>

#include "nvfp4router.h"

namespace nvfp4r {

/// The order of the contract: larger first, NaN after every number, equal values (also -0 and +0) by the lower id.
bool ranks_before(float a, uint32_t id_a, float b, uint32_t id_b);

/// Scratch of select_row.
struct SelectScratch {
    std::span<uint32_t> experts;    // at least E
    std::span<uint32_t> groups;     // at least groups
    std::span<float> group_scores;  // at least groups
};

/// chosen[0..k-1] = the k best experts of rank[E], best first, within the best groups where the settings have groups.
/// A group's score is its best rank value or the sum of its two best; there NaN counts as -Inf, and a group whose best
/// is +Inf has the score +Inf.
void select_row(const nvfp4r_settings& settings, std::span<const float> rank, SelectScratch scratch,
                std::span<int32_t> chosen);

}  // namespace nvfp4r
