#include "sim/engine/matrix_descriptor.hpp"

#include <fmt/format.h>

#include <cstring>

#include "sim/engine/async.hpp"

namespace nvfp4r::sim {
namespace {

constexpr uint32_t kChunk = 16;        // bytes: the unit of every address field, and what swizzles keep together
constexpr uint32_t kGroupRows = 8;     // rows of a core matrix
constexpr uint32_t kAddressBits = 14;  // of the start, leading and stride fields

uint32_t field(uint64_t bits, uint32_t low, uint32_t count) {
    return static_cast<uint32_t>(bits >> low & ((uint64_t{1} << count) - 1));
}

[[noreturn]] void refuse(uint64_t bits, const char* what, const char* name, uint32_t value, const char* why) {
    throw Fault(FindingKind::illegal_descriptor,
                fmt::format("matrix descriptor of {} {:#018x}: field '{}' is {}: {}", what, bits, name, value, why));
}

void must_be_zero(uint64_t bits, const char* what, uint32_t low, uint32_t count) {
    if (const uint32_t value = field(bits, low, count))
        refuse(bits, what, fmt::format("reserved bits {}-{}", low, low + count - 1).c_str(), value, "must be 0");
}

MatrixDescriptor common_fields(uint64_t bits, const char* what) {
    must_be_zero(bits, what, 14, 2);
    must_be_zero(bits, what, 30, 2);
    MatrixDescriptor d;
    d.start = field(bits, 0, kAddressBits) * kChunk;
    d.leading = field(bits, 16, kAddressBits) * kChunk;
    d.stride = field(bits, 32, kAddressBits) * kChunk;
    d.base_offset = field(bits, 49, 3);
    return d;
}

// XOR of chunk bits with row bits of the absolute address, less the base offset (measured for wgmma).
uint32_t swizzle(const MatrixDescriptor& d, uint32_t linear) {
    if (d.span == 0) return linear;
    const uint32_t phase = (linear >> 7) - d.base_offset;
    if (d.atom32) return linear ^ ((phase & 3u) << 5);
    return linear ^ ((phase & (d.span / kChunk - 1)) << 4);
}

const uint8_t* read_chunks(const OperandReader& reader, uint32_t offset, uint32_t bytes) {
    const Machine::Place place = shared_place(*reader.cta, offset, bytes, 1, reader.instr);
    touch(reader.cta->machine(), reader.actor, place, bytes, reads(Proxy::async, reader.instr));
    return place.bytes;
}

}  // namespace

MatrixDescriptor decode_wgmma_descriptor(uint64_t bits, const char* what) {
    MatrixDescriptor d = common_fields(bits, what);
    must_be_zero(bits, what, 46, 3);
    must_be_zero(bits, what, 52, 10);
    constexpr uint32_t kSpans[] = {0, 128, 64, 32};
    d.span = kSpans[field(bits, 62, 2)];
    if (d.span == 0 && d.base_offset != 0)
        refuse(bits, what, "base offset", d.base_offset, "must be 0 without a swizzle");
    return d;
}

MatrixDescriptor decode_tcgen05_descriptor(uint64_t bits, const char* what) {
    MatrixDescriptor d = common_fields(bits, what);
    if (const uint32_t version = field(bits, 46, 3); version != 1)
        refuse(bits, what, "constant 46-48", version, "must be 0b001 (a wgmma descriptor has 0)");
    if (d.base_offset != 0)
        refuse(bits, what, "base offset", d.base_offset, "no source says what tcgen05 does with it; align the tile");
    if (field(bits, 52, 1))
        refuse(bits, what, "leading dimension mode", 1, "absolute addresses are for K = 96 of sm_103a, not modelled");
    must_be_zero(bits, what, 53, 8);
    switch (const uint32_t mode = field(bits, 61, 3)) {
        case 0: break;
        case 1: d.span = 128, d.atom32 = true; break;
        case 2: d.span = 128; break;
        case 4: d.span = 64; break;
        case 6: d.span = 32; break;
        default: refuse(bits, what, "swizzle", mode, "0, 1, 2, 4 and 6 are defined");
    }
    return d;
}

uint32_t k_major_address(const MatrixDescriptor& d, uint32_t row, uint32_t k_byte) {
    const uint32_t group = d.start + row / kGroupRows * d.stride;
    if (d.span == 0) return group + k_byte / kChunk * d.leading + row % kGroupRows * kChunk + k_byte % kChunk;
    return swizzle(d, group + row % kGroupRows * d.span + k_byte);
}

uint32_t mn_major_address(const MatrixDescriptor& d, uint32_t chunk, uint32_t k) {
    const uint32_t in_group = k % kGroupRows, group = k / kGroupRows;
    if (d.span == 0) return d.start + chunk * d.stride + in_group * kChunk + group * d.leading;
    const uint32_t per_span = d.span / kChunk;
    return swizzle(
        d, d.start + chunk % per_span * kChunk + chunk / per_span * d.leading + in_group * d.span + group * d.stride);
}

std::vector<uint8_t> read_k_major(const OperandReader& reader, const MatrixDescriptor& d, uint32_t rows,
                                  uint32_t row_bytes, uint32_t first_row) {
    std::vector<uint8_t> out(uint64_t{rows} * row_bytes);
    for (uint32_t row = 0; row < rows; ++row) {
        uint8_t* to = out.data() + uint64_t{row} * row_bytes;
        const uint32_t first = k_major_address(d, first_row + row, 0);
        if (row_bytes == kChunk) {
            std::memcpy(to, read_chunks(reader, first, kChunk), kChunk);
            continue;
        }
        // Two chunks side by side, in either order, are one access.
        const uint32_t second = k_major_address(d, first_row + row, kChunk);
        if (second == first + kChunk) {
            std::memcpy(to, read_chunks(reader, first, 2 * kChunk), 2 * kChunk);
        } else if (first == second + kChunk) {
            const uint8_t* pair = read_chunks(reader, second, 2 * kChunk);
            std::memcpy(to, pair + kChunk, kChunk);
            std::memcpy(to + kChunk, pair, kChunk);
        } else {
            std::memcpy(to, read_chunks(reader, first, kChunk), kChunk);
            std::memcpy(to + kChunk, read_chunks(reader, second, kChunk), kChunk);
        }
    }
    return out;
}

std::vector<uint8_t> read_mn_major(const OperandReader& reader, const MatrixDescriptor& d, uint32_t rows,
                                   uint32_t first) {
    constexpr uint32_t kElements = kChunk / 2;  // 16-bit elements of a chunk
    constexpr uint32_t kSteps = 16;             // k of one instruction
    std::vector<uint8_t> out(uint64_t{rows} * kSteps * 2);
    for (uint32_t chunk = 0; chunk < rows / kElements; ++chunk)
        for (uint32_t k = 0; k < kSteps; ++k) {
            const uint8_t* from = read_chunks(reader, mn_major_address(d, first / kElements + chunk, k), kChunk);
            for (uint32_t e = 0; e < kElements; ++e)
                std::memcpy(&out[((chunk * kElements + e) * kSteps + k) * 2], from + 2 * e, 2);
        }
    return out;
}

}  // namespace nvfp4r::sim
