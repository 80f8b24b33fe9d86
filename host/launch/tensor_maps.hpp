// Tensor maps of the Blackwell kernel: rows of operands, read in boxes of one swizzled 128-byte row by a tile.
#pragma once

#include "launch/context.hpp"
#include "nvfp4router.h"
#include "plan/pack_gate_sm100.hpp"

namespace nvfp4r {

/// The gate's rows; a box is a block of 128 experts. Throws DRIVER_ERROR.
CUtensorMap gate_operands_map(const GpuContext& context, const GateImage& image, const DeviceBuffer& operands);

/// Whether a tensor map can describe the codes of the call's NVFP4 tokens: rows at multiples of 16 bytes.
bool maps_token_codes(const nvfp4r_call& call);
/// The codes of such a call on device memory; a box is a tile of tokens. Throws DRIVER_ERROR.
CUtensorMap token_codes_map(const GpuContext& context, const nvfp4r_call& call, uint32_t hidden, uint32_t tile_tokens);

}  // namespace nvfp4r
