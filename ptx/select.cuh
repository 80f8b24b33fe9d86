// From one token's logits to its experts: score, bias, groups, top-k, weights, ids (contract sections 2, 3 and 5).
//
// A team of threads (a warp, or the whole CTA) serves a token; thread t owns experts t, t + team, ... Ranks come from
// counting, so that no branch depends on the data: ties and crowded experts cost the same as random logits.
//   1. Experts form lists of 32. A lane counts the keys of its list that come before its own; the k best of each list
//      become candidates, in order.
//   2. Four threads a candidate count the candidates of the other lists that come before it; the k best overall are
//   left.
// Keys are unsigned integers in the order of the rank values; equal keys are ordered by list and lane, so by expert id.
#pragma once

#include "isa/launch.cuh"
#include "isa/memory.cuh"
#include "isa/warp.cuh"
#include "kernel_plan.h"
#include "options.cuh"
#include "score.cuh"

namespace nvfp4r {

inline constexpr unsigned kLists = ceil_div(kPlan.experts, kWarp);
inline constexpr unsigned kPaddedExperts = kLists * kWarp;
inline constexpr unsigned kCandidates = kLists * kPlan.top_k;
inline constexpr unsigned kPartsPerCandidate = 4;
static_assert(kPlan.top_k >= 1 && kPlan.top_k <= kWarp, "each of the k best needs a lane");

// Keys of what is no number. Every key is at least 1, so that key - 1 never wraps.
inline constexpr unsigned kKeyExcluded = 1;  // not eligible: past E, or in a group that was not kept
inline constexpr unsigned kKeyNan = 2;

/// Shared memory of one team.
struct SelectSpace {
    alignas(16) unsigned key[kPaddedExperts];
    alignas(16) unsigned candidate_key[round_up(kCandidates, 4)];
    float candidate_value[kCandidates];
    unsigned short candidate_id[round_up(kCandidates, 2)];
    unsigned group_key[kPlan.groups];
    float best_value[kWarp];
    int best_id[kWarp];
    float partial[kWarp];
};
static_assert(sizeof(SelectSpace) == select_space_bytes(kPlan), "the host sizes shared memory by the same formula");

/// Unsigned order equals float order; -0 and +0 are equal, NaN comes last.
__device__ __forceinline__ unsigned order_key(float v) {
    const unsigned bits = __float_as_uint(v + 0.0f);  // -0 + 0 = +0
    const unsigned key = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return v == v ? key : kKeyNan;
}

/// The float of a key; -Inf for NaN, as group scores count it.
__device__ __forceinline__ float key_value(unsigned key) {
    if (key <= kKeyNan) return -kInfinity;
    return __uint_as_float(key & 0x80000000u ? key ^ 0x80000000u : ~key);
}

inline constexpr unsigned kTeamBarrier = 1;  // barrier 0 is the whole CTA's

/// Threads of a CTA of `threads` that select: one an expert, four a candidate, as far as there are so many.
__device__ constexpr unsigned select_threads(unsigned threads) {
    const unsigned counting = round_up(kCandidates * kPartsPerCandidate, kWarp);
    const unsigned most = counting > kPaddedExperts ? counting : kPaddedExperts;
    return most < threads ? most : threads;
}

template <unsigned kTeam>
__device__ __forceinline__ void team_sync() {
    if constexpr (kTeam == kWarp)
        ptx::bar_warp_sync();
    else
        ptx::bar_sync(kTeamBarrier, kTeam);
}

/// The same, and whether `predicate` held in every thread.
template <unsigned kTeam>
__device__ __forceinline__ bool team_and(bool predicate) {
    if constexpr (kTeam == kWarp) {
        ptx::bar_warp_sync();  // a vote orders no memory accesses
        return ptx::vote_sync_all(predicate);
    } else {
        return ptx::bar_red_and(kTeamBarrier, kTeam, predicate);
    }
}

/// body(e) for those of kCount that fall to this thread: straight code where there is a thread for each.
template <unsigned kTeam, unsigned kCount, class Body>
__device__ __forceinline__ void for_own(unsigned thread, const Body& body) {
    if constexpr (kTeam >= kCount) {
        if (kTeam == kCount || thread < kCount) body(thread);
    } else {
#pragma unroll 1
        for (unsigned e = thread; e < kCount; e += kTeam) body(e);
    }
}

/// A count that starts at 2^23: its bits below are the count, so that no conversion is needed.
inline constexpr float kCountFromZero = 8388608.0f;
__device__ __forceinline__ unsigned counted(float count) {
    return __float_as_uint(count) - __builtin_bit_cast(unsigned, kCountFromZero);
}

/// The team's maximum or sum, in every thread; always added in the same order.
template <unsigned kTeam, bool kSum>
__device__ __forceinline__ float team_reduce(float v, SelectSpace& space, unsigned thread) {
    const auto join = [](float a, float b) { return kSum ? a + b : fmaxf(a, b); };
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) v = join(v, ptx::shfl_sync_bfly(v, mask));
    if constexpr (kTeam > kWarp) {
        if (thread % kWarp == 0) space.partial[thread / kWarp] = v;
        team_sync<kTeam>();
        v = space.partial[0];
        for (unsigned w = 1; w < kTeam / kWarp; ++w) v = join(v, space.partial[w]);
        team_sync<kTeam>();
    }
    return v;
}

