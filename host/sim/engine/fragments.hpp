// Operand fragments in a warp's registers (PTX ISA 9.7.14.5.7-8, 9.7.15.4): the 16-row tiles that mma.sync and wgmma
// share, decoded for the fused dot-add.
#pragma once

#include <array>
#include <cstring>
#include <vector>

#include "arith/fda.hpp"
#include "sim/program/instr.hpp"

namespace nvfp4r::sim {

inline constexpr uint32_t kFragmentRows = 16;
inline constexpr uint32_t kMaxFragmentK = 32;

/// One row of A or one column of B, decoded.
using FragmentRow = std::array<arith::FdaValue, kMaxFragmentK>;

inline uint32_t element_bytes(arith::FdaType type) {
    return type == arith::FdaType::kF16 || type == arith::FdaType::kBf16 ? 2 : 1;
}

/// Elements of a register, the lowest first: element e of register j of lane l is A[row][k].
/// 16-bit: row l/4 + 8 (j % 2), k = 2 (l % 4) + e + 8 (j / 2); 8-bit: k = 4 (l % 4) + e + 16 (j / 2).
inline void decode_a_register(arith::FdaType type, uint32_t j, const uint64_t* lanes,
                              std::array<FragmentRow, kFragmentRows>& rows) {
    const uint32_t bytes = element_bytes(type), per = 4 / bytes;
    for (uint32_t l = 0; l < kLanes; ++l)
        for (uint32_t e = 0; e < per; ++e) {
            const auto bits = static_cast<uint32_t>(lanes[l] >> (8 * bytes * e)) & ((1u << (8 * bytes)) - 1);
            rows[l / 4 + 8 * (j % 2)][per * (l % 4) + e + 4 * per * (j / 2)] = arith::fda_decode(type, bits);
        }
}

/// Register j of B (mma.sync): column l/4, k = per (l % 4) + e + 4 per j.
inline void decode_b_register(arith::FdaType type, uint32_t j, const uint64_t* lanes,
                              std::array<FragmentRow, 8>& columns) {
    const uint32_t bytes = element_bytes(type), per = 4 / bytes;
    for (uint32_t l = 0; l < kLanes; ++l)
        for (uint32_t e = 0; e < per; ++e) {
            const auto bits = static_cast<uint32_t>(lanes[l] >> (8 * bytes * e)) & ((1u << (8 * bytes)) - 1);
            columns[l / 4][per * (l % 4) + e + 4 * per * j] = arith::fda_decode(type, bits);
        }
}

/// `k` elements from memory, lowest first.
inline FragmentRow decode_row(arith::FdaType type, const uint8_t* bytes, uint32_t k) {
    FragmentRow row;
    for (uint32_t i = 0; i < k; ++i) {
        uint16_t bits = bytes[i];
        if (element_bytes(type) == 2) std::memcpy(&bits, bytes + 2 * i, 2);
        row[i] = arith::fda_decode(type, bits);
    }
    return row;
}

inline void negate_row(FragmentRow& row, uint32_t k) {
    for (uint32_t i = 0; i < k; ++i) row[i].significand = static_cast<int16_t>(-row[i].significand);
}

}  // namespace nvfp4r::sim
