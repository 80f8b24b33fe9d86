// The gate as the Blackwell kernel's TMA reads it: operand rows for a tensor map, scale atoms for bulk copies.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "format/nvfp4.hpp"

namespace nvfp4r {

/// All planes one after the other. Rows are padded with zeros to blocks of 128 experts and to whole 128-byte columns, so
/// that every box of the tensor map lies inside.
struct GateImage {
    uint64_t pitch = 0;                        // bytes from row to row
    uint64_t rows = 0;                         // of all planes
    std::vector<uint8_t> operands;             // [rows, pitch]: packed e2m1 codes, or bf16 values
    std::vector<std::vector<uint8_t>> scales;  // NVFP4, a plane each: [128-expert block][64-wide K step][512-byte atom]
};

GateImage image_of_terms(std::span<const Nvfp4Matrix> terms);

/// Values are rounded to bf16. weight: [experts, hidden].
GateImage image_of_bf16(std::span<const float> weight, uint32_t experts, uint32_t hidden);

}  // namespace nvfp4r
