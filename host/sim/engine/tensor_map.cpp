#include "sim/engine/tensor_map.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstring>

namespace nvfp4r::sim {
namespace {

constexpr uint64_t kTag = 0x3150'414d'544d'4953;  // "SIMTMAP1"
constexpr uint64_t kMaxDim = uint64_t{1} << 32;
constexpr uint64_t kStrideLimit = uint64_t{1} << 40;
constexpr uint32_t kMaxBox = 256;
constexpr uint32_t kMaxElementStride = 8;
constexpr uint32_t kMaxBoxBytes = 227 * 1024;  // what a block's shared memory can hold
constexpr uint32_t kPaddedBox = 128;           // box[0] of the 16-byte padded sub-byte types
constexpr uint32_t kHopper = 90;

struct TypeInfo {
    const char* name;
    uint32_t bits;
    bool is_float;
};
constexpr TypeInfo kTypes[] = {
    {"UINT8", 8, false},        {"UINT16", 16, false},      {"UINT32", 32, false},       {"INT32", 32, false},
    {"UINT64", 64, false},      {"INT64", 64, false},       {"FLOAT16", 16, true},       {"FLOAT32", 32, true},
    {"FLOAT64", 64, true},      {"BFLOAT16", 16, true},     {"FLOAT32_FTZ", 32, true},   {"TFLOAT32", 32, true},
    {"TFLOAT32_FTZ", 32, true}, {"16U4_ALIGN8B", 4, false}, {"16U4_ALIGN16B", 4, false}, {"16U6_ALIGN16B", 6, false},
};
constexpr uint32_t kTypeCount = sizeof(kTypes) / sizeof(kTypes[0]);
static_assert(kTypeCount == static_cast<uint32_t>(TensorType::u6_align16) + 1, "one entry for each data type");

bool is_padded(TensorType type) {
    return type == TensorType::u4_align16 || type == TensorType::u6_align16;
}

uint64_t checksum(const TensorMap& map) {
    constexpr uint64_t kFnvOffset = 0xcbf29ce484222325, kFnvPrime = 0x100000001b3;
    uint8_t bytes[sizeof(TensorMap)];
    std::memcpy(bytes, &map, sizeof(map));
    uint64_t hash = kFnvOffset;
    for (size_t i = 0; i < offsetof(TensorMap, checksum); ++i) hash = (hash ^ bytes[i]) * kFnvPrime;
    return hash;
}

// Which enumerators the driver of this GPU knows (cuda.h; measured for sm_90).
std::string refuse_enums(const TensorMapRequest& r, uint32_t sm) {
    const bool sub_byte = sm > kHopper;
    if (r.type >= (sub_byte ? kTypeCount : static_cast<uint32_t>(TensorType::u4_align8)))
        return fmt::format("data type {} is not known to sm_{}", r.type, sm);
    if (r.rank < 1 || r.rank > kMaxTensorRank) return fmt::format("rank {}: 1 to 5 is allowed", r.rank);
    if (r.interleave > 2) return fmt::format("interleave {} is not known", r.interleave);
    if (r.interleave != 0 && r.rank < 3) return fmt::format("interleave needs a rank of at least 3, not {}", r.rank);
    if (r.swizzle > (sub_byte ? 6u : 3u)) return fmt::format("swizzle {} is not known to sm_{}", r.swizzle, sm);
    if (r.l2_promotion > 3) return fmt::format("L2 promotion {} is not known", r.l2_promotion);
    if (r.oob_fill > 1) return fmt::format("out-of-bounds fill {} is not known", r.oob_fill);
    if (r.oob_fill == 1 && !kTypes[r.type].is_float)
        return fmt::format("NaN fill needs a float type, not {}", kTypes[r.type].name);
    return {};
}

// The padded sub-byte types allow only some swizzles (cuda.h).
bool swizzle_fits_padded(TensorType type, TensorSwizzle swizzle) {
    if (swizzle == TensorSwizzle::none || swizzle == TensorSwizzle::b128 || swizzle == TensorSwizzle::b128_atom32)
        return true;
    return type == TensorType::u6_align16 && swizzle == TensorSwizzle::b128_atom64;
}

std::string refuse_global(const TensorMapRequest& r, TensorType type) {
    const bool wide = r.interleave == 2 || is_padded(type);
    const uint64_t align = wide ? 32 : 16;
    if (r.address % align) return fmt::format("globalAddress {:#x} is not a multiple of {}", r.address, align);
    for (uint32_t i = 0; i < r.rank; ++i)
        if (r.dims[i] < 1 || r.dims[i] > kMaxDim)
            return fmt::format("globalDim[{}] {}: 1 to 2^32 is allowed", i, r.dims[i]);
    if (is_padded(type) && r.dims[0] % kPaddedBox)
        return fmt::format("globalDim[0] {} is not a multiple of {}", r.dims[0], kPaddedBox);
    if (type == TensorType::u4_align8 && r.dims[0] % 2) return fmt::format("globalDim[0] {} is odd", r.dims[0]);
    for (uint32_t i = 0; i + 1 < r.rank; ++i) {
        if (r.strides[i] % align)
            return fmt::format("globalStrides[{}] {} is not a multiple of {}", i, r.strides[i], align);
        if (r.strides[i] >= kStrideLimit) return fmt::format("globalStrides[{}] {} is not below 2^40", i, r.strides[i]);
    }
    return {};
}

std::string refuse_box(const TensorMapRequest& r, TensorType type) {
    for (uint32_t i = 0; i < r.rank; ++i) {
        if (r.box[i] < 1 || r.box[i] > kMaxBox) return fmt::format("boxDim[{}] {}: 1 to 256 is allowed", i, r.box[i]);
        if (r.element_strides[i] < 1 || r.element_strides[i] > kMaxElementStride)
            return fmt::format("elementStrides[{}] {}: 1 to 8 is allowed", i, r.element_strides[i]);
    }
    const auto swizzle = static_cast<TensorSwizzle>(r.swizzle);
    if (is_padded(type)) {
        if (r.box[0] != kPaddedBox) return fmt::format("boxDim[0] {} must be {}", r.box[0], kPaddedBox);
        if (!swizzle_fits_padded(type, swizzle))
            return fmt::format("swizzle {} is not allowed with {}", r.swizzle, kTypes[r.type].name);
    }
    const uint64_t inner = uint64_t{r.box[0]} * element_bits(type) / 8;
    if (r.interleave == 0) {
        if (uint64_t{r.box[0]} * element_bits(type) % (16 * 8))
            return fmt::format("inner box of {} elements of {} is not a multiple of 16 bytes", r.box[0],
                               kTypes[r.type].name);
        constexpr uint64_t kSpan[] = {~uint64_t{0}, 32, 64, 128, 128, 128, 128};
        if (inner > kSpan[r.swizzle])
            return fmt::format("inner box of {} bytes does not fit the swizzle span of {}", inner, kSpan[r.swizzle]);
    }
    uint64_t bytes = inner;
    for (uint32_t i = 1; i < r.rank; ++i) bytes *= r.box[i];
    if (bytes > kMaxBoxBytes) return fmt::format("box of {} bytes: at most {} fit shared memory", bytes, kMaxBoxBytes);
    return {};
}

}  // namespace

uint32_t element_bits(TensorType type) {
    return kTypes[static_cast<uint32_t>(type)].bits;
}

const char* tensor_type_name(TensorType type) {
    return kTypes[static_cast<uint32_t>(type)].name;
}

std::string encode_tensor_map(const TensorMapRequest& request, uint32_t sm, TensorMap& map) {
    if (std::string why = refuse_enums(request, sm); !why.empty()) return why;
    const auto type = static_cast<TensorType>(request.type);
    if (std::string why = refuse_global(request, type); !why.empty()) return why;
    if (std::string why = refuse_box(request, type); !why.empty()) return why;
    TensorMap made{};
    made.tag = kTag;
    made.address = request.address;
    for (uint32_t i = 0; i < kMaxTensorRank; ++i) {  // missing dimensions are one element wide
        const bool present = i < request.rank;
        made.dims[i] = present ? request.dims[i] : 1;
        made.box[i] = present ? static_cast<uint16_t>(request.box[i]) : 1;
        made.element_strides[i] = present ? static_cast<uint8_t>(request.element_strides[i]) : 1;
        if (i + 1 < request.rank) made.strides[i] = request.strides[i];
    }
    made.type = type;
    made.rank = static_cast<uint8_t>(request.rank);
    made.interleave = static_cast<TensorInterleave>(request.interleave);
    made.swizzle = static_cast<TensorSwizzle>(request.swizzle);
    made.fill = static_cast<TensorFill>(request.oob_fill);
    made.l2_promotion = static_cast<uint8_t>(request.l2_promotion);
    made.checksum = checksum(made);
    map = made;
    return {};
}

bool read_tensor_map(const uint8_t* bytes, TensorMap& map) {
    std::memcpy(&map, bytes, sizeof(map));
    return map.tag == kTag && map.checksum == checksum(map);
}

}  // namespace nvfp4r::sim
