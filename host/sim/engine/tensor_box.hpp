// Where the elements of a TMA box lie: rows in global memory, their images in shared memory. Measured on an H200.
#pragma once

#include <array>
#include <cstdint>

#include "sim/engine/tensor_map.hpp"

namespace nvfp4r::sim {

using TensorCoords = std::array<int32_t, kMaxTensorRank>;  // elements, innermost first; unused ones are 0

inline constexpr uint32_t kTmaChunk = 16;  // bytes that stay together under every swizzle of 16-byte atoms

/// The box as it is transferred. A row is the innermost dimension; outer dimensions are flattened, dim 1 fastest.
struct BoxShape {
    uint32_t rows = 0;        // after element strides
    uint32_t row_bytes = 0;   // payload of a row; rows * row_bytes is what mbarriers count
    uint32_t pitch = 0;       // bytes between rows in shared memory: the swizzle span, or the dense row
    uint32_t chunk_data = 0;  // payload bytes of each 16-byte chunk (less than 16: padded sub-byte types)
    std::array<uint32_t, kMaxTensorRank> counts{};  // elements transferred in each dimension

    uint64_t bytes() const { return uint64_t{rows} * row_bytes; }
    /// Bytes of shared memory between the first and the last byte that may be touched.
    uint64_t footprint() const { return uint64_t{rows} * pitch; }
};
BoxShape box_shape(const TensorMap& map);

/// The part of a row that lies inside the tensor.
struct BoxRow {
    uint64_t address = 0;  // of the first visible byte
    uint32_t begin = 0;    // its place in the row, bytes
    uint32_t visible = 0;  // bytes; 0: the row is outside
};
BoxRow box_row(const TensorMap& map, const BoxShape& shape, const TensorCoords& coords, uint32_t row);

/// Address of byte `linear` of the dense image under a swizzle. The XOR takes absolute shared address bits.
uint32_t swizzled(uint32_t linear, TensorSwizzle swizzle);

/// f32 bits rounded as a TFLOAT32 load does: 10 fraction bits, nearest even, NaN to 0x7fffe000.
uint32_t round_tf32(uint32_t bits);

}  // namespace nvfp4r::sim
