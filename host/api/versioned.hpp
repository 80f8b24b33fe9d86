// Structures of the C API carry their own size, so that programs built against another header keep their meaning.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/error.hpp"

namespace nvfp4r {

/// Refuses a structure whose size field was never set, by its name.
template <class T>
void check_size(const T* user, const char* name) {
    if (!user) fail(NVFP4R_INVALID_ARGUMENT, "{}: NULL", name);
    if (user->size < sizeof(size_t))
        fail(NVFP4R_INVALID_ARGUMENT, "{}.size {}: start from the _INIT macro of the structure", name, user->size);
}

/// The caller's structure in this library's form. A shorter one (an older header) takes the missing tail from
/// `defaults`; a longer one (a newer header) is taken while its unknown tail is zero.
template <class T>
T read_struct(const T* user, const T& defaults, const char* name) {
    check_size(user, name);
    const auto* bytes = reinterpret_cast<const unsigned char*>(user);
    for (size_t i = sizeof(T); i < user->size; ++i)
        if (bytes[i] != 0)
            fail(NVFP4R_INVALID_ARGUMENT,
                 "{}.size {}: byte {} is set, but this library knows {} bytes; use the library that belongs to the "
                 "header",
                 name, user->size, i, sizeof(T));
    T value = defaults;
    std::memcpy(static_cast<void*>(&value), user, std::min(user->size, sizeof(T)));
    value.size = sizeof(T);
    return value;
}

/// Writes as much of `value` as the caller's structure holds; its size field stays.
template <class T>
void write_struct(T* user, T value) {
    value.size = user->size;
    std::memcpy(static_cast<void*>(user), &value, std::min(user->size, sizeof(T)));
}

}  // namespace nvfp4r
