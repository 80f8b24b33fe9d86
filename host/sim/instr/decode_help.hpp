// Small things that the engines' instruction families share when decoding and executing.
#pragma once

#include <fmt/format.h>

#include <bit>

#include "sim/engine/async.hpp"
#include "sim/program/instr.hpp"

namespace nvfp4r::sim {

/// Refuses unless there are exactly `count` operands.
inline void need_operands(Decoder& decoder, size_t count) {
    const size_t have = decoder.statement().operands.size();
    if (have != count) decoder.refuse(fmt::format("{} operands where {} are expected", have, count));
}

/// tcgen05 and what came with it exist on 100a, 103a and 110a; wgmma only on 90a (PTX ISA, target notes).
inline bool is_blackwell(const Decoder& decoder) {
    return decoder.arch_specific() && (decoder.sm() == 100 || decoder.sm() == 103 || decoder.sm() == 110);
}
inline bool is_hopper(const Decoder& decoder) {
    return decoder.arch_specific() && decoder.sm() == 90;
}

/// Calls visit(lane) for every set bit.
template <class Visit>
void each_lane(LaneMask lanes, Visit visit) {
    for (; lanes; lanes &= lanes - 1) visit(static_cast<uint32_t>(std::countr_zero(lanes)));
}
inline uint32_t first_lane(LaneMask lanes) {
    return static_cast<uint32_t>(std::countr_zero(lanes));
}

/// The value that all lanes must share (a TMEM address, a column count); a lane that differs is reported.
uint32_t uniform_value(Warp& warp, const Instr& instr, const Src& src, LaneMask lanes, const char* what);

/// Slots of a register list; `count` registers must stand there.
std::vector<uint32_t> register_list(Decoder& decoder, const Operand& operand, size_t count);
std::vector<Src> source_list(Decoder& decoder, const Operand& operand, size_t count, uint32_t bits);

}  // namespace nvfp4r::sim