/// exp(logit - largest); with an infinite maximum, which logits are it. NaN counts as -Inf.
__device__ __forceinline__ float softmax_share(float logit, float largest) {
    if (largest == kInfinity) return logit == kInfinity ? 1.0f : 0.0f;
    return logit > -kInfinity ? exp_difference(logit, largest) : 0.0f;
}

/// The logit as the contract has it: soft cap, then linear bias.
__device__ __forceinline__ float correct_logit(const RouterParams& p, float logit, float linear_bias) {
    if (!kPlan.plain && p.soft_cap != 0.0f) logit = soft_cap(logit, p.soft_cap);
    return logit + linear_bias;
}
__device__ __forceinline__ float row_linear_bias(const RouterParams& p, unsigned expert) {
    return given(p.linear_bias) ? ptx::ld_global_nc_f32(p.linear_bias + expert) : 0.0f;
}

/// Selection bias of an expert for this row.
__device__ __forceinline__ float row_bias(const RouterParams& p, bool image, unsigned expert) {
    const float* bias = image ? p.image_bias : p.bias;
    return bias ? ptx::ld_global_nc_f32(bias + expert) : 0.0f;
}

__device__ __forceinline__ bool is_image_row(const RouterParams& p, long long row) {
    return given(p.image_bias) && given(p.image_mask) && p.image_mask[row] != 0;
}

/// Keys of experts in groups that are not kept become kKeyExcluded. The team has synchronised on the keys.
template <unsigned kTeam>
__device__ __forceinline__ void limit_groups(SelectSpace& space, unsigned thread) {
    constexpr unsigned kWidth = kPlan.experts / kPlan.groups;
#pragma unroll 1
    for (unsigned g = thread; g < kPlan.groups; g += kTeam) {
        float best = -kInfinity, second = -kInfinity;
        for (unsigned i = 0; i < kWidth; ++i) {
            const float v = key_value(space.key[g * kWidth + i]);
            second = fmaxf(second, fminf(best, v));
            best = fmaxf(best, v);
        }
        const bool alone = kWidth == 1 || kPlan.group_score == GroupScore::Max || best == kInfinity;
        space.group_key[g] = order_key(alone ? best : best + second);
    }
    team_sync<kTeam>();
#pragma unroll 1
    for (unsigned e = thread; e < kPlan.experts; e += kTeam) {
        const unsigned own = e / kWidth;
        const unsigned key = space.group_key[own];
        unsigned before = 0;
        for (unsigned g = 0; g < kPlan.groups; ++g)
            before += space.group_key[g] > key || (space.group_key[g] == key && g < own);
        if (before >= kPlan.groups_kept) space.key[e] = kKeyExcluded;
    }
}

