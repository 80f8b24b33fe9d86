// f16, bf16 and their packed pairs (PTX ISA 9.7.4): add, sub, mul, fma, neg, abs, min, max, ex2, tanh. Operations are
// exact or rounded to odd in f64, then rounded once to the format.
#include "sim/instr/families.hpp"
#include "sim/instr/floats.hpp"

namespace nvfp4r::sim {

namespace {

constexpr uint64_t kHalfMask = 0xffff, kHalfSign = 0x8000;

enum class HalfOperation : uint8_t { add, sub, mul, fma, neg, abs, min, max, ex2, tanh };

struct HalfForm {
    HalfOperation operation = HalfOperation::add;
    FloatFormat format = kF16;
    FloatRule rule;
    bool nan = false, xorsign = false;  // min, max
};

bool is_subnormal(uint64_t bits, const FloatFormat& format) {
    const uint64_t magnitude = bits & ~kHalfSign;
    return magnitude != 0 && magnitude >> format.fraction_bits == 0;
}

uint64_t flush_half(uint64_t bits, const FloatFormat& format) {
    return is_subnormal(bits, format) ? bits & kHalfSign : bits;
}

uint64_t finish_half(double value, const HalfForm& form) {
    // .ftz judges after rounding at an unbounded exponent (measured on H200): from half a unit below it on, a value is
    // the least normal number.
    const double least = std::ldexp(1.0, 1 - form.format.bias);
    const double half_unit = std::ldexp(least, -form.format.fraction_bits - 2);
    if (form.rule.ftz && std::fabs(value) < least - half_unit) value = std::copysign(0.0, value);
    if (form.rule.sat) value = saturate_unit(value);
    if (form.rule.relu && value <= 0) value = 0.0;
    return encode(value, form.format, form.rule.rounding);
}

double pick_half(const HalfForm& form, double a, double b, bool negative) {
    if (form.xorsign) {
        a = std::fabs(a);
        b = std::fabs(b);
    }
    const double value = form.operation == HalfOperation::max ? greatest(a, b, form.nan) : least(a, b, form.nan);
    return form.xorsign && negative ? -value : value;
}

uint64_t compute(const HalfForm& form, uint64_t x, uint64_t y, uint64_t z) {
    x &= kHalfMask;
    y &= kHalfMask;
    z &= kHalfMask;
    if (form.rule.ftz) {
        x = flush_half(x, form.format);
        y = flush_half(y, form.format);
        z = flush_half(z, form.format);
    }
    if (form.operation == HalfOperation::neg || form.operation == HalfOperation::abs) {
        const uint64_t magnitude = x & ~kHalfSign;
        if (magnitude > form.format.infinity) return form.format.nan;
        return form.operation == HalfOperation::abs ? magnitude : x ^ kHalfSign;
    }
    const double a = decode_value(x, form.format), b = decode_value(y, form.format);
    switch (form.operation) {
        case HalfOperation::add: return finish_half(add_to_odd(a, b), form);
        case HalfOperation::sub: return finish_half(add_to_odd(a, -b), form);
        case HalfOperation::mul: return finish_half(a * b, form);  // 22 bits: exact
        case HalfOperation::fma: return finish_half(add_to_odd(a * b, decode_value(z, form.format)), form);
        case HalfOperation::min:
        case HalfOperation::max: return finish_half(pick_half(form, a, b, ((x ^ y) & kHalfSign) != 0), form);
        case HalfOperation::ex2: return finish_half(std::exp2(a), form);
        case HalfOperation::tanh: return finish_half(std::tanh(a), form);
        case HalfOperation::neg:
        case HalfOperation::abs: break;
    }
    return 0;
}

template <size_t N, bool packed>
Step exec_half(Warp& warp, const Instr& instr, LaneMask lanes) {
    const HalfForm& form = instr.extra_as<HalfForm>();
    auto each = [&](uint64_t a, uint64_t b, uint64_t c) {
        const uint64_t low = compute(form, a, b, c);
        return packed ? low | compute(form, a >> 16, b >> 16, c >> 16) << 16 : low;
    };
    if constexpr (N == 1) return map_lanes<1>(warp, instr, lanes, [&](uint64_t a) { return each(a, 0, 0); });
    if constexpr (N == 2)
        return map_lanes<2>(warp, instr, lanes, [&](uint64_t a, uint64_t b) { return each(a, b, 0); });
    if constexpr (N == 3) return map_lanes<3>(warp, instr, lanes, each);
}

struct Opcode {
    std::string_view name;
    HalfOperation operation;
    size_t sources;
};
constexpr Opcode kOpcodes[] = {{"add", HalfOperation::add, 2}, {"sub", HalfOperation::sub, 2},
                               {"mul", HalfOperation::mul, 2}, {"fma", HalfOperation::fma, 3},
                               {"neg", HalfOperation::neg, 1}, {"abs", HalfOperation::abs, 1},
                               {"min", HalfOperation::min, 2}, {"max", HalfOperation::max, 2},
                               {"ex2", HalfOperation::ex2, 1}, {"tanh", HalfOperation::tanh, 1}};

Instr decode_half(Decoder& decoder) {
    const Statement& statement = decoder.statement();
    Modifiers modifiers(decoder);
    const Opcode* opcode = kOpcodes;
    while (opcode->name != statement.opcode) ++opcode;
    HalfForm form;
    form.operation = opcode->operation;
    const bool function = form.operation == HalfOperation::ex2 || form.operation == HalfOperation::tanh;
    const bool arithmetic =
        opcode->sources >= 2 && form.operation != HalfOperation::min && form.operation != HalfOperation::max;
    if (function && !modifiers.take("approx")) decoder.refuse(".approx is wanted");
    if (arithmetic) {
        const bool written = modifiers.take("rn");
        if (!written && form.operation == HalfOperation::fma) decoder.refuse(".rn is wanted");
    }
    form.rule.ftz = modifiers.take("ftz");
    if (arithmetic) form.rule.sat = modifiers.take("sat");
    if (form.operation == HalfOperation::fma) form.rule.relu = modifiers.take("relu");
    if (form.operation == HalfOperation::min || form.operation == HalfOperation::max) {
        form.nan = modifiers.take("NaN");
        form.xorsign = modifiers.take("xorsign");
        if (form.xorsign && !modifiers.take("abs")) decoder.refuse(".xorsign wants .abs");
    }
    const DataType type = take_type(decoder, modifiers);
    modifiers.done();
    const bool is_bf16 = type == DataType::bf16 || type == DataType::bf16x2;
    const bool packed = type_bits(type) == 32;
    // bf16 has .ftz in ex2 only, where it is always written, and no .sat (PTX ISA 9.7.4).
    if (is_bf16 && (form.rule.sat || form.rule.ftz != (form.operation == HalfOperation::ex2))) {
        decoder.refuse("this form is not modelled");
    }
    if (is_bf16) form.format = kBf16;
    Instr instr;
    switch (opcode->sources) {
        case 1: instr.exec = packed ? exec_half<1, true> : exec_half<1, false>; break;
        case 2: instr.exec = packed ? exec_half<2, true> : exec_half<2, false>; break;
        default: instr.exec = packed ? exec_half<3, true> : exec_half<3, false>; break;
    }
    instr.extra = std::make_shared<HalfForm>(form);
    instr.dst = decoder.dst(0);
    for (size_t i = 0; i < opcode->sources; ++i) instr.src[i] = decoder.src(i + 1, type_bits(type));
    return instr;
}

}  // namespace

const Family half_family = {"half",
                            {"add", "sub", "mul", "fma", "neg", "abs", "min", "max", "ex2", "tanh"},
                            decode_half,
                            {"f16", "f16x2", "bf16", "bf16x2"}};

}  // namespace nvfp4r::sim
