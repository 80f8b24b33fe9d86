#include "sim/instr/compare.hpp"

namespace nvfp4r::sim {

namespace {

struct Outcome {
    LaneMask less = 0, equal = 0, unordered = 0;
};

template <class Load>
Outcome outcome(const uint64_t* a, const uint64_t* b, LaneMask lanes, Load load) {
    Outcome result;
    for_lanes(lanes, [&](uint32_t lane) {
        const auto x = load(a[lane]), y = load(b[lane]);
        result.less |= LaneMask{x < y} << lane;
        result.equal |= LaneMask{x == y} << lane;
        result.unordered |= LaneMask{x != x || y != y} << lane;
    });
    return result;
}

LaneMask answer(Compare compare, const Outcome& o) {
    switch (compare) {
        case Compare::eq: return o.equal;
        case Compare::ne: return ~(o.equal | o.unordered);
        case Compare::lt: return o.less;
        case Compare::le: return o.less | o.equal;
        case Compare::gt: return ~(o.less | o.equal | o.unordered);
        case Compare::ge: return ~(o.less | o.unordered);
        case Compare::equ: return o.equal | o.unordered;
        case Compare::neu: return ~o.equal;
        case Compare::ltu: return o.less | o.unordered;
        case Compare::leu: return o.less | o.equal | o.unordered;
        case Compare::gtu: return ~(o.less | o.equal);
        case Compare::geu: return ~o.less;
        case Compare::num: return ~o.unordered;
        case Compare::nan: return o.unordered;
    }
    return 0;
}

Outcome outcome_half(const Comparison& comparison, const uint64_t* a, const uint64_t* b, LaneMask lanes, int shift) {
    const bool is_bf16 = comparison.type == DataType::bf16 || comparison.type == DataType::bf16x2;
    const FloatFormat& format = is_bf16 ? kBf16 : kF16;
    return outcome(a, b, lanes, [&](uint64_t slot) {
        const double value = decode_value(slot >> shift & 0xffff, format);
        const bool subnormal = std::fabs(value) < std::ldexp(1.0, 1 - format.bias);
        return comparison.ftz && subnormal ? 0.0 : value;
    });
}

Outcome outcome_of(const Comparison& comparison, const uint64_t* a, const uint64_t* b, LaneMask lanes) {
    switch (comparison.type) {
        case DataType::u16:
        case DataType::b16: return outcome(a, b, lanes, as<uint16_t>);
        case DataType::s16: return outcome(a, b, lanes, as<int16_t>);
        case DataType::u32:
        case DataType::b32: return outcome(a, b, lanes, as<uint32_t>);
        case DataType::s32: return outcome(a, b, lanes, as<int32_t>);
        case DataType::u64:
        case DataType::b64: return outcome(a, b, lanes, as<uint64_t>);
        case DataType::s64: return outcome(a, b, lanes, as<int64_t>);
        case DataType::f64: return outcome(a, b, lanes, f64_of);
        case DataType::f32: {
            FloatRule rule;
            rule.ftz = comparison.ftz;
            return outcome(a, b, lanes, [&](uint64_t slot) { return load_f32(slot, rule); });
        }
        default: return outcome_half(comparison, a, b, lanes, 0);
    }
}

}  // namespace

Comparison take_comparison(Decoder& decoder, Modifiers& modifiers) {
    Comparison comparison;
    const std::string_view name = modifiers.next("the comparison");
    const std::pair<std::string_view, Compare> kNames[] = {
        {"eq", Compare::eq},   {"ne", Compare::ne},   {"lt", Compare::lt},   {"le", Compare::le},
        {"gt", Compare::gt},   {"ge", Compare::ge},   {"lo", Compare::lt},   {"ls", Compare::le},
        {"hi", Compare::gt},   {"hs", Compare::ge},   {"equ", Compare::equ}, {"neu", Compare::neu},
        {"ltu", Compare::ltu}, {"leu", Compare::leu}, {"gtu", Compare::gtu}, {"geu", Compare::geu},
        {"num", Compare::num}, {"nan", Compare::nan}};
    const Compare* found = nullptr;
    for (const auto& [text, value] : kNames) {
        if (text == name) found = &value;
    }
    if (!found) decoder.refuse("comparison ." + std::string(name) + " is not modelled");
    comparison.compare = *found;
    comparison.bool_op =
        modifiers.take_one<BoolOp>({{"and", BoolOp::and_}, {"or", BoolOp::or_}, {"xor", BoolOp::xor_}}, BoolOp::none);
    comparison.ftz = modifiers.take("ftz");
    return comparison;
}

void check_comparison(Decoder& decoder, const Comparison& comparison) {
    const DataType type = comparison.type;
    const bool is_float = type == DataType::f32 || type == DataType::f64 || type == DataType::f16 ||
                          type == DataType::f16x2 || type == DataType::bf16 || type == DataType::bf16x2;
    const bool is_integer = (is_bits(type) || is_signed(type) || is_unsigned(type)) && type_bits(type) >= 16;
    if (!is_float && !is_integer) decoder.refuse("the type is not one that is compared");
    if (is_integer && comparison.compare > Compare::ge) decoder.refuse("an unordered comparison of integers");
    if (is_bits(type) && comparison.compare > Compare::ne) decoder.refuse("untyped bits have .eq and .ne only");
    if (comparison.ftz && (is_integer || type == DataType::f64)) decoder.refuse(".ftz is for .f32, .f16 and .f16x2");
}

LaneMask compare_lanes(const Comparison& comparison, const uint64_t* a, const uint64_t* b, LaneMask lanes,
                       LaneMask* high) {
    const bool packed = comparison.type == DataType::f16x2 || comparison.type == DataType::bf16x2;
    if (packed && high) *high = answer(comparison.compare, outcome_half(comparison, a, b, lanes, 16)) & lanes;
    return answer(comparison.compare, outcome_of(comparison, a, b, lanes)) & lanes;
}

}  // namespace nvfp4r::sim
