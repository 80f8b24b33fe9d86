#include "cpu/select.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace nvfp4r {
namespace {

float group_score(std::span<const float> rank, nvfp4r_group_score rule) {
    constexpr float kLowest = -std::numeric_limits<float>::infinity();
    float best = kLowest, second = kLowest;
    for (const float value : rank) {
        const float number = std::isnan(value) ? kLowest : value;
        second = std::max(second, std::min(best, number));
        best = std::max(best, number);
    }
    const bool alone = rank.size() == 1 || rule == NVFP4R_GROUP_MAX || best == std::numeric_limits<float>::infinity();
    return alone ? best : best + second;
}

// Moves the `count` best of `ids` to the front, best first.
void sort_best(std::span<uint32_t> ids, uint32_t count, std::span<const float> values) {
    std::partial_sort(ids.begin(), ids.begin() + count, ids.end(),
                      [&](uint32_t a, uint32_t b) { return ranks_before(values[a], a, values[b], b); });
}

}  // namespace

bool ranks_before(float a, uint32_t id_a, float b, uint32_t id_b) {
    if (std::isnan(a) != std::isnan(b)) return std::isnan(b);
    if (a > b) return true;
    if (a < b) return false;
    return id_a < id_b;
}

void select_row(const nvfp4r_settings& settings, std::span<const float> rank, SelectScratch scratch,
                std::span<int32_t> chosen) {
    const auto experts = static_cast<uint32_t>(rank.size());
    uint32_t candidates = 0;
    if (settings.groups > 1) {
        const uint32_t width = experts / settings.groups;
        const std::span<uint32_t> groups = scratch.groups.first(settings.groups);
        for (uint32_t g = 0; g < settings.groups; ++g) {
            groups[g] = g;
            scratch.group_scores[g] = group_score(rank.subspan(g * width, width), settings.group_score);
        }
        sort_best(groups, settings.groups_kept, scratch.group_scores);
        for (const uint32_t g : groups.first(settings.groups_kept))
            for (uint32_t e = g * width; e < (g + 1) * width; ++e) scratch.experts[candidates++] = e;
    } else {
        for (uint32_t e = 0; e < experts; ++e) scratch.experts[candidates++] = e;
    }
    const auto count = static_cast<uint32_t>(chosen.size());
    sort_best(scratch.experts.first(candidates), count, rank);
    std::copy_n(scratch.experts.begin(), count, chosen.begin());
}

}  // namespace nvfp4r
