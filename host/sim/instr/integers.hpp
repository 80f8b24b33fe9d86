// C++ types for integer data types, for the integer families.
#pragma once

#include <cstdint>
#include <type_traits>

#include "sim/instr/lanes.hpp"
#include "sim/instr/types.hpp"

namespace nvfp4r::sim {

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 Uint128;

template <class T>
T as(uint64_t slot) {
    return static_cast<T>(slot);
}

/// The slot of a value: zero-extended.
template <class T>
uint64_t slot_of(T value) {
    return static_cast<uint64_t>(static_cast<std::make_unsigned_t<T>>(value));
}

/// The exec of Op<T> for an integer type of 16 bits or more; nullptr for another type.
template <template <class> class Op, size_t N>
Exec exec_by_type(DataType type) {
    switch (type) {
        case DataType::u16:
        case DataType::b16: return exec_map<Op<uint16_t>, N>;
        case DataType::s16: return exec_map<Op<int16_t>, N>;
        case DataType::u32:
        case DataType::b32: return exec_map<Op<uint32_t>, N>;
        case DataType::s32: return exec_map<Op<int32_t>, N>;
        case DataType::u64:
        case DataType::b64: return exec_map<Op<uint64_t>, N>;
        case DataType::s64: return exec_map<Op<int64_t>, N>;
        default: return nullptr;
    }
}

/// The same for operations whose bits do not depend on the sign.
template <template <class> class Op, size_t N>
Exec exec_by_width(DataType type) {
    switch (type_bits(type)) {
        case 16: return exec_map<Op<uint16_t>, N>;
        case 32: return exec_map<Op<uint32_t>, N>;
        case 64: return exec_map<Op<uint64_t>, N>;
        default: return nullptr;
    }
}

template <class T>
struct Widened;
template <>
struct Widened<int16_t> {
    using Type = int32_t;
};
template <>
struct Widened<uint16_t> {
    using Type = uint32_t;
};
template <>
struct Widened<int32_t> {
    using Type = int64_t;
};
template <>
struct Widened<uint32_t> {
    using Type = uint64_t;
};
template <>
struct Widened<int64_t> {
    using Type = Int128;
};
template <>
struct Widened<uint64_t> {
    using Type = Uint128;
};
/// Twice the bits: holds every product.
template <class T>
using Wide = typename Widened<T>::Type;

}  // namespace nvfp4r::sim
