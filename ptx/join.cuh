// Joining the K slices of a token and handing the sum to the selection. Self-validating packets in global memory carry the
// partial sums from the CTAs that made them to the one that selects the token.
//
// Packets. mailbox[tile][token][slice][expert] holds kEmptyPacket (a NaN no arithmetic makes) or a partial sum; the word is
// its own flag, so a packet needs neither fence nor atomic. The selecting thread that reads a packet empties it again:
// every launch leaves the mailbox as it found it, and nothing is reset between launches.
//
// Progress. Only selecting CTAs wait, and only for packets; CTAs of a cluster wait for each other as well, but they start
// together. tickets[tile] counts the CTAs of the tile that have started
// (low half). The CTA that takes the last ticket knows that all others run or are done, and no producer waits, so it may
// poll for ever. A CTA that took an earlier ticket may be waiting for one that cannot start before it leaves: after
// kPatience polls it hands its tokens over (a bit each in the high half, by compare-and-swap) and ends, unless the last
// ticket is gone by then. The last starter sees the bits in its own ticket and selects those tokens too. So the launch
// ends however few CTAs fit, in whatever order they start. The last starter also sets the word back to 0.
#pragma once

#include "isa/launch.cuh"
#include "isa/memory.cuh"
#include "select.cuh"
#include "token_tile.cuh"

