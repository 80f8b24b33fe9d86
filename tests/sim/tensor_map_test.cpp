// cuTensorMapEncodeTiled's accept and refuse rules: measured on an H200 for sm_90, cuda.h for what sm_100 adds.
#include <catch2/catch.hpp>
#include <cstring>

#include "sim/engine/tensor_box.hpp"

using namespace nvfp4r::sim;

namespace {

constexpr uint32_t kU8 = 0, kU32 = 2, kMapF16 = 6, kU4Align8 = 13, kU4Align16 = 14, kU6Align16 = 15;

// A legal 2-D map of 64 x 64 u32 that a test changes in one place.
struct Request {
    TensorMapRequest r;
    uint64_t dims[6] = {64, 64, 4, 4, 4, 4};
    uint64_t strides[5] = {256, 16384, 65536, 262144, 1048576};
    uint32_t box[6] = {16, 8, 1, 1, 1, 1};
    uint32_t element_strides[6] = {1, 1, 1, 1, 1, 1};

    Request() {
        r.type = kU32;
        r.rank = 2;
        r.address = 0x1000;
        r.dims = dims;
        r.strides = strides;
        r.box = box;
        r.element_strides = element_strides;
    }
    bool accepted(uint32_t sm = 90) {
        TensorMap map{};
        return encode_tensor_map(r, sm, map).empty();
    }
};

}  // namespace

TEST_CASE("tensor map: data types and ranks that the driver takes", "[sim]") {
    for (uint32_t type = 0; type <= 16; ++type) {
        Request q;
        q.r.type = type;
        CAPTURE(type);
        CHECK(q.accepted(90) == (type <= 12));
    }
    for (uint32_t rank = 0; rank <= 6; ++rank) {
        Request q;
        q.r.rank = rank;
        CAPTURE(rank);
        CHECK(q.accepted() == (rank >= 1 && rank <= 5));
    }
}

TEST_CASE("tensor map: addresses, dimensions and strides that the driver takes", "[sim]") {
    for (const auto& [address, ok] : {std::pair<uint64_t, bool>{0, true}, {16, true}, {0x1008, false}}) {
        Request q;
        q.r.address = address;
        CHECK(q.accepted() == ok);
    }
    for (const auto& [dim, ok] :
         {std::pair<uint64_t, bool>{0, false}, {1, true}, {13, true}, {1ull << 32, true}, {(1ull << 32) + 1, false}}) {
        Request q;
        q.dims[0] = dim;
        CHECK(q.accepted() == ok);
    }
    for (const auto& [stride, ok] : {std::pair<uint64_t, bool>{0, true},
                                     {16, true},
                                     {1040, true},
                                     {(1ull << 40) - 16, true},
                                     {1032, false},
                                     {1ull << 40, false}}) {
        Request q;
        q.strides[0] = stride;
        CHECK(q.accepted() == ok);
    }
}

TEST_CASE("C20 tensor map: box, inner bytes and swizzle spans that the driver takes", "[sim]") {
    for (const auto& [box, ok] :
         {std::pair<uint32_t, bool>{0, false}, {1, true}, {256, true}, {257, false}, {272, false}}) {
        Request q;
        q.box[1] = box;
        CHECK(q.accepted() == ok);
    }
    for (uint32_t bytes = 8; bytes <= 256; bytes += 8)
        for (uint32_t swizzle = 0; swizzle <= 7; ++swizzle) {
            Request q;
            q.r.type = kU8;
            q.r.swizzle = swizzle;
            q.box[0] = bytes;
            const uint32_t span[] = {256, 32, 64, 128};
            CAPTURE(bytes, swizzle);
            CHECK(q.accepted() == (bytes % 16 == 0 && swizzle <= 3 && bytes <= span[swizzle & 3]));
        }
    Request whole;  // 64 KiB
    whole.box[0] = 64;
    whole.box[1] = 256;
    CHECK(whole.accepted());
    whole.box[0] = 256;  // 256 KiB
    CHECK_FALSE(whole.accepted());
}

