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
inline bool is_nan64(uint64_t slot) {
    return slot << 1 > uint64_t{0x7ff} << 53;
}

inline constexpr uint64_t kQuiet64 = uint64_t{1} << 51;
inline constexpr uint64_t kNan64 = 0xfff8000000000000;  // of an operation without a NaN operand (measured on H200)

/// f64 units hand on a NaN operand, made quiet, sign and payload kept (measured on H200): the last one, or the `first`.
template <bool first = false, class... Slots>
uint64_t slot_of_f64(double value, Slots... operands) {
    if (value == value) return std::bit_cast<uint64_t>(value);
    uint64_t nan = kNan64;
    bool found = false;
    [[maybe_unused]] const auto take = [&](uint64_t operand) {
        if (!is_nan64(operand) || (first && found)) return;
        nan = operand | kQuiet64;
        found = true;
    };
    (take(operands), ...);
    return nan;
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

/// Whether an f32 result of the least normal magnitude only got there by rounding of a subnormal: .ftz judges after
/// rounding to 24 bits at an unbounded exponent (measured on H200). Operations that can round there have scaled().
template <class Op, class... T>
bool rounded_up_to_normal(T... values) {
    constexpr float kScale = 0x1p64f, kLeast = 0x1p-126f;
    if constexpr (requires { Op::scaled(kScale, values...); }) {
        return std::fabs(Op::scaled(kScale, values...)) < kScale * kLeast;
    }
    return false;
}

template <class Op, class... T>
float compute_f32(const FloatRule& rule, T... values) {
    const float result = Op{}(values...);
    const bool least = rule.ftz && std::fabs(result) == 0x1p-126f;
    return least && rounded_up_to_normal<Op>(values...) ? std::copysign(0.0f, result) : result;
}

template <class Op, size_t N>
Step exec_f32(Warp& warp, const Instr& instr, LaneMask lanes) {
    const FloatRule rule = FloatRule::of(instr);
    const RoundingScope scope(rule.rounding);
    return map_lanes<N>(warp, instr, lanes,
                        [&](auto... slot) { return store_f32(compute_f32<Op>(rule, load_f32(slot, rule)...), rule); });
}

template <class Op, size_t N, bool first_nan = false>
Step exec_f64(Warp& warp, const Instr& instr, LaneMask lanes) {
    const RoundingScope scope(FloatRule::of(instr).rounding);
    if constexpr (N == 3) {
        // The second factor's NaN comes before the addend's, that before the first factor's (measured on H200).
        return map_lanes<3>(warp, instr, lanes, [](uint64_t a, uint64_t b, uint64_t c) {
            return slot_of_f64(Op{}(f64_of(a), f64_of(b), f64_of(c)), a, c, b);
        });
    } else {
        return map_lanes<N>(warp, instr, lanes,
                            [&](auto... slot) { return slot_of_f64<first_nan>(Op{}(f64_of(slot)...), slot...); });
    }
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
