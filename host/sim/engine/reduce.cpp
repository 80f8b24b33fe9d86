#include "sim/engine/reduce.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "format/number.hpp"

namespace nvfp4r::sim {
namespace {

constexpr std::string_view kOpNames[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor"};
constexpr std::string_view kTypeNames[] = {"u32", "s32", "u64", "s64", "b32", "b64", "f16", "bf16", "f32", "f64"};

template <class T>
T combine_integer(ReduceOp op, T a, T b) {
    switch (op) {
        case ReduceOp::add: return static_cast<T>(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b));
        case ReduceOp::min: return std::min(a, b);
        case ReduceOp::max: return std::max(a, b);
        case ReduceOp::inc: return a >= b ? T{0} : static_cast<T>(a + 1);
        case ReduceOp::dec: return a == 0 || a > b ? b : static_cast<T>(a - 1);
        case ReduceOp::bit_and: return a & b;
        case ReduceOp::bit_or: return a | b;
        case ReduceOp::bit_xor: break;
    }
    return a ^ b;
}

// A NaN loses to a number; min(+0, -0) is -0 (measured for min and max of f32).
float combine_float(ReduceOp op, float a, float b) {
    if (op == ReduceOp::add) return a + b;
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    if (a == b) return std::signbit(a) == (op == ReduceOp::min) ? a : b;
    return (a < b) == (op == ReduceOp::min) ? a : b;
}

template <class T, class Combine>
void each(uint8_t* to, const uint8_t* from, size_t bytes, Combine combine) {
    for (size_t i = 0; i + sizeof(T) <= bytes; i += sizeof(T)) {
        T a, b;
        std::memcpy(&a, to + i, sizeof(T));
        std::memcpy(&b, from + i, sizeof(T));
        a = combine(a, b);
        std::memcpy(to + i, &a, sizeof(T));
    }
}

template <class T>
void each_integer(ReduceOp op, uint8_t* to, const uint8_t* from, size_t bytes) {
    each<T>(to, from, bytes, [op](T a, T b) { return combine_integer<T>(op, a, b); });
}

}  // namespace

std::optional<ReduceOp> reduce_op(std::string_view name) {
    const auto* at = std::find(std::begin(kOpNames), std::end(kOpNames), name);
    if (at == std::end(kOpNames)) return std::nullopt;
    return static_cast<ReduceOp>(at - std::begin(kOpNames));
}

std::optional<ReduceType> reduce_type(std::string_view name) {
    const auto* at = std::find(std::begin(kTypeNames), std::end(kTypeNames), name);
    if (at == std::end(kTypeNames)) return std::nullopt;
    return static_cast<ReduceType>(at - std::begin(kTypeNames));
}

uint32_t reduce_bytes(ReduceType type) {
    switch (type) {
        case ReduceType::f16:
        case ReduceType::bf16: return 2;
        case ReduceType::u64:
        case ReduceType::s64:
        case ReduceType::b64:
        case ReduceType::f64: return 8;
        default: return 4;
    }
}

bool reduces_global(ReduceOp op, ReduceType type) {
    using T = ReduceType;
    switch (op) {
        case ReduceOp::add: return type != T::s64 && type != T::b32 && type != T::b64;
        case ReduceOp::min:
        case ReduceOp::max: return type != T::f32 && type != T::f64 && type != T::b32 && type != T::b64;
        case ReduceOp::inc:
        case ReduceOp::dec: return type == T::u32;
        default: return type == T::b32 || type == T::b64;
    }
}

bool reduces_shared(ReduceOp op, ReduceType type) {
    using T = ReduceType;
    switch (op) {
        case ReduceOp::add: return type == T::u32 || type == T::s32 || type == T::u64;
        case ReduceOp::min:
        case ReduceOp::max: return type == T::u32 || type == T::s32;
        case ReduceOp::inc:
        case ReduceOp::dec: return type == T::u32;
        default: return type == T::b32;
    }
}

uint64_t add_f64_at_memory(uint64_t memory, uint64_t operand) {
    constexpr uint64_t kNan = 0xfff8000000000000;  // of infinities of both signs
    const double a = std::bit_cast<double>(memory), b = std::bit_cast<double>(operand);
    if (std::isnan(b)) return operand;
    if (std::isnan(a)) return memory;
    const double sum = a + b;
    return std::isnan(sum) ? kNan : std::bit_cast<uint64_t>(sum);
}

void reduce_elements(ReduceOp op, ReduceType type, uint8_t* to, const uint8_t* from, size_t bytes) {
    switch (type) {
        case ReduceType::u32:
        case ReduceType::b32: return each_integer<uint32_t>(op, to, from, bytes);
        case ReduceType::s32: return each_integer<int32_t>(op, to, from, bytes);
        case ReduceType::u64:
        case ReduceType::b64: return each_integer<uint64_t>(op, to, from, bytes);
        case ReduceType::s64: return each_integer<int64_t>(op, to, from, bytes);
        case ReduceType::f16:
            return each<uint16_t>(to, from, bytes, [op](uint16_t a, uint16_t b) {
                return f32_to_f16(combine_float(op, f16_to_f32(a), f16_to_f32(b)));
            });
        case ReduceType::bf16:
            return each<uint16_t>(to, from, bytes, [op](uint16_t a, uint16_t b) {
                return f32_to_bf16(combine_float(op, bf16_to_f32(a), bf16_to_f32(b)));
            });
        case ReduceType::f32:
            // Subnormals stay, unlike those of atom.add.f32, and against PTX ISA 9.7.9.25.5.2 (measured on H200).
            return each<uint32_t>(to, from, bytes, [](uint32_t a, uint32_t b) {
                constexpr uint32_t kNan = 0x7fffffff;  // the one that f32 arithmetic produces (measured on H200)
                const float sum = std::bit_cast<float>(a) + std::bit_cast<float>(b);
                return std::isnan(sum) ? kNan : std::bit_cast<uint32_t>(sum);
            });
        case ReduceType::f64: return each<uint64_t>(to, from, bytes, add_f64_at_memory);
    }
}

}  // namespace nvfp4r::sim
