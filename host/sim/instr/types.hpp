// Data types as instructions name them (PTX ISA 5.2).
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/instr/modifiers.hpp"

namespace nvfp4r::sim {

// enumerator (also the modifier), bits
// clang-format off
#define NVFP4R_SIM_DATA_TYPES(X) \
    X(pred, 1) X(b8, 8) X(u8, 8) X(s8, 8) X(b16, 16) X(u16, 16) X(s16, 16) X(b32, 32) X(u32, 32) X(s32, 32) \
    X(b64, 64) X(u64, 64) X(s64, 64) X(b128, 128) X(f16, 16) X(bf16, 16) X(f32, 32) X(f64, 64) \
    X(f16x2, 32) X(bf16x2, 32) X(u16x2, 32) X(s16x2, 32) X(f32x2, 64) X(tf32, 32) \
    X(e4m3x2, 16) X(e5m2x2, 16) X(e2m1x2, 8) X(e2m3x2, 16) X(e3m2x2, 16) X(ue8m0x2, 16)
// clang-format on

enum class DataType : uint8_t {
    none,
#define X(name, bits) name,
    NVFP4R_SIM_DATA_TYPES(X)
#undef X
};

inline DataType data_type(std::string_view modifier) {
#define X(name, bits) \
    if (modifier == #name) return DataType::name;
    NVFP4R_SIM_DATA_TYPES(X)
#undef X
    return DataType::none;
}

inline uint32_t type_bits(DataType type) {
    switch (type) {
#define X(name, bits) \
    case DataType::name: return bits;
        NVFP4R_SIM_DATA_TYPES(X)
#undef X
        case DataType::none: break;
    }
    return 0;
}

inline bool is_signed(DataType type) {
    return type == DataType::s8 || type == DataType::s16 || type == DataType::s32 || type == DataType::s64;
}

inline bool is_unsigned(DataType type) {
    return type == DataType::u8 || type == DataType::u16 || type == DataType::u32 || type == DataType::u64;
}

inline bool is_bits(DataType type) {
    return type == DataType::b8 || type == DataType::b16 || type == DataType::b32 || type == DataType::b64;
}

/// Takes the next modifier, which must be a data type.
inline DataType take_type(Decoder& decoder, Modifiers& modifiers) {
    const std::string_view text = modifiers.next("the type");
    const DataType type = data_type(text);
    if (type == DataType::none) decoder.refuse("modifier ." + std::string(text) + " is not modelled here");
    return type;
}

}  // namespace nvfp4r::sim