namespace nvfp4r {

inline constexpr unsigned kPatience = 256;  // polls before a token is handed over: about 0.2 ms

/// Shared memory of a CTA that selects.
struct JoinSpace {
    float value[kPaddedExperts];
    SelectSpace select;
    unsigned long long ticket;
    unsigned handed_over;
};

__device__ __forceinline__ unsigned* packet(const RouterParams& p, const Tile& tile, unsigned token, unsigned slice,
                                            unsigned expert) {
    const unsigned long long row = static_cast<unsigned long long>(tile.index) * kTileTokens + token;
    return p.mailbox + (row * kPlan.slices + slice) * kPlan.experts + expert;
}

/// Counts this CTA among the tile's started ones (one thread). The caller puts the ticket into JoinSpace only before its
/// next CTA barrier, so that nobody waits for the round trip.
__device__ __forceinline__ unsigned long long take_ticket(const RouterParams& p, const Tile& tile) {
    return ptx::atom_relaxed_gpu_add_u64(p.tickets + tile.index, 1);
}

__device__ __forceinline__ unsigned packet_word(float sum) {
    const unsigned word = __float_as_uint(sum);
    return word == kEmptyPacket ? kCanonicalNan : word;
}

__device__ __forceinline__ bool is_complete(unsigned word) {
    return word != kEmptyPacket;
}

__device__ __forceinline__ bool is_complete(const ptx::Words4& v) {
    return is_complete(v.x) && is_complete(v.y) && is_complete(v.z) && is_complete(v.w);
}

/// Reads the packets of every slice, `load(s)` each, until none is empty; false when kPatience polls did not find them all and
/// `patient` is not set. All are read again together: waiting for them one by one costs a round trip each.
template <class Word, class Load>
__device__ __forceinline__ bool await_packets(bool patient, Word (&word)[kPlan.slices], const Load& load) {
    for (unsigned polls = 0; patient || polls < kPatience; ++polls) {
        bool complete = true;
#pragma unroll
        for (unsigned s = 0; s < kPlan.slices; ++s) word[s] = load(s);
#pragma unroll
        for (unsigned s = 0; s < kPlan.slices; ++s) complete = complete && is_complete(word[s]);
        if (complete) return true;
    }
    return false;
}

/// One partial sum. Every row of the tile is sent, padding or not, and the row's selecting CTA empties every packet again.
__device__ __forceinline__ void send_packet(const RouterParams& p, const Tile& tile, unsigned token, unsigned slice,
                                            unsigned expert, float sum) {
    ptx::st_relaxed_gpu_u32(packet(p, tile, token, slice, expert), packet_word(sum));
}

/// The sum of one expert's packets in slice order, the first of which is `first`; false as await_packets.
__device__ __forceinline__ bool join_packets(const unsigned* first, bool patient, float& sum) {
    unsigned word[kPlan.slices];
    if (!await_packets(patient, word, [&](unsigned s) { return ptx::ld_relaxed_gpu_u32(first + s * kPlan.experts); }))
        return false;
    sum = __uint_as_float(word[0]);
#pragma unroll
    for (unsigned s = 1; s < kPlan.slices; ++s) sum += __uint_as_float(word[s]);
    return true;
}

/// Adds this CTA's token to those left for the last starter. False when that one has started: its ticket is the last
/// write of a count below the number of CTAs, and it sets the word to 0.
__device__ __forceinline__ bool hand_over(unsigned long long* ticket, unsigned token) {
    const unsigned long long mine = 1ull << (32 + token);
    unsigned long long seen = ptx::ld_relaxed_gpu_u64(ticket);
    while (true) {
        const unsigned started = static_cast<unsigned>(seen);
        if (started == 0 || started == gridDim.x) return false;
        const unsigned long long before = ptx::atom_relaxed_gpu_cas_u64(ticket, seen, seen | mine);
        if (before == seen) return true;
        seen = before;
    }
}

/// Joins and routes one token of the tile, or hands it over. `scale` multiplies the joined sum.
template <unsigned kTeam>
__device__ __forceinline__ void select_token(const RouterParams& p, JoinSpace& space, const Tile& tile, unsigned token,
                                             float scale, bool patient, unsigned thread) {
    const long long row = tile.first_row + token;
    const bool valid = row_is_valid(p, row), image = is_image_row(p, row);
    // A thread's first expert is its only one as a rule: its constants are fetched while the packets are on their way.
    const float first_bias = thread < kPlan.experts ? row_bias(p, image, thread) : 0.0f;
    const float first_linear = thread < kPlan.experts ? row_linear_bias(p, thread) : 0.0f;
    while (true) {
        bool complete = true;
        for_own<kTeam, kPlan.experts>(thread, [&](unsigned e) {
            float sum = 0.0f;
            complete = complete && join_packets(packet(p, tile, token, 0, e), patient, sum);
            space.value[e] = correct_logit(p, scale * sum, e == thread ? first_linear : row_linear_bias(p, e));
        });
        // A plain row is on its way before all packets are known to be there: select_row's first barrier tells.
        if constexpr (!kPlan.plain) complete = team_and<kTeam>(complete);
        if (kPlan.plain || (valid && complete))
            complete = select_row<kTeam>(
                p, space.select, space.value, row, thread,
                [&](unsigned e) { return e == thread ? first_bias : row_bias(p, image, e); }, complete);
        if (complete) break;
        if (thread == 0) space.handed_over = hand_over(p.tickets + tile.index, token);
        team_sync<kTeam>();
        if (space.handed_over) return;
        patient = true;
    }
    if (!valid) write_padding_row<kTeam>(p, row, thread);
    for_own<kTeam, kPlan.experts>(thread, [&](unsigned e) {
        unsigned* first = packet(p, tile, token, 0, e);
#pragma unroll
        for (unsigned s = 0; s < kPlan.slices; ++s) ptx::st_relaxed_gpu_u32(first + s * kPlan.experts, kEmptyPacket);
    });
}

/// Whole warps that add up to kTeam threads, after the CTA's packets are sent and the ticket is in `space`: selects the
/// tokens that fall to the CTA. `scale_of(t)` is the factor of token t.
template <unsigned kTeam, class ScaleOf>
__device__ __forceinline__ void select_joined(const RouterParams& p, JoinSpace& space, const Tile& tile,
                                              unsigned thread, const ScaleOf& scale_of) {
    const unsigned long long ticket = space.ticket;
    const unsigned from_end = gridDim.x - 1 - static_cast<unsigned>(ticket);
    const bool last = from_end == 0;
    if (last && thread == 0) ptx::st_relaxed_gpu_u64(p.tickets + tile.index, 0);
    // The last starter's own tokens and those handed over, in one loop: the selection's code is there once.
    unsigned todo = last ? static_cast<unsigned>(ticket >> 32) : 0u;
    for (unsigned t = from_end; t < tile.rows; t += gridDim.x) todo |= 1u << t;
#pragma unroll 1
    for (; todo != 0; todo &= todo - 1) {
        const unsigned t = static_cast<unsigned>(__ffs(static_cast<int>(todo))) - 1;
        select_token<kTeam>(p, space, tile, t, scale_of(t), last, thread);
    }
}

}  // namespace nvfp4r
