// Independent rounding for the arithmetic tests: exact values in 113-bit floats, and narrow formats as sorted tables.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace nvfp4r::sim::test {

__extension__ typedef __float128 Quad;  // exact for every sum and product used here

inline float as_f32(uint64_t slot) {
    return std::bit_cast<float>(static_cast<uint32_t>(slot));
}
inline double as_f64(uint64_t slot) {
    return std::bit_cast<double>(slot);
}
inline uint64_t bits_of(float value) {
    return value != value ? 0x7fffffff : std::bit_cast<uint32_t>(value);
}
inline uint64_t bits_of(double value) {
    return std::bit_cast<uint64_t>(value);
}

/// Nearest T, then one step to the side that the mode wants. `mode`: "rn", "rz", "rm", "rp".
template <class T>
T round_quad(Quad exact, const std::string& mode) {
    T value = static_cast<T>(exact);
    const T huge = std::numeric_limits<T>::infinity();
    const bool above = static_cast<Quad>(value) > exact, below = static_cast<Quad>(value) < exact;
    if (mode == "rp" && below) value = std::nextafter(value, huge);
    if (mode == "rm" && above) value = std::nextafter(value, -huge);
    if (mode == "rz" && exact > 0 && above) value = std::nextafter(value, T{0});
    if (mode == "rz" && exact < 0 && below) value = std::nextafter(value, T{0});
    return value;
}

/// A narrow format as the list of its non-negative finite values: index = code.
class NarrowFormat {
  public:
    NarrowFormat(int fraction_bits, int bias, uint64_t max_code) {
        for (uint64_t code = 0; code <= max_code + 1; ++code) {
            const auto field = static_cast<int>(code >> fraction_bits);
            const double fraction =
                static_cast<double>(code & ((uint64_t{1} << fraction_bits) - 1)) / std::ldexp(1.0, fraction_bits);
            values_.push_back(field ? std::ldexp(1 + fraction, field - bias) : std::ldexp(fraction, 1 - bias));
        }
    }
    double value(uint64_t code) const { return values_[code]; }
    uint64_t max_code() const { return values_.size() - 2; }
    /// Code of the nearest value, ties to the even code; max_code() + 1 when it rounds beyond the largest.
    uint64_t nearest(Quad magnitude) const {
        if (magnitude >= static_cast<Quad>(values_.back())) return values_.size() - 1;
        size_t low = 0, high = values_.size() - 1;
        while (high - low > 1) {
            const size_t middle = (low + high) / 2;
            (static_cast<Quad>(values_[middle]) <= magnitude ? low : high) = middle;
        }
        const Quad down = magnitude - static_cast<Quad>(values_[low]);
        const Quad up = static_cast<Quad>(values_[high]) - magnitude;
        if (down == up) return low % 2 == 0 ? low : high;
        return down < up ? low : high;
    }
    /// Code of the largest value not above.
    uint64_t below(Quad magnitude) const {
        uint64_t code = nearest(magnitude);
        if (code > max_code()) return max_code();
        if (static_cast<Quad>(values_[code]) > magnitude) --code;
        return code;
    }

  private:
    std::vector<double> values_;
};

inline const NarrowFormat& f16_values() {
    static const NarrowFormat format(10, 15, 0x7bff);
    return format;
}
inline const NarrowFormat& bf16_values() {
    static const NarrowFormat format(7, 127, 0x7f7f);
    return format;
}

/// 16-bit result of an exact value: overflow is infinity, NaN 0x7fff. `zero_negative`: the sign of an exact 0.
inline uint64_t half_bits(const NarrowFormat& format, Quad exact, bool zero_negative) {
    if (exact != exact) return 0x7fff;
    const bool negative = exact < 0 || (exact == 0 && zero_negative);
    const uint64_t code = format.nearest(exact < 0 ? -exact : exact);
    return code | (negative ? 0x8000u : 0u);
}
inline double half_value(const NarrowFormat& format, uint64_t bits) {
    const uint64_t code = bits & 0x7fff;
    if (code > format.max_code() + 1) return std::nan("");
    const double magnitude = code == format.max_code() + 1 ? HUGE_VAL : format.value(code);
    return bits & 0x8000 ? -magnitude : magnitude;
}

}  // namespace nvfp4r::sim::test