TEST_CASE("tensor map: element strides, interleave, fill and promotion that the driver takes", "[sim]") {
    for (const uint32_t index : {0u, 1u})
        for (const auto& [stride, ok] :
             {std::pair<uint32_t, bool>{0, false}, {1, true}, {2, true}, {8, true}, {9, false}}) {
            Request q;
            q.element_strides[index] = stride;
            CHECK(q.accepted() == ok);
        }
    Request strided;  // the box counts, not the loaded half
    strided.r.type = kU8;
    strided.box[0] = 256;
    strided.element_strides[0] = 2;
    CHECK(strided.accepted());
    strided.r.swizzle = 3;
    CHECK_FALSE(strided.accepted());

    for (uint32_t rank = 2; rank <= 5; ++rank)
        for (uint32_t interleave = 1; interleave <= 3; ++interleave) {
            Request q;
            q.r.rank = rank;
            q.r.interleave = interleave;
            CHECK(q.accepted() == (rank >= 3 && interleave <= 2));
        }
    Request wide;
    wide.r.rank = 3;
    wide.r.interleave = 2;
    wide.r.address = 0x1010;
    CHECK_FALSE(wide.accepted());
    wide.r.address = 0x1000;
    wide.strides[0] = 48;
    CHECK_FALSE(wide.accepted());

    for (const auto& [type, fill, ok] :
         {std::tuple<uint32_t, uint32_t, bool>{kMapF16, 1, true}, {kU8, 1, false}, {kMapF16, 2, false}}) {
        Request q;
        q.r.type = type;
        q.box[0] = 16;
        q.r.oob_fill = fill;
        CHECK(q.accepted() == ok);
    }
    for (uint32_t promotion = 0; promotion <= 4; ++promotion) {
        Request q;
        q.r.l2_promotion = promotion;
        CHECK(q.accepted() == (promotion <= 3));
    }
}

TEST_CASE("tensor map: the 4- and 6-bit types of sm_100", "[sim]") {
    Request q;
    q.r.type = kU4Align8;
    q.dims[0] = 512;
    q.box[0] = 256;  // 128 bytes
    q.r.swizzle = 3;
    CHECK(q.accepted(100));
    CHECK_FALSE(q.accepted(90));
    q.r.swizzle = 2;
    CHECK_FALSE(q.accepted(100));
    q.r.swizzle = 3;
    q.dims[0] = 511;
    CHECK_FALSE(q.accepted(100));

    for (const uint32_t type : {kU4Align16, kU6Align16}) {
        Request padded;
        padded.r.type = type;
        padded.dims[0] = 256;
        padded.box[0] = 128;
        CHECK(padded.accepted(100));
        padded.box[0] = 64;
        CHECK_FALSE(padded.accepted(100));
        padded.box[0] = 128;
        padded.dims[0] = 192;
        CHECK_FALSE(padded.accepted(100));
        padded.dims[0] = 256;
        padded.r.address = 0x1010;
        CHECK_FALSE(padded.accepted(100));
        padded.r.address = 0x1000;
        padded.r.swizzle = 1;
        CHECK_FALSE(padded.accepted(100));
    }
}

TEST_CASE("C16 tensor map: bytes that this simulator did not make are refused", "[sim]") {
    Request q;
    TensorMap map{};
    REQUIRE(encode_tensor_map(q.r, 90, map).empty());
    uint8_t bytes[sizeof(map)];
    std::memcpy(bytes, &map, sizeof(map));
    TensorMap back{};
    CHECK(read_tensor_map(bytes, back));
    for (size_t i = 0; i < sizeof(bytes); ++i) {
        bytes[i] ^= 1;
        CHECK_FALSE(read_tensor_map(bytes, back));
        bytes[i] ^= 1;
    }
}

TEST_CASE("tensor map: bit 21 of the second word, which CUTLASS clears in small tensors' maps, carries nothing",
          "[sim]") {
    Request q;
    TensorMap map{};
    REQUIRE(encode_tensor_map(q.r, 100, map).empty());
    uint64_t words[sizeof(map) / 8];
    std::memcpy(words, &map, sizeof(map));
    words[1] &= ~(uint64_t{1} << 21);
    TensorMap back{};
    CHECK(read_tensor_map(reinterpret_cast<const uint8_t*>(words), back));
}

TEST_CASE("TFLOAT32 loads round to ten fraction bits, ties to even", "[sim]") {
    const std::pair<uint32_t, uint32_t> words[] = {
        {0x7f800001, 0x7fffe000}, {0xffc00000, 0x7fffe000}, {0x7f7fffff, 0x7f800000}, {0x007fffff, 0x00800000},
        {0x3f801000, 0x3f800000}, {0x3f803000, 0x3f804000}, {0x3f801001, 0x3f802000}, {0x80000000, 0x80000000}};
    for (const auto& [in, out] : words) CHECK(round_tf32(in) == out);
}
