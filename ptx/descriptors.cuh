// The words that tell tcgen05 where operands lie and what to multiply, from named fields. The assembler checks none of
// them (PTX ISA 9.0, 9.7.16.4), so every field is asserted here.
#pragma once

#include "router_params.h"

namespace nvfp4r {

/// Shared-memory matrix descriptor (9.7.16.4.1). Offsets are in bytes.
struct MatrixDescriptor {
    unsigned address;
    unsigned leading_offset;  // K-major without swizzle: between 16-byte columns; ignored under a swizzle
    unsigned stride_offset;   // between groups of eight rows
    enum class Swizzle : unsigned { None = 0, B128 = 2, B64 = 4, B32 = 6 } swizzle;
};

constexpr unsigned kDescriptorUnit = 16;  // addresses and offsets are stored in units of 16 bytes

__host__ __device__ constexpr unsigned long long encode(const MatrixDescriptor& m) {
    constexpr unsigned kAddressMask = 0x3ffff;           // 18 bits of shared address
    constexpr unsigned long long kVersion = 1ull << 46;  // constant 0b001 in bits 46..48
    return (m.address & kAddressMask) / kDescriptorUnit |
           static_cast<unsigned long long>(m.leading_offset / kDescriptorUnit) << 16 |
           static_cast<unsigned long long>(m.stride_offset / kDescriptorUnit) << 32 | kVersion |
           static_cast<unsigned long long>(m.swizzle) << 61;
}

/// A step along K inside a swizzle atom moves the start address alone: the swizzle looks at row bits, which do not change
/// (9.7.16.5, and isa notes of CUTLASS' DescriptorIterator).
__host__ __device__ constexpr unsigned long long advance(unsigned long long descriptor, unsigned bytes) {
    return descriptor + bytes / kDescriptorUnit;
}

/// Operand tiles: rows of 128 bytes, eight to a 1024-byte atom, TMA's SWIZZLE_128B.
inline constexpr unsigned kSwizzleRow = 128;
inline constexpr unsigned kSwizzleAtom = 8 * kSwizzleRow;
__host__ __device__ constexpr unsigned long long swizzled_tile(unsigned address) {
    return encode({address, 0, kSwizzleAtom, MatrixDescriptor::Swizzle::B128});
}
static_assert(swizzled_tile(0) == (2ull << 61 | 1ull << 46 | 64ull << 32),
              "K-major 128-byte swizzle, dense groups of eight rows");

/// Byte of a swizzled tile: the 16-byte chunk index is XORed with the row in its atom (9.7.16.3.3). Tiles start at
/// multiples of 1024 bytes, so the row bits are those of the absolute address.
__host__ __device__ constexpr unsigned swizzled_offset(unsigned row, unsigned byte) {
    return row * kSwizzleRow + (byte ^ (row % 8 * 16));
}

/// One atom of scales for tcgen05.cp.32x128b: 32 rows of 16 bytes, no swizzle.
static_assert(kScaleAtom == 32 * 16, "32 rows of 16 bytes");
__host__ __device__ constexpr unsigned long long scale_atom(unsigned address) {
    return encode({address, 0, 8 * 16, MatrixDescriptor::Swizzle::None});
}

/// wgmma's own matrix descriptor (9.7.15.5.1.2.2) of a K-major tile in the 128-byte swizzle, its rows in atoms of
/// 8 x 128 bytes one after the other, the first at a multiple of 1024 bytes.
__host__ __device__ constexpr unsigned long long wgmma_swizzled_tile(unsigned address) {
    constexpr unsigned long long kSwizzle128 = 1ull << 62;
    return (address & 0x3ffffu) / kDescriptorUnit |
           static_cast<unsigned long long>(kSwizzleAtom / kDescriptorUnit) << 32 | kSwizzle128;
}

/// Instruction descriptor (9.7.16.4.2), dense, K-major, no negation.
enum class Kind : unsigned { Mxf4nvf4, Bf16 };
template <Kind kKind>
__host__ __device__ constexpr unsigned instruction_descriptor(unsigned m, unsigned n) {
    if constexpr (kKind == Kind::Mxf4nvf4) {
        constexpr unsigned kE2m1 = 1;  // in the mxf4 kinds; 5 in f8f6f4
        constexpr unsigned kUe4m3 = 0;
        return kE2m1 << 7 | kE2m1 << 10 | n / 8 << 17 | kUe4m3 << 23 | m / 128 << 27;
    } else {
        constexpr unsigned kF32 = 1, kBf16 = 1;
        return kF32 << 4 | kBf16 << 7 | kBf16 << 10 | n / 8 << 17 | m / 16 << 24;
    }
}
static_assert(instruction_descriptor<Kind::Mxf4nvf4>(128, 8) == 0x08020480, "NVFP4, M 128, N 8");
static_assert(instruction_descriptor<Kind::Mxf4nvf4>(128, 256) == 0x08400480, "NVFP4, M 128, N 256");

}  // namespace nvfp4r
