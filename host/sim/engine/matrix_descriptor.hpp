// The 64-bit shared-memory matrix descriptors of wgmma (PTX ISA 9.7.15.5.1.2) and tcgen05 (9.7.16.4.1), field by field,
// and the canonical layouts they describe.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/machine/machine.hpp"

namespace nvfp4r::sim {

struct MatrixDescriptor {
    uint32_t start = 0;    // bytes, window offset
    uint32_t leading = 0;  // bytes
    uint32_t stride = 0;   // bytes
    uint32_t base_offset = 0;
    uint32_t span = 0;    // swizzle width in bytes: 0 (none), 32, 64, 128
    bool atom32 = false;  // 128-byte swizzle of 32-byte atoms
};

/// Both throw Fault(illegal_descriptor) naming the field and its value. `what` names the operand ("A", "scale source").
MatrixDescriptor decode_wgmma_descriptor(uint64_t bits, const char* what);
MatrixDescriptor decode_tcgen05_descriptor(uint64_t bits, const char* what);

/// K-major: byte `k_byte` of row `row`. MN-major: byte of the 16-byte chunk of rows 8c..8c+7 at `k` (16-bit types).
uint32_t k_major_address(const MatrixDescriptor& d, uint32_t row, uint32_t k_byte);
uint32_t mn_major_address(const MatrixDescriptor& d, uint32_t chunk, uint32_t k);

/// Who reads an operand, and for which instruction.
struct OperandReader {
    Cta* cta = nullptr;
    ActorId actor = kNoActor;
    const Instr* instr = nullptr;
};

/// Rows [first, first + rows) of an operand, `row_bytes` (16 or 32) each, row after row, through the async proxy.
std::vector<uint8_t> read_k_major(const OperandReader& reader, const MatrixDescriptor& d, uint32_t rows,
                                  uint32_t row_bytes, uint32_t first = 0);
/// The same of a 16-bit MN-major operand of 16 k, turned around: 32 bytes a row. `first` and `rows`: multiples of 8.
std::vector<uint8_t> read_mn_major(const OperandReader& reader, const MatrixDescriptor& d, uint32_t rows,
                                   uint32_t first = 0);

}  // namespace nvfp4r::sim
