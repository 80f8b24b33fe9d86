// f32 and f64 values in slots, their flushing, saturation and NaN rules, and running operations on them.
#pragma once

#include "sim/instr/lanes.hpp"
#include "sim/instr/rounding.hpp"
#include "sim/instr/types.hpp"

namespace nvfp4r::sim {

/// How a floating-point instruction treats its values; kept in Instr::detail.
struct FloatRule {
    Rounding rounding = Rounding::rn;
    bool ftz = false;   // subnormal inputs and results count as zero of their sign
    bool sat = false;   // the result is clamped to [0, 1], NaN to +0
    bool relu = false;  // a negative result becomes +0, NaN stays

    uint64_t pack() const {
        return static_cast<uint64_t>(rounding) | uint64_t{ftz} << 8 | uint64_t{sat} << 9 | uint64_t{relu} << 10;
    }
    static FloatRule of(const Instr& instr) {
        FloatRule rule;
        rule.rounding = static_cast<Rounding>(instr.detail & 0xff);
        rule.ftz = instr.detail >> 8 & 1;
        rule.sat = instr.detail >> 9 & 1;
        rule.relu = instr.detail >> 10 & 1;
        return rule;
    }
};

inline constexpr uint32_t kNan32 = 0x7fffffff;  // the one NaN that f32 arithmetic produces (measured on H200)

inline float flush(float value) {
    return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
}

template <class T>
T saturate_unit(T value) {
    return value > T{0} ? (value < T{1} ? value : T{1}) : T{0};
}

inline float f32_of(uint64_t slot) {
    return std::bit_cast<float>(static_cast<uint32_t>(slot));
}
inline double f64_of(uint64_t slot) {
    return std::bit_cast<double>(slot);
}
inline uint64_t slot_of_f32(float value) {
    return value != value ? kNan32 : std::bit_cast<uint32_t>(value);
}
inline uint64_t slot_of_f64(double value) {
    return std::bit_cast<uint64_t>(value);
}

/// f32: input and output side of a rule.
inline float load_f32(uint64_t slot, const FloatRule& rule) {
    const float value = f32_of(slot);
    return rule.ftz ? flush(value) : value;
}
inline uint64_t store_f32(float value, const FloatRule& rule) {
    if (rule.ftz) value = flush(value);
    if (rule.sat) value = saturate_unit(value);
    return slot_of_f32(value);
}

template <class Op, size_t N>
Step exec_f32(Warp& warp, const Instr& instr, LaneMask lanes) {
    const FloatRule rule = FloatRule::of(instr);
    const RoundingScope scope(rule.rounding);
    return map_lanes<N>(warp, instr, lanes,
                        [&](auto... slot) { return store_f32(Op{}(load_f32(slot, rule)...), rule); });
}

template <class Op, size_t N>
Step exec_f64(Warp& warp, const Instr& instr, LaneMask lanes) {
    const RoundingScope scope(FloatRule::of(instr).rounding);
    return map_lanes<N>(warp, instr, lanes, [&](auto... slot) { return slot_of_f64(Op{}(f64_of(slot)...)); });
}

/// Two f32 in one 64-bit slot.
template <class Op, size_t N>
Step exec_f32x2(Warp& warp, const Instr& instr, LaneMask lanes) {
    const FloatRule rule = FloatRule::of(instr);
    const RoundingScope scope(rule.rounding);
    return map_lanes<N>(warp, instr, lanes, [&](auto... slot) {
        const uint64_t low = store_f32(Op{}(load_f32(slot, rule)...), rule);
        return low | store_f32(Op{}(load_f32(slot >> 32, rule)...), rule) << 32;
    });
}

/// Smaller and larger of two, with -0 below +0. A NaN loses against a number, unless `nan` lets it win.
template <class T>
T least(T a, T b, bool nan) {
    if (a != a) return nan ? a : b;
    if (b != b) return nan ? b : a;
    if (a == b) return std::signbit(a) ? a : b;
    return a < b ? a : b;
}
template <class T>
T greatest(T a, T b, bool nan) {
    if (a != a) return nan ? a : b;
    if (b != b) return nan ? b : a;
    if (a == b) return std::signbit(a) ? b : a;
    return a > b ? a : b;
}

}  // namespace nvfp4r::sim
