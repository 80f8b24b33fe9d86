// Running one operation over the lanes of a warp. Values are 64-bit slots, narrower ones zero-extended.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "sim/machine/machine.hpp"
#include "sim/program/instr.hpp"

namespace nvfp4r::sim {

inline constexpr LaneMask kAllLanes = ~LaneMask{0};

template <class F>
void for_lanes(LaneMask lanes, F f) {
    if (lanes == kAllLanes) {
        for (uint32_t lane = 0; lane < kLanes; ++lane) f(lane);
        return;
    }
    for (; lanes; lanes &= lanes - 1) f(static_cast<uint32_t>(std::countr_zero(lanes)));
}

/// Reads N sources, applies `op` to the values of each lane and writes the result to instr.dst.
template <size_t N, class Op>
Step map_lanes(Warp& warp, const Instr& instr, LaneMask lanes, Op op) {
    Lanes scratch[N], sink;
    const uint64_t* in[N];
    for (size_t i = 0; i < N; ++i) in[i] = warp.read(instr.src[i], scratch[i], lanes);
    uint64_t* out = warp.write(instr.dst, sink, lanes);
    for_lanes(lanes, [&](uint32_t lane) {
        if constexpr (N == 1) out[lane] = op(in[0][lane]);
        if constexpr (N == 2) out[lane] = op(in[0][lane], in[1][lane]);
        if constexpr (N == 3) out[lane] = op(in[0][lane], in[1][lane], in[2][lane]);
        if constexpr (N == 4) out[lane] = op(in[0][lane], in[1][lane], in[2][lane], in[3][lane]);
    });
    return Step::next;
}

/// An Exec of a functor type. One that depends on the instruction (a rounding, a mode) is built from it.
template <class Op, size_t N>
Step exec_map(Warp& warp, const Instr& instr, LaneMask lanes) {
    if constexpr (std::is_constructible_v<Op, const Instr&>) {
        return map_lanes<N>(warp, instr, lanes, Op(instr));
    } else {
        return map_lanes<N>(warp, instr, lanes, Op{});
    }
}

/// Lanes whose value of a predicate-like condition is true.
template <class F>
LaneMask lanes_where(LaneMask lanes, F f) {
    LaneMask mask = 0;
    for_lanes(lanes, [&](uint32_t lane) { mask |= LaneMask{f(lane) ? 1u : 0u} << lane; });
    return mask;
}

inline void write_pred(Warp& warp, uint32_t slot, LaneMask value, LaneMask lanes) {
    if (slot == kSinkSlot) return;
    LaneMask& pred = warp.pred(slot);
    pred = (pred & ~lanes) | (value & lanes);
}

}  // namespace nvfp4r::sim
