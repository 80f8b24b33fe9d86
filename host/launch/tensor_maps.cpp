#include "launch/tensor_maps.hpp"

#include "router_params.h"

namespace nvfp4r {
namespace {

constexpr uint64_t kMapAlign = 16;  // of a map's address and strides (cuTensorMapEncodeTiled)

struct Rows {
    const void* address;
    uint64_t row_bytes, rows, pitch;
};

CUtensorMap rows_map(const GpuContext& context, const Rows& r, uint32_t box_rows, const char* what) {
    const cuuint64_t sizes[] = {r.row_bytes, r.rows};
    const cuuint64_t strides[] = {r.pitch};
    const cuuint32_t box[] = {kOperandRow, box_rows};
    const cuuint32_t steps[] = {1, 1};
    CUtensorMap map{};
    check(context.api(),
          context.api().cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, const_cast<void*>(r.address),
                                               sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                               CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                                               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
          "cuTensorMapEncodeTiled", "{} of {} rows, {} bytes each, {} apart", what, r.rows, r.row_bytes, r.pitch);
    return map;
}

}  // namespace

CUtensorMap gate_operands_map(const GpuContext& context, const GateImage& image, const DeviceBuffer& operands) {
    return rows_map(context, {operands.as<void>(), image.pitch, image.rows, image.pitch}, kMmaExperts, "gate operands");
}

bool maps_token_codes(const nvfp4r_call& call) {
    const uint64_t pitch = static_cast<uint64_t>(call.hidden_stride) / 2;
    return call.hidden_type == NVFP4R_E2M1 && reinterpret_cast<uintptr_t>(call.hidden) % kMapAlign == 0 &&
           pitch % kMapAlign == 0;
}

CUtensorMap token_codes_map(const GpuContext& context, const nvfp4r_call& call, uint32_t hidden, uint32_t tile_tokens) {
    const Rows rows{call.hidden, hidden / 2, static_cast<uint64_t>(call.tokens),
                    static_cast<uint64_t>(call.hidden_stride) / 2};
    return rows_map(context, rows, tile_tokens, "NVFP4 tokens");
}

}  // namespace nvfp4r
