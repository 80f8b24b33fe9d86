#include "sim/instr/decode_help.hpp"

namespace nvfp4r::sim {
namespace {

// A list of one may be written without braces.
std::vector<Operand> elements(Decoder& decoder, const Operand& operand, size_t count) {
    std::vector<Operand> parts = operand.kind == OperandKind::vector ? operand.parts : std::vector<Operand>{operand};
    if (parts.size() != count)
        decoder.refuse(fmt::format("a list of {} registers where {} are expected", parts.size(), count));
    return parts;
}

}  // namespace

uint32_t uniform_value(Warp& warp, const Instr& instr, const Src& src, LaneMask lanes, const char* what) {
    Lanes scratch;
    const uint64_t* values = warp.read(src, scratch, lanes);
    const auto first = static_cast<uint32_t>(values[first_lane(lanes)]);
    each_lane(lanes, [&](uint32_t lane) {
        const auto value = static_cast<uint32_t>(values[lane]);
        if (value == first) return;
        report_lane(warp, lane, FindingKind::illegal_instruction,
                    fmt::format("{} is {:#x} here and {:#x} in another lane: all lanes of the warp must agree", what,
                                value, first),
                    &instr);
    });
    return first;
}

std::vector<uint32_t> register_list(Decoder& decoder, const Operand& operand, size_t count) {
    std::vector<uint32_t> slots;
    for (const Operand& part : elements(decoder, operand, count)) slots.push_back(decoder.dst(part));
    return slots;
}

std::vector<Src> source_list(Decoder& decoder, const Operand& operand, size_t count, uint32_t bits) {
    std::vector<Src> sources;
    for (const Operand& part : elements(decoder, operand, count)) sources.push_back(decoder.src(part, bits));
    return sources;
}

}  // namespace nvfp4r::sim
