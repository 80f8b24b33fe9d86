#include "plan/pack_gate.hpp"

#include "format/number.hpp"
#include "router_params.h"

namespace nvfp4r {
namespace {

constexpr uint32_t kLanes = kWarp;
constexpr uint32_t kSteps = kChunk / 16;  // mma steps of a tile
constexpr uint8_t kE5m3Nan = 0x99;        // bf16 bits 0x7f90 after the kernel's multiply-add

/// Where register r of the A fragment keeps its sign and magnitude in a 16-bit half of a packed word: each magnitude is
/// one shift away from bits 8..6, each sign one from bit 15 (ptx/nvfp4.cuh).
constexpr uint32_t kSignBit[4] = {15, 12, 13, 14};
constexpr uint32_t kMagnitudeBit[4] = {6, 3, 0, 9};

/// The k inside a chunk of half `half` of register `reg` at mma step `step`.
uint32_t k_in_chunk(StepOrder order, uint32_t lane, uint32_t step, uint32_t reg, uint32_t half) {
    const uint32_t column = lane % 4;
    if (order == StepOrder::kNatural) return step * 16 + reg / 2 * 8 + column * 2 + half;
    return column * kScaleBlock + step * 4 + reg / 2 * 2 + half;
}

/// Calls visit(tile position, lane, step, register, half, expert, k) for every element of every tile.
template <class Visit>
void for_each_element(uint32_t experts, uint32_t hidden, StepOrder order, const Visit& visit) {
    const uint32_t chunks = ceil_div(hidden, kChunk);
    for (uint32_t tile = 0; tile < ceil_div(experts, kExpertTile); ++tile)
        for (uint32_t chunk = 0; chunk < chunks; ++chunk)
            for (uint32_t lane = 0; lane < kLanes; ++lane)
                for (uint32_t step = 0; step < kSteps; ++step)
                    for (uint32_t element = 0; element < 8; ++element) {
                        const uint32_t reg = element / 2, half = element % 2;
                        const uint32_t expert = tile * kExpertTile + lane / 4 + reg % 2 * 8;
                        const uint32_t k = chunk * kChunk + k_in_chunk(order, lane, step, reg, half);
                        if (expert < experts && k < hidden)
                            visit((uint64_t{tile} * chunks + chunk) * kLanes + lane, step, reg, half, expert, k);
                    }
}

}  // namespace

uint8_t e5m3_of_e4m3(uint8_t scale) {
    const uint32_t exponent = (scale >> 3) & 15u, mantissa = scale & 7u;
    if (exponent == 15 && mantissa == 7) return kE5m3Nan;
    // e4m3 exponents start at -6; e5m3 bytes count from -9, the exponent of the least subnormal.
    if (exponent != 0) return static_cast<uint8_t>((exponent + 2) << 3 | mantissa);
    if (mantissa == 0) return 0;
    uint32_t shift = 0;
    while (((mantissa << shift) & 8u) == 0) ++shift;
    return static_cast<uint8_t>((3 - shift) << 3 | ((mantissa << shift) & 7u));
}

PackedPlane pack_nvfp4(const Nvfp4Matrix& term, StepOrder order) {
    const uint64_t lanes = uint64_t{ceil_div(term.rows, kExpertTile)} * ceil_div(term.cols, kChunk) * kLanes;
    PackedPlane plane;
    plane.codes.assign(lanes * kSteps, 0);
    plane.scales.assign(lanes, 0);
    const uint32_t scale_cols = term.cols / kScaleBlock;
    for_each_element(term.rows, term.cols, order,
                     [&](uint64_t lane, uint32_t step, uint32_t reg, uint32_t half, uint32_t expert, uint32_t k) {
                         const uint8_t scale = term.scales[uint64_t{expert} * scale_cols + k / kScaleBlock];
                         const uint8_t e5m3 = e5m3_of_e4m3(scale);
                         // The word of the lane whose column is the block's number, in either order.
                         const uint64_t scale_lane = lane / 4 * 4 + k % kChunk / kScaleBlock;
                         plane.scales[scale_lane] |= static_cast<uint16_t>(e5m3 << (reg % 2 * 8));
                         if ((scale & 0x7fu) == 0) return;  // a zero block has zero codes: e5m3 has no zero
                         const uint8_t pair = term.codes[(uint64_t{expert} * term.cols + k) / 2];
                         const uint32_t code = (pair >> (k % 2 * 4)) & 15u;
                         const uint32_t sign = (code >> 3) ^ (scale >> 7);
                         plane.codes[lane * kSteps + step] |=
                             (sign << kSignBit[reg] | (code & 7u) << kMagnitudeBit[reg]) << (16 * half);
                     });
    return plane;
}

PackedPlane pack_bf16(std::span<const float> weight, uint32_t experts, uint32_t hidden, StepOrder order) {
    constexpr uint32_t kRegisters = 4;
    PackedPlane plane;
    plane.codes.assign(
        uint64_t{ceil_div(experts, kExpertTile)} * ceil_div(hidden, kChunk) * kLanes * kSteps * kRegisters, 0);
    for_each_element(experts, hidden, order,
                     [&](uint64_t lane, uint32_t step, uint32_t reg, uint32_t half, uint32_t expert, uint32_t k) {
                         const uint32_t bits = f32_to_bf16(weight[uint64_t{expert} * hidden + k]);
                         plane.codes[(lane * kSteps + step) * kRegisters + reg] |= bits << (16 * half);
                     });
    return plane;
}

}  // namespace nvfp4r
