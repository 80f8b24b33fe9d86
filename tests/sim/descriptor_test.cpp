// Matrix and instruction descriptors: fields, refusals one by one, and the canonical layouts (PTX ISA 9.7.16.3-4).
#include <catch2/catch.hpp>

#include "sim/engine/instruction_descriptor.hpp"
#include "sim/engine/matrix_descriptor.hpp"

using namespace nvfp4r::sim;

namespace {

constexpr uint64_t kTcgen05Constant = uint64_t{1} << 46;

// K-major, 128-byte swizzle, dense 8-row groups.
uint64_t swizzled_descriptor(uint32_t start) {
    return uint64_t{2} << 61 | kTcgen05Constant | uint64_t{1024 >> 4} << 32 | start >> 4;
}

// The text of the fault must name the field and its value.
template <class Decode>
void refuses(Decode decode, const std::string& field, uint32_t value) {
    try {
        decode();
        FAIL("accepted: " << field << " " << value);
    } catch (const Fault& fault) {
        CHECK(fault.kind() == FindingKind::illegal_descriptor);
        CHECK_THAT(fault.what(), Catch::Contains("'" + field + "' is " + std::to_string(value)));
    }
}

constexpr MmaInstruction kNvfp4{MmaKind::mxf4nvf4, 1, ScaleVector::four};
constexpr MmaInstruction kNvfp4Pair{MmaKind::mxf4nvf4, 2, ScaleVector::four};
constexpr MmaInstruction kTwoScales{MmaKind::mxf4nvf4, 1, ScaleVector::two};
constexpr MmaInstruction kMxf4{MmaKind::mxf4, 1, ScaleVector::two};
constexpr MmaInstruction kF16{MmaKind::f16, 1, ScaleVector::none};
constexpr MmaInstruction kF16Pair{MmaKind::f16, 2, ScaleVector::none};

constexpr uint32_t kNvfp4Base = 0x08000480u;  // M = 128, dense, UE4M3 scales
constexpr uint32_t kBf16Base = 1u << 4 | 1u << 7 | 1u << 10 | 8u << 24;

void refuses_idesc(uint32_t bits, const MmaInstruction& instruction, const char* field, uint32_t value) {
    CAPTURE(bits);
    refuses([&] { decode_instruction_descriptor(bits, instruction); }, field, value);
}

}  // namespace

TEST_CASE("instruction descriptor: NVFP4 words of known shapes", "[sim]") {
    const std::pair<uint32_t, uint32_t> words[] = {
        {8, 0x08020480}, {16, 0x08040480}, {128, 0x08200480}, {256, 0x08400480}};
    for (const auto& [n, bits] : words) {
        const InstructionDescriptor d = decode_instruction_descriptor(bits, kNvfp4);
        CHECK(d.m == 128);
        CHECK(d.n == n);
        CHECK_FALSE(d.ue8m0);
    }
    const InstructionDescriptor dense = decode_instruction_descriptor(kBf16Base | 2u << 17, kF16);
    CHECK(dense.m == 128);
    CHECK(dense.n == 16);
    CHECK(dense.f32_result);
    CHECK(dense.a_bf16);
}

TEST_CASE("instruction descriptor: illegal fields of the block-scaled kinds, one by one", "[sim]") {
    const uint32_t good = kNvfp4Base | 2u << 17;
    refuses_idesc(good | 1u, kNvfp4, "reserved bits 0-1", 1);
    refuses_idesc(good | 1u << 2, kNvfp4, "sparsity", 1);
    refuses_idesc(good | 1u << 3, kNvfp4, "reserved bits 3-3", 1);
    refuses_idesc(good | 2u << 4, kNvfp4, "scale factor B id", 2);
    refuses_idesc(good | 2u << 29, kNvfp4, "scale factor A id", 2);
    refuses_idesc(good | 1u << 6, kNvfp4, "reserved bits 6-6", 1);
    refuses_idesc((good & ~(7u << 7)) | 5u << 7, kNvfp4, "A type", 5);
    refuses_idesc((good & ~(3u << 10)) | 2u << 10, kNvfp4, "B type", 2);
    refuses_idesc(good | 1u << 12, kNvfp4, "reserved bits 12-12", 1);
    refuses_idesc(good | 1u << 15, kNvfp4, "transpose A", 1);
    refuses_idesc(good | 1u << 16, kNvfp4, "transpose B", 1);
    refuses_idesc(good & ~(63u << 17), kNvfp4, "N", 0);
    refuses_idesc((good & ~(63u << 17)) | 33u << 17, kNvfp4, "N", 264);
    refuses_idesc(good | 1u << 24, kNvfp4, "reserved bits 24-26", 1);
    refuses_idesc((good & ~(3u << 27)) | 2u << 27, kNvfp4, "M", 256);
    refuses_idesc(good & ~(3u << 27), kNvfp4, "M", 0);
    refuses_idesc(good | 1u << 31, kNvfp4, "K", 1);
    refuses_idesc(kNvfp4Base | 1u << 17, kNvfp4Pair, "N", 8);
    refuses_idesc(good, kTwoScales, "scale type", 0);
    refuses_idesc(good, kMxf4, "scale type", 0);
    refuses_idesc(good | 1u << 23 | 1u << 4, kTwoScales, "scale factor B id", 1);
    CHECK(decode_instruction_descriptor(good | 1u << 23 | 2u << 4, kTwoScales).sfb_id == 2);
}

