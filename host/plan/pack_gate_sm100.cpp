#include "plan/pack_gate_sm100.hpp"

#include <algorithm>
#include <cstring>

#include "format/number.hpp"
#include "router_params.h"

namespace nvfp4r {

GateImage image_of_terms(std::span<const Nvfp4Matrix> terms) {
    const uint32_t experts = terms[0].rows, hidden = terms[0].cols;
    const uint64_t plane_rows = round_up(experts, kMmaExperts);
    GateImage image;
    image.pitch = round_up(hidden / 2, kOperandRow);
    image.rows = plane_rows * terms.size();
    image.operands.assign(image.rows * image.pitch, 0);
    for (size_t q = 0; q < terms.size(); ++q) {
        for (uint32_t e = 0; e < experts; ++e)
            std::copy_n(terms[q].codes.data() + uint64_t{e} * hidden / 2, hidden / 2,
                        image.operands.data() + (q * plane_rows + e) * image.pitch);
        image.scales.push_back(scales_to_layout(terms[q].scales, experts, hidden / kBlock, NVFP4R_SCALES_128X4));
    }
    return image;
}

GateImage image_of_bf16(std::span<const float> weight, uint32_t experts, uint32_t hidden) {
    GateImage image;
    image.pitch = round_up(hidden * 2, kOperandRow);
    image.rows = round_up(experts, kMmaExperts);
    image.operands.assign(image.rows * image.pitch, 0);
    for (uint32_t e = 0; e < experts; ++e)
        for (uint32_t k = 0; k < hidden; ++k) {
            const uint16_t bits = f32_to_bf16(weight[uint64_t{e} * hidden + k]);
            std::memcpy(image.operands.data() + e * image.pitch + uint64_t{k} * 2, &bits, sizeof bits);
        }
    return image;
}

}  // namespace nvfp4r
