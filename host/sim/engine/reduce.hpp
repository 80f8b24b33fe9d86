// Element-wise reductions that bulk copies make in memory (PTX ISA 9.7.9.25.5).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace nvfp4r::sim {

enum class ReduceOp : uint8_t { add, min, max, inc, dec, bit_and, bit_or, bit_xor };
enum class ReduceType : uint8_t { u32, s32, u64, s64, b32, b64, f16, bf16, f32, f64 };

std::optional<ReduceOp> reduce_op(std::string_view name);      // "add", "and" ...
std::optional<ReduceType> reduce_type(std::string_view name);  // "u32", "bf16" ...
uint32_t reduce_bytes(ReduceType type);

/// Which operations exist for a type. In shared memory there are only integers, and 64-bit ones only for add.
bool reduces_global(ReduceOp op, ReduceType type);
bool reduces_shared(ReduceOp op, ReduceType type);

/// to[i] = op(to[i], from[i]) for `bytes` bytes of whole elements; the pointers need no alignment. f32 add flushes
/// subnormals, f16 and bf16 keep them (.noftz).
void reduce_elements(ReduceOp op, ReduceType type, uint8_t* to, const uint8_t* from, size_t bytes);

/// What memory does for add.f64: a NaN stays as it is, the operand's before memory's (measured on H200).
uint64_t add_f64_at_memory(uint64_t memory, uint64_t operand);

}  // namespace nvfp4r::sim
