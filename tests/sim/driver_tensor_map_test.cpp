// The driver's refusals as measured on an H200, and the types that only later GPUs take.
#include <cstring>
#include <functional>

#include "driver_session.hpp"

using namespace nvfp4r;
using namespace nvfp4r::test;

namespace {

/// A map that is accepted: a 2-D tensor of 64 x 64 u8 in boxes of 64 x 8.
struct Arguments {
    int type = CU_TENSOR_MAP_DATA_TYPE_UINT8;
    cuuint32_t rank = 2;
    uint64_t address = 0x10000;
    cuuint64_t dims[6] = {64, 64, 4, 4, 4, 4}, strides[5] = {64, 4096, 16384, 65536, 262144};
    cuuint32_t box[6] = {64, 8, 1, 1, 1, 1}, element_strides[6] = {1, 1, 1, 1, 1, 1};
    int interleave = CU_TENSOR_MAP_INTERLEAVE_NONE;
    int swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
    int promotion = CU_TENSOR_MAP_L2_PROMOTION_NONE;
    int fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
};

/// The function as C sees it, whose enumerations may hold any number.
using EncodeTiled = CUresult (*)(CUtensorMap*, int, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*,
                                 const cuuint32_t*, const cuuint32_t*, int, int, int, int);

CUresult encode(const DriverApi& api, const Arguments& a, CUtensorMap* map) {
    const auto call = reinterpret_cast<EncodeTiled>(reinterpret_cast<void*>(api.cuTensorMapEncodeTiled));
    return call(map, a.type, a.rank, reinterpret_cast<void*>(a.address), a.dims, a.strides, a.box, a.element_strides,
                a.interleave, a.swizzle, a.promotion, a.fill);
}

struct Case {
    const char* name;
    bool accepted;
    std::function<void(Arguments&)> change;
};

void run_copy(const DriverApi& api, const std::vector<Case>& cases) {
    for (const Case& c : cases) {
        Arguments arguments;
        c.change(arguments);
        alignas(64) CUtensorMap map;
        std::memset(&map, 0x55, sizeof map);
        const CUtensorMap before = map;
        const CUresult result = encode(api, arguments, &map);
        INFO(c.name << ": " << sim::driver::last_report());
        CHECK(result == (c.accepted ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE));
        CHECK((std::memcmp(&map, &before, sizeof map) != 0) == c.accepted);  // a refusal writes nothing
    }
}

}  // namespace

TEST_CASE("C20 cuTensorMapEncodeTiled accepts and refuses as an H200's driver", "[sim][driver]") {
    const SimSession session(gpus({90}));
    std::vector<Case> cases = {
        {"plain", true, [](Arguments&) {}},
        {"rank 0", false, [](Arguments& a) { a.rank = 0; }},
        {"rank 6", false, [](Arguments& a) { a.rank = 6; }},
        {"rank 5", true, [](Arguments& a) { a.rank = 5; }},
        {"address NULL", true, [](Arguments& a) { a.address = 0; }},
        {"address + 8", false, [](Arguments& a) { a.address += 8; }},
        {"dim 0", false, [](Arguments& a) { a.dims[1] = 0; }},
        {"dim 2^32", true, [](Arguments& a) { a.dims[1] = cuuint64_t{1} << 32; }},
        {"dim 2^32+1", false, [](Arguments& a) { a.dims[1] = (cuuint64_t{1} << 32) + 1; }},
        {"dim not a multiple of 16 bytes", true, [](Arguments& a) { a.dims[0] = 50; }},
        {"dim smaller than the box", true, [](Arguments& a) { a.dims[0] = 20; }},
        {"stride 0", true, [](Arguments& a) { a.strides[0] = 0; }},
        {"stride less than the row", true, [](Arguments& a) { a.strides[0] = 16; }},
        {"stride 1032", false, [](Arguments& a) { a.strides[0] = 1032; }},
        {"stride 2^40-16", true, [](Arguments& a) { a.strides[0] = (cuuint64_t{1} << 40) - 16; }},
        {"stride 2^40", false, [](Arguments& a) { a.strides[0] = cuuint64_t{1} << 40; }},
        {"box 0", false, [](Arguments& a) { a.box[1] = 0; }},
        {"box 256", true, [](Arguments& a) { a.box[1] = 256; }},
        {"box 257", false, [](Arguments& a) { a.box[1] = 257; }},
        {"inner 8 bytes", false, [](Arguments& a) { a.box[0] = 8; }},
        {"inner 24 bytes", false, [](Arguments& a) { a.box[0] = 24; }},
        {"64 KiB box", true, [](Arguments& a) { a.box[0] = a.box[1] = 256; }},
        {"256 KiB box", false,
         [](Arguments& a) {
             a.type = CU_TENSOR_MAP_DATA_TYPE_UINT32;
             a.box[0] = a.box[1] = 256;
         }},
        {"inner 2048 bytes without swizzle", true,
         [](Arguments& a) {
             a.type = CU_TENSOR_MAP_DATA_TYPE_UINT64;
             a.box[0] = 256;
         }},
        {"element stride 0", false, [](Arguments& a) { a.element_strides[1] = 0; }},
        {"element stride 8", true, [](Arguments& a) { a.element_strides[0] = 8; }},
        {"element stride 9 at index 0", false, [](Arguments& a) { a.element_strides[0] = 9; }},
        {"swizzle 128B with box0 256 and element stride 2", false,
         [](Arguments& a) {
             a.box[0] = 256;
             a.element_strides[0] = 2;
             a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
         }},
        {"interleave 16B, rank 3", true,
         [](Arguments& a) {
             a.rank = 3;
             a.interleave = CU_TENSOR_MAP_INTERLEAVE_16B;
         }},
        {"interleave 16B, rank 2", false, [](Arguments& a) { a.interleave = CU_TENSOR_MAP_INTERLEAVE_16B; }},
        {"interleave 32B, address + 16", false,
         [](Arguments& a) {
             a.rank = 3;
             a.interleave = CU_TENSOR_MAP_INTERLEAVE_32B;
             a.address += 16;
         }},
        {"interleave 32B, stride 48", false,
         [](Arguments& a) {
             a.rank = 3;
             a.interleave = CU_TENSOR_MAP_INTERLEAVE_32B;
             a.strides[0] = 48;
         }},
        {"interleave 3", false,
         [](Arguments& a) {
             a.rank = 3;
             a.interleave = 3;
         }},
        {"NaN fill of f16", true,
         [](Arguments& a) {
             a.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
             a.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
         }},
        {"NaN fill of u8", false, [](Arguments& a) { a.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA; }},
        {"fill 2", false, [](Arguments& a) { a.fill = 2; }},
        {"L2 promotion 3", true, [](Arguments& a) { a.promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B; }},
        {"L2 promotion 4", false, [](Arguments& a) { a.promotion = 4; }},
    };
    for (int type = 0; type < 16; ++type) {
        cases.push_back({"data type", type <= 12, [type](Arguments& a) { a.type = type; }});
    }
    for (int swizzle = 0; swizzle < 8; ++swizzle) {
        cases.push_back({"swizzle, inner 32 bytes", swizzle <= 3, [swizzle](Arguments& a) {
                             a.box[0] = 32;
                             a.swizzle = swizzle;
                         }});
    }
    for (int swizzle = 1; swizzle <= 3; ++swizzle) {
        const unsigned span = 16u << swizzle;
        cases.push_back({"inner fills the swizzle span", true, [=](Arguments& a) {
                             a.box[0] = span;
                             a.swizzle = swizzle;
                         }});
        cases.push_back({"inner beyond the swizzle span", false, [=](Arguments& a) {
                             a.box[0] = span + 16;
                             a.swizzle = swizzle;
                         }});
    }
    run_copy(session.api, cases);
}

