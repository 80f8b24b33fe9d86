#include "sim/engine/tensor_box.hpp"

#include <algorithm>

namespace nvfp4r::sim {
namespace {

uint32_t swizzle_span(TensorSwizzle swizzle) {
    switch (swizzle) {
        case TensorSwizzle::none: return 0;
        case TensorSwizzle::b32: return 32;
        case TensorSwizzle::b64: return 64;
        case TensorSwizzle::b128:
        case TensorSwizzle::b128_atom32:
        case TensorSwizzle::b128_atom32_flip8:
        case TensorSwizzle::b128_atom64: break;
    }
    return 128;
}

uint32_t chunk_data_bytes(TensorType type) {
    if (type == TensorType::u4_align16) return 8;
    if (type == TensorType::u6_align16) return 12;
    return kTmaChunk;
}

}  // namespace

BoxShape box_shape(const TensorMap& map) {
    BoxShape shape;
    shape.counts[0] = map.box[0];  // element stride 0 has no effect without interleave (measured)
    shape.rows = 1;
    for (uint32_t i = 1; i < kMaxTensorRank; ++i) {
        shape.counts[i] = (map.box[i] + map.element_strides[i] - 1u) / map.element_strides[i];
        shape.rows *= shape.counts[i];
    }
    shape.row_bytes = map.box[0] * element_bits(map.type) / 8;
    shape.chunk_data = chunk_data_bytes(map.type);
    const uint32_t dense = shape.row_bytes / shape.chunk_data * kTmaChunk;
    const uint32_t span = swizzle_span(map.swizzle);
    shape.pitch = span ? span : dense;
    return shape;
}

BoxRow box_row(const TensorMap& map, const BoxShape& shape, const TensorCoords& coords, uint32_t row) {
    BoxRow out;
    uint64_t address = map.address;
    for (uint32_t i = 1; i < kMaxTensorRank; ++i) {
        const uint32_t index = row % shape.counts[i];
        row /= shape.counts[i];
        const int64_t coordinate = int64_t{coords[i]} + int64_t{index} * map.element_strides[i];
        if (coordinate < 0 || coordinate >= static_cast<int64_t>(map.dims[i])) return out;
        address += static_cast<uint64_t>(coordinate) * map.strides[i - 1];
    }
    const int64_t first = std::max<int64_t>(coords[0], 0);
    const int64_t last = std::min(int64_t{coords[0]} + map.box[0], static_cast<int64_t>(map.dims[0]));
    if (last <= first) return out;
    const int64_t bits = element_bits(map.type);
    out.address = address + static_cast<uint64_t>(first * bits / 8);
    out.begin = static_cast<uint32_t>((first - coords[0]) * bits / 8);
    out.visible = static_cast<uint32_t>((last - first) * bits / 8);
    return out;
}

uint32_t swizzled(uint32_t linear, TensorSwizzle swizzle) {
    switch (swizzle) {
        case TensorSwizzle::none: return linear;
        case TensorSwizzle::b32: return linear ^ (((linear >> 7) & 1u) << 4);
        case TensorSwizzle::b64: return linear ^ (((linear >> 7) & 3u) << 4);
        case TensorSwizzle::b128: return linear ^ (((linear >> 7) & 7u) << 4);
        case TensorSwizzle::b128_atom32:
        case TensorSwizzle::b128_atom32_flip8: return linear ^ (((linear >> 7) & 3u) << 5);
        case TensorSwizzle::b128_atom64: break;
    }
    return linear ^ (((linear >> 7) & 1u) << 6);
}

uint32_t round_tf32(uint32_t bits) {
    constexpr uint32_t kDropped = 13;  // fraction bits that tf32 does not have
    constexpr uint32_t kInfinity = 0x7f800000u, kMagnitude = 0x7fffffffu;
    constexpr uint32_t kNan = 0x7fffe000u;
    if ((bits & kMagnitude) > kInfinity) return kNan;
    const uint32_t half = (1u << (kDropped - 1)) - 1 + ((bits >> kDropped) & 1u);
    return (bits + half) & ~((1u << kDropped) - 1);
}

}  // namespace nvfp4r::sim
