// Small checks that every refusal is made of. Each text names the field, the value and the limit or remedy.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "core/error.hpp"

namespace nvfp4r {

/// The number in an enumeration's field. A caller may have put any number there, which C++ may not even load as the
/// enumeration (undefined behaviour past the bits of its enumerators).
template <class Enum>
int raw(const Enum& field) {
    static_assert(sizeof(Enum) == sizeof(int), "C enumerations of the API are ints");
    int value;
    std::memcpy(&value, &field, sizeof(value));
    return value;
}

template <class Enum>
void check_enum(const char* name, const Enum& field, std::initializer_list<Enum> allowed, const char* known) {
    for (const Enum value : allowed)
        if (raw(field) == static_cast<int>(value)) return;
    fail(NVFP4R_INVALID_ARGUMENT, "{} {}: must be {}", name, raw(field), known);
}

inline void check_flag(const char* name, int32_t value) {
    if (value != 0 && value != 1) fail(NVFP4R_INVALID_ARGUMENT, "{} {}: must be 0 or 1", name, value);
}

/// Finite and not below zero.
inline void check_not_negative(const char* name, float value) {
    if (!std::isfinite(value) || value < 0.0f)
        fail(NVFP4R_INVALID_ARGUMENT, "{} {}: must be finite and not negative", name, value);
}

inline void check_finite(const char* name, float value) {
    if (!std::isfinite(value)) fail(NVFP4R_INVALID_ARGUMENT, "{} {}: must be finite", name, value);
}

/// A global scale: finite and positive.
inline void check_scale(const char* name, float value) {
    if (!std::isfinite(value) || value <= 0.0f)
        fail(NVFP4R_INVALID_ARGUMENT, "{} {}: a global scale must be finite and positive", name, value);
}

}  // namespace nvfp4r