TEST_CASE("instruction descriptor: illegal fields of kind::f16, one by one", "[sim]") {
    const uint32_t good = kBf16Base | 2u << 17;
    refuses_idesc(good | 1u << 3, kF16, "saturate", 1);
    refuses_idesc((good & ~(3u << 4)) | 2u << 4, kF16, "D type", 2);
    refuses_idesc((good & ~(7u << 7)) | 2u << 7, kF16, "A type", 2);
    refuses_idesc((good & ~(7u << 10)) | 3u << 10, kF16, "B type", 3);
    refuses_idesc(good & ~(3u << 4), kF16, "D type", 0);  // bf16 operands, f16 result
    refuses_idesc(good | 1u << 23, kF16, "reserved bits 23-23", 1);
    refuses_idesc(good | 1u << 29, kF16, "reserved bits 29-29", 1);
    refuses_idesc(good | 1u << 30, kF16, "max shift", 1);
    refuses_idesc((good & ~(31u << 24)) | 2u << 24, kF16, "M", 32);
    refuses_idesc((good & ~(31u << 24)) | 4u << 24, kF16Pair, "M", 64);
    CHECK(decode_instruction_descriptor((good & ~(31u << 24)) | 4u << 24, kF16).m == 64);
}

TEST_CASE("matrix descriptor: illegal fields of tcgen05, one by one", "[sim]") {
    const uint64_t good = swizzled_descriptor(0x800);
    const auto decode = [](uint64_t bits) { return [bits] { decode_tcgen05_descriptor(bits, "A"); }; };
    CHECK(decode_tcgen05_descriptor(good, "A").span == 128);
    refuses(decode(good | 1u << 14), "reserved bits 14-15", 1);
    refuses(decode(good | 1u << 30), "reserved bits 30-31", 1);
    refuses(decode(good & ~(uint64_t{7} << 46)), "constant 46-48", 0);
    refuses(decode(good | uint64_t{3} << 49), "base offset", 3);
    refuses(decode(good | uint64_t{1} << 52), "leading dimension mode", 1);
    refuses(decode(good | uint64_t{1} << 53), "reserved bits 53-60", 1);
    for (const uint32_t mode : {3u, 5u, 7u})
        refuses(decode((good & ~(uint64_t{7} << 61)) | uint64_t{mode} << 61), "swizzle", mode);
}

TEST_CASE("matrix descriptor: a wgmma descriptor is not a tcgen05 one", "[sim]") {
    const uint64_t wgmma = uint64_t{1} << 62 | uint64_t{64} << 32 | 0x80;
    CHECK(decode_wgmma_descriptor(wgmma, "A").span == 128);
    refuses([=] { decode_tcgen05_descriptor(wgmma, "A"); }, "constant 46-48", 0);
    refuses([] { decode_wgmma_descriptor(swizzled_descriptor(0x800), "A"); }, "reserved bits 46-48", 1);
}

TEST_CASE("C13 matrix descriptor: the swizzle takes absolute address bits", "[sim]") {
    // Row r of a dense 128-byte swizzled tile, chunk c: 16-byte chunks are XORed with address bits 7-9.
    for (const uint32_t start : {0x800u, 0x880u, 0xb80u}) {
        const MatrixDescriptor d = decode_tcgen05_descriptor(swizzled_descriptor(start), "A");
        for (uint32_t row = 0; row < 16; ++row)
            for (uint32_t chunk = 0; chunk < 2; ++chunk) {
                const uint32_t linear = start + row * 128 + chunk * 16;
                CHECK(k_major_address(d, row, chunk * 16) == (linear ^ (linear >> 7 & 7u) << 4));
            }
    }
    // Unswizzled core matrices: 8 rows of 16 bytes, LBO along K, SBO along the rows.
    const uint64_t bits = kTcgen05Constant | uint64_t{256 >> 4} << 32 | uint64_t{128 >> 4} << 16 | 0x800 >> 4;
    const MatrixDescriptor plain = decode_tcgen05_descriptor(bits, "A");
    CHECK(k_major_address(plain, 11, 21) == 0x800 + 256 + 3 * 16 + 128 + 5);
}
