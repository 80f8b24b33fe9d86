// The simulated CUtensorMap: 128 bytes, tagged, of a layout of our own. A real device cannot use it, and a real map is
// refused here: the driver's own bytes are undocumented, and a near-copy would fail in ways nobody could see.
#pragma once

#include <cstdint>
#include <string>

namespace nvfp4r::sim {

inline constexpr uint32_t kMaxTensorRank = 5;

/// CUtensorMapDataType.
enum class TensorType : uint8_t {
    u8,
    u16,
    u32,
    s32,
    u64,
    s64,
    f16,
    f32,
    f64,
    bf16,
    f32_ftz,
    tf32,
    tf32_ftz,
    u4_align8,   // 16U4_ALIGN8B: packed, two elements a byte
    u4_align16,  // 16U4_ALIGN16B: 8 bytes of data, 8 of padding for each 16 elements in shared memory
    u6_align16   // 16U6_ALIGN16B: 12 bytes of data, 4 of padding
};

/// CUtensorMapSwizzle.
enum class TensorSwizzle : uint8_t { none, b32, b64, b128, b128_atom32, b128_atom32_flip8, b128_atom64 };

/// CUtensorMapInterleave, CUtensorMapFloatOOBfill.
enum class TensorInterleave : uint8_t { none, b16, b32 };
enum class TensorFill : uint8_t { zero, nan };

struct TensorMap {
    uint64_t tag;
    uint64_t zero;                         // CUTLASS clears a bit of this word in maps that drivers up to 13.1 made
    uint64_t address;                      // of element 0; a device address is a host address
    uint64_t dims[kMaxTensorRank];         // elements, innermost first
    uint64_t strides[kMaxTensorRank - 1];  // bytes between elements of dimension i + 1
    uint16_t box[kMaxTensorRank];          // elements
    uint8_t element_strides[kMaxTensorRank];
    TensorType type;
    uint8_t rank;
    TensorInterleave interleave;
    TensorSwizzle swizzle;
    TensorFill fill;
    uint8_t l2_promotion;
    uint8_t unused[3];
    uint64_t checksum;  // of the bytes before it
};
static_assert(sizeof(TensorMap) == 128, "a CUtensorMap is 128 bytes");

/// cuTensorMapEncodeTiled's arguments, as plain numbers.
struct TensorMapRequest {
    uint32_t type = 0;
    uint32_t rank = 0;
    uint64_t address = 0;
    const uint64_t* dims = nullptr;             // [rank]
    const uint64_t* strides = nullptr;          // [rank - 1] bytes
    const uint32_t* box = nullptr;              // [rank]
    const uint32_t* element_strides = nullptr;  // [rank]
    uint32_t interleave = 0;
    uint32_t swizzle = 0;
    uint32_t l2_promotion = 0;
    uint32_t oob_fill = 0;
};

/// Writes the map, or says why the driver of a GPU `sm` answers CUDA_ERROR_INVALID_VALUE (then `map` is unchanged).
/// Empty: accepted.
std::string encode_tensor_map(const TensorMapRequest& request, uint32_t sm, TensorMap& map);

/// Reads 128 bytes that a kernel passes as a tensor map; false when this simulator did not make them.
bool read_tensor_map(const uint8_t* bytes, TensorMap& map);

/// Bits of one element in global memory.
uint32_t element_bits(TensorType type);
/// Name as in CUtensorMapDataType, for messages.
const char* tensor_type_name(TensorType type);

}  // namespace nvfp4r::sim