TEST_CASE("sub-byte types of tensor maps on Blackwell", "[sim][driver]") {
    const auto fp4 = [](Arguments& a, int type) {
        a.type = type;
        a.dims[0] = 256;
        a.strides[0] = 128;
        a.box[0] = 128;
    };
    const std::vector<Case> cases = {
        {"16U4_ALIGN8B", true, [&](Arguments& a) { fp4(a, 13); }},
        {"16U4_ALIGN8B, 256 elements under 128B", true,
         [&](Arguments& a) {
             fp4(a, 13);
             a.box[0] = 256;
             a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
         }},
        {"16U4_ALIGN8B, odd dim", false,
         [&](Arguments& a) {
             fp4(a, 13);
             a.dims[0] = 255;
         }},
        {"16U4_ALIGN16B", true, [&](Arguments& a) { fp4(a, 14); }},
        {"16U4_ALIGN16B, box 64", false,
         [&](Arguments& a) {
             fp4(a, 14);
             a.box[0] = 64;
         }},
        {"16U4_ALIGN16B, address + 16", false,
         [&](Arguments& a) {
             fp4(a, 14);
             a.address += 16;
         }},
    };
    const SimSession blackwell(gpus({100}));
    run_copy(blackwell.api, cases);
}

TEST_CASE("C16 a simulated tensor map is tagged, im2col maps are refused by name", "[sim][driver]") {
    const SimSession session(gpus({100}));
    alignas(64) CUtensorMap first, second;
    session.ok(encode(session.api, {}, &first));
    session.ok(encode(session.api, {}, &second));
    CHECK(std::memcmp(&first, &second, sizeof first) == 0);  // C23: equal values, equal bytes
    Arguments moved;
    moved.address = 0x20000;
    session.ok(encode(session.api, moved, &second));
    session.ok(session.api.cuTensorMapReplaceAddress(&first, reinterpret_cast<void*>(0x20000)));
    CHECK(std::memcmp(&first, &second, sizeof first) == 0);
    std::memset(&first, 0, sizeof first);
    CHECK(session.api.cuTensorMapReplaceAddress(&first, nullptr) == CUDA_ERROR_INVALID_VALUE);
    const int corner[3] = {};
    const Arguments a;
    CHECK(session.api.cuTensorMapEncodeIm2col(&first, CU_TENSOR_MAP_DATA_TYPE_UINT8, 3, nullptr, a.dims, a.strides,
                                              corner, corner, 1, 1, a.element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                              CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                              CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_ERROR_NOT_SUPPORTED);
}
