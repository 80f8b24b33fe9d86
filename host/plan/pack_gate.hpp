// The gate in the order in which the kernels' lanes load it (ptx/gate_tile.cuh).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "format/nvfp4.hpp"

namespace nvfp4r {

/// One plane: tiles of 16 experts x 64 k, K fastest, zero past the experts and past K.
struct PackedPlane {
    std::vector<uint32_t> codes;   // NVFP4: [tile][chunk][lane][4 words]; bf16: [tile][chunk][lane][16 words]
    std::vector<uint16_t> scales;  // NVFP4: [tile][chunk][lane], e5m3 of rows g and g + 8, block c
};

/// Which 16 of a tile's 64 k a multiply step takes. kBlocks: k = 16c + 4s .. +3 of every lane column c, so that a token's
/// fragments are 16 consecutive values of one lane (router_sm90.cu). kNatural: k = 16s .. +15, as wgmma reads tokens from
/// shared memory (router_sm90_batch.cu). The scales are the same in both.
enum class StepOrder { kBlocks, kNatural };

PackedPlane pack_nvfp4(const Nvfp4Matrix& term, StepOrder order);

/// Values are rounded to bf16. weight: [experts, hidden].
PackedPlane pack_bf16(std::span<const float> weight, uint32_t experts, uint32_t hidden, StepOrder order);

/// The unsigned e5m3 byte of an e4m3 scale's magnitude, as ptx/nvfp4.cuh decodes it; a NaN stays one.
uint8_t e5m3_of_e4m3(uint8_t scale);

}  // namespace nvfp4r