/// How many keys of the list come before `key` of lane `lane`: greater ones, and equal ones of lower lanes. Counts are
/// float sums under a predicate, which leave the integer pipe to the comparisons.
__device__ __forceinline__ unsigned rank_in_list(const unsigned* list, unsigned key, unsigned lane) {
    const auto* quads = reinterpret_cast<const uint4*>(list);
    const unsigned own = lane / 4, place = lane % 4;
    float count[4] = {kCountFromZero, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (unsigned i = 0; i < kWarp / 4; ++i) {
        const uint4 v = quads[i];
        const unsigned above = i < own ? key - 1 : (i > own ? key : 0xffffffffu);
        if (v.x > above) count[0] += 1.0f;
        if (v.y > above) count[1] += 1.0f;
        if (v.z > above) count[2] += 1.0f;
        if (v.w > above) count[3] += 1.0f;
    }
    const uint4 v = quads[own];
    if (v.x > (place > 0 ? key - 1 : key)) count[0] += 1.0f;
    if (v.y > (place > 1 ? key - 1 : key)) count[1] += 1.0f;
    if (v.z > (place > 2 ? key - 1 : key)) count[2] += 1.0f;
    if (v.w > key) count[3] += 1.0f;
    return counted((count[0] + count[1]) + (count[2] + count[3]));
}

/// The part's share of the candidates that come before candidate `index`.
__device__ __forceinline__ float count_before(const SelectSpace& space, unsigned index, unsigned part) {
    const unsigned own = index / kPlan.top_k;
    const unsigned key = space.candidate_key[index];
    float count = part == own % kPartsPerCandidate ? static_cast<float>(index - own * kPlan.top_k) : 0.0f;
    float other = 0.0f;  // a second chain of sums
    for (unsigned list = part; list < kLists; list += kPartsPerCandidate) {
        // Equal keys of lists with lower experts come before; the own list is counted already.
        const unsigned above = list < own ? key - 1 : (list > own ? key : 0xffffffffu);
        const unsigned* keys = space.candidate_key + list * kPlan.top_k;
        if constexpr (kPlan.top_k % 4 == 0) {
#pragma unroll
            for (unsigned i = 0; i < kPlan.top_k; i += 4) {
                const uint4 v = *reinterpret_cast<const uint4*>(keys + i);
                if (v.x > above) count += 1.0f;
                if (v.y > above) other += 1.0f;
                if (v.z > above) count += 1.0f;
                if (v.w > above) other += 1.0f;
            }
        } else {
#pragma unroll
            for (unsigned i = 0; i < kPlan.top_k; ++i)
                if (keys[i] > above) (i % 2 ? other : count) += 1.0f;
        }
    }
    return count + other;
}

/// best_id and best_value of the k experts whose keys are greatest. False when `complete` does not hold for the whole team.
template <unsigned kTeam>
__device__ __forceinline__ bool pick_best(SelectSpace& space, const float* value, unsigned thread, bool complete) {
    ptx::bar_warp_sync();  // a list's keys were written by the lanes of one warp
    for_own<kTeam, kPaddedExperts>(thread, [&](unsigned e) {
        const unsigned lane = e % kWarp, key = space.key[e];
        const unsigned rank = rank_in_list(space.key + (e - lane), key, lane);
        if (rank < kPlan.top_k) {
            const unsigned slot = e / kWarp * kPlan.top_k + rank;
            space.candidate_key[slot] = key;
            space.candidate_id[slot] = static_cast<unsigned short>(e);
            // A list that experts do not fill has candidates which are none, behind all others.
            if (kPlan.experts % kWarp == 0 || e < kPlan.experts) space.candidate_value[slot] = value[e];
        }
    });
    if (!team_and<kTeam>(complete)) return false;
    for_own<kTeam, round_up(kCandidates * kPartsPerCandidate, kWarp)>(thread, [&](unsigned i) {
        const unsigned index = i / kPartsPerCandidate, part = i % kPartsPerCandidate;
        float count = index < kCandidates ? count_before(space, index, part) : 0.0f;
        count += ptx::shfl_sync_bfly(count, 1);
        count += ptx::shfl_sync_bfly(count, 2);
        const unsigned rank = counted(kCountFromZero + count);
        if (index < kCandidates && part == 0 && rank < kPlan.top_k) {
            space.best_id[rank] = static_cast<int>(space.candidate_id[index]);
            space.best_value[rank] = space.candidate_value[index];
        }
    });
    return true;
}

/// best_id and best_value from the hash table or from the caller's ids. Ids outside [0, E) become -1 and raise the
/// flag.
__device__ __forceinline__ void take_given_ids(const RouterParams& p, SelectSpace& space, const float* value,
                                               long long row, unsigned thread) {
    if (thread >= kPlan.top_k) return;
    int id = -1;
    if (p.forced_ids) {
        id = p.forced_ids[row * p.forced_stride + thread];
    } else {
        const long long token = p.token_ids_wide ? static_cast<const long long*>(p.token_ids)[row]
                                                 : static_cast<const int*>(p.token_ids)[row];
        if (token >= 0 && token < p.vocabulary) id = p.table[token * p.table_k + thread];
    }
    const bool good = id >= 0 && id < static_cast<int>(kPlan.experts);
    constexpr unsigned kBadTableId = 1, kBadForcedId = 2;  // NVFP4R_FLAG_...
    if (!good && p.error_flag) ptx::red_relaxed_gpu_or_b32(p.error_flag, p.forced_ids ? kBadForcedId : kBadTableId);
    space.best_id[thread] = good ? id : -1;
    space.best_value[thread] = good ? value[id] : __uint_as_float(kCanonicalNan);
}

/// The weight of rank `rank` from best_value[0..k-1]; NaN counts as 0, infinite values share 1 when renormalising.
__device__ __forceinline__ float weight_of(const RouterParams& p, const SelectSpace& space, unsigned rank) {
    float largest = -kInfinity, total = 0.0f;
    if constexpr (kPlan.weighting == Weighting::SoftmaxAfter) {
        for (unsigned i = 0; i < kPlan.top_k; ++i) largest = fmaxf(largest, space.best_value[i]);
        for (unsigned i = 0; i < kPlan.top_k; ++i) total += softmax_share(space.best_value[i], largest);
    }
    const auto base = [&](unsigned i) {
        float v = space.best_value[i];
        if constexpr (kPlan.weighting == Weighting::SoftmaxAfter)
            v = total > 0.0f && v == v ? ptx::div_rn(softmax_share(v, largest), total) : 0.0f;
        if constexpr (kPlan.weighting == Weighting::SigmoidAfter) v = sigmoid(v);
        return v == v ? v : 0.0f;
    };
    float weight = base(rank);
    if constexpr (kPlan.renormalise) {
        float sum = 0.0f, infinite = 0.0f;
#pragma unroll
        for (unsigned i = 0; i < kPlan.top_k; ++i) {
            const float v = base(i);
            sum += v;
            if (fabsf(v) == kInfinity) infinite += 1.0f;
        }
        const float divisor = sum + p.renormalise_eps;
        if (infinite > 0.0f)
            weight = fabsf(weight) == kInfinity ? ptx::div_rn(1.0f, infinite) : 0.0f;
        else
            weight = sum == 0.0f || divisor == 0.0f ? 0.0f : ptx::div_rn(weight, divisor);
    }
    return weight * p.routed_scaling;
}

/// One slot of the row's outputs.
__device__ __forceinline__ void write_slot(const RouterParams& p, long long row, unsigned slot, int id, float weight) {
    const long long at = row * p.weights_stride + slot;
    if (enabled(p.weights_bf16))
        static_cast<unsigned short*>(p.weights)[at] = static_cast<unsigned short>(ptx::cvt_rn_bf16_f32(weight));
    else if (kPlan.plain || p.weights)
        static_cast<float*>(p.weights)[at] = weight;
    const long long id_at = row * p.ids_stride + slot;
    if (enabled(p.ids_packed))
        static_cast<unsigned*>(p.ids)[id_at] = static_cast<unsigned>(id) << 16 | ptx::cvt_rn_bf16_f32(weight);
    else if (enabled(p.ids_wide))
        static_cast<long long*>(p.ids)[id_at] = id;
    else
        static_cast<int*>(p.ids)[id_at] = id;
}

__device__ __forceinline__ void write_logical_id(const RouterParams& p, long long row, unsigned slot, int id) {
    if (!given(p.logical_ids)) return;
    const long long at = row * p.logical_ids_stride + slot;
    if (p.logical_ids_short)
        static_cast<short*>(p.logical_ids)[at] = static_cast<short>(id);
    else
        static_cast<int*>(p.logical_ids)[at] = id;
}

/// Weights and ids of a routed row from best_id and best_value, on which the team has synchronised.
template <unsigned kTeam>
__device__ __forceinline__ void write_row(const RouterParams& p, const SelectSpace& space, long long row,
                                          unsigned thread) {
    for_own<kTeam, kPlan.top_k>(thread, [&](unsigned slot) {
        int id = space.best_id[slot];
        float weight = weight_of(p, space, slot);
        if (given(p.expert_factor) && id >= 0) weight *= p.expert_factor[id];
        if (!(weight == weight)) weight = 0.0f;
        write_logical_id(p, row, slot, id);
        if (given(p.logit_to_physical) && id >= 0) {
            const int count = p.replica_count[id];
            const int replica = p.replica_by_row && count > 1 ? static_cast<int>((row + slot) % count) : 0;
            id = p.logit_to_physical[static_cast<long long>(id) * p.replicas + replica];
        }
        write_slot(p, row, slot, id, weight);
        if (given(p.tokens_per_expert) && id >= 0) ptx::red_relaxed_gpu_add_s32(p.tokens_per_expert + id, 1);
    });
    if constexpr (!kPlan.plain)
#pragma unroll 1
        for (int s = static_cast<int>(thread); s < p.shared_slots; s += static_cast<int>(kTeam))
            write_slot(p, row, kPlan.top_k + s, p.shared_first_id + s, p.shared_weight);
}

/// The outputs of a padding row.
template <unsigned kTeam>
__device__ __forceinline__ void write_padding_row(const RouterParams& p, long long row, unsigned thread) {
    const unsigned width = kPlan.top_k + (kPlan.plain ? 0u : static_cast<unsigned>(p.shared_slots));
#pragma unroll 1
    for (unsigned slot = thread; slot < width; slot += kTeam) {
        write_slot(p, row, slot, -1, 0.0f);
        if (slot < kPlan.top_k) write_logical_id(p, row, slot, -1);
    }
#pragma unroll 1
    for (unsigned e = thread; e < kPlan.experts; e += kTeam) {
        if (given(p.logits)) p.logits[row * p.logits_stride + e] = 0.0f;
        if (given(p.scores)) p.scores[row * p.scores_stride + e] = 0.0f;
    }
}

/// Routes one valid row. value[e] holds the corrected logit of the thread's own experts; `bias_of(e)` gives their
/// selection bias. False, and a plain row's outputs not written, when `complete` does not hold for the whole team. The next
/// row may follow at once: what the slowest thread still reads here is written there after a barrier.
template <unsigned kTeam, class BiasOf>
__device__ __forceinline__ bool select_row(const RouterParams& p, SelectSpace& space, float* value, long long row,
                                           unsigned thread, const BiasOf& bias_of, bool complete = true) {
    float largest = -kInfinity, total = 0.0f;
    if constexpr (kPlan.score == Score::Softmax) {
#pragma unroll 1
        for (unsigned e = thread; e < kPlan.experts; e += kTeam) largest = fmaxf(largest, value[e]);
        largest = team_reduce<kTeam, false>(largest, space, thread);
#pragma unroll 1
        for (unsigned e = thread; e < kPlan.experts; e += kTeam) total += softmax_share(value[e], largest);
        total = team_reduce<kTeam, true>(total, space, thread);
    }
    for_own<kTeam, kPaddedExperts>(thread, [&](unsigned e) {
        unsigned key = kKeyExcluded;
        if (kPlan.experts % kWarp == 0 || e < kPlan.experts) {
            const float logit = value[e];
            float act = score_of<kPlan.score>(logit);
            if constexpr (kPlan.score == Score::Softmax)
                act =
                    logit != logit ? logit : (total > 0.0f ? ptx::div_rn(softmax_share(logit, largest), total) : 0.0f);
            if (given(p.logits)) p.logits[row * p.logits_stride + e] = logit;
            if (given(p.scores)) p.scores[row * p.scores_stride + e] = act;
            if constexpr (kPlan.weighting == Weighting::Score) value[e] = act;
            key = order_key(act + bias_of(e));
        }
        space.key[e] = key;
    });
    if (given(p.forced_ids) || given(p.table)) {
        if (!team_and<kTeam>(complete)) return false;
        take_given_ids(p, space, value, row, thread);
    } else {
        if constexpr (kPlan.groups > 1) {
            team_sync<kTeam>();
            limit_groups<kTeam>(space, thread);
        }
        if (!pick_best<kTeam>(space, value, thread, complete)) return false;
    }
    team_sync<kTeam>();
    write_row<kTeam>(p, space, row, thread);
    return true;
}

}  // namespace nvfp4r
