// f16, bf16 and their packed pairs (PTX ISA 9.7.4): add, sub, mul, fma, neg, abs, min, max, ex2, tanh. Operations are
// exact or rounded to odd in f64, then rounded once to the format.
#include "sim/instr/families.hpp"
#include "sim/instr/floats.hpp"

namespace nvfp4r::sim {

namespace {

constexpr uint64_t kHalfMask = 0xffff, kHalfSign = 0x8000;

enum class Operation : uint8_t { add, sub, mul, fma, neg, abs, min, max, ex2, tanh };

struct Form {
    Operation operation = Operation::add;
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

uint64_t finish(double value, const Form& form) {
    // .ftz judges after rounding at an unbounded exponent (measured on H200): from half a unit below it on, a value is
    // the least normal number.
    const double least = std::ldexp(1.0, 1 - form.format.bias);
    const double half_unit = std::ldexp(least, -form.format.fraction_bits - 2);
    if (form.rule.ftz && std::fabs(value) < least - half_unit) value = std::copysign(0.0, value);
    if (form.rule.sat) value = saturate_unit(value);
    if (form.rule.relu && value <= 0) value = 0.0;
    return encode(value, form.format, form.rule.rounding);
}

double pick(const Form& form, double a, double b, bool negative) {
    if (form.xorsign) {
        a = std::fabs(a);
        b = std::fabs(b);
    }
    const double value = form.operation == Operation::max ? greatest(a, b, form.nan) : least(a, b, form.nan);
    return form.xorsign && negative ? -value : value;
}

uint64_t compute(const Form& form, uint64_t x, uint64_t y, uint64_t z) {
    x &= kHalfMask;
    y &= kHalfMask;
    z &= kHalfMask;
    if (form.rule.ftz) {
        x = flush_half(x, form.format);
        y = flush_half(y, form.format);
        z = flush_half(z, form.format);
    }
    if (form.operation == Operation::neg || form.operation == Operation::abs) {
        const uint64_t magnitude = x & ~kHalfSign;
        if (magnitude > form.format.infinity) return form.format.nan;
        return form.operation == Operation::abs ? magnitude : x ^ kHalfSign;
    }
    const double a = decode_value(x, form.format), b = decode_value(y, form.format);
    switch (form.operation) {
        case Operation::add: return finish(add_to_odd(a, b), form);
        case Operation::sub: return finish(add_to_odd(a, -b), form);
        case Operation::mul: return finish(a * b, form);  // 22 bits: exact
        case Operation::fma: return finish(add_to_odd(a * b, decode_value(z, form.format)), form);
        case Operation::min:
        case Operation::max: return finish(pick(form, a, b, ((x ^ y) & kHalfSign) != 0), form);
        case Operation::ex2: return finish(std::exp2(a), form);
        case Operation::tanh: return finish(std::tanh(a), form);
        case Operation::neg:
        case Operation::abs: break;
    }
    return 0;
}

template <size_t N, bool packed>
Step exec(Warp& warp, const Instr& instr, LaneMask lanes) {
    const Form& form = instr.extra_as<Form>();
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
    Operation operation;
    size_t sources;
};
constexpr Opcode kOpcodes[] = {{"add", Operation::add, 2},  {"sub", Operation::sub, 2}, {"mul", Operation::mul, 2},
                               {"fma", Operation::fma, 3},  {"neg", Operation::neg, 1}, {"abs", Operation::abs, 1},
                               {"min", Operation::min, 2},  {"max", Operation::max, 2}, {"ex2", Operation::ex2, 1},
                               {"tanh", Operation::tanh, 1}};

Instr decode(Decoder& decoder) {
    const Statement& statement = decoder.statement();
    Modifiers modifiers(decoder);
    const Opcode* opcode = kOpcodes;
    while (opcode->name != statement.opcode) ++opcode;
    Form form;
    form.operation = opcode->operation;
    const bool function = form.operation == Operation::ex2 || form.operation == Operation::tanh;
    const bool arithmetic =
        opcode->sources >= 2 && form.operation != Operation::min && form.operation != Operation::max;
    if (function && !modifiers.take("approx")) decoder.refuse(".approx is wanted");
    if (arithmetic) {
        const bool written = modifiers.take("rn");
        if (!written && form.operation == Operation::fma) decoder.refuse(".rn is wanted");
    }
    form.rule.ftz = modifiers.take("ftz");
    if (arithmetic) form.rule.sat = modifiers.take("sat");
    if (form.operation == Operation::fma) form.rule.relu = modifiers.take("relu");
    if (form.operation == Operation::min || form.operation == Operation::max) {
        form.nan = modifiers.take("NaN");
        form.xorsign = modifiers.take("xorsign");
        if (form.xorsign && !modifiers.take("abs")) decoder.refuse(".xorsign wants .abs");
    }
    const DataType type = take_type(decoder, modifiers);
    modifiers.done();
    const bool is_bf16 = type == DataType::bf16 || type == DataType::bf16x2;
    const bool packed = type_bits(type) == 32;
    // bf16 has .ftz in ex2 only, where it is always written, and no .sat (PTX ISA 9.7.4).
    if (is_bf16 && (form.rule.sat || form.rule.ftz != (form.operation == Operation::ex2))) {
        decoder.refuse("this form is not modelled");
    }
    if (is_bf16) form.format = kBf16;
    Instr instr;
    switch (opcode->sources) {
        case 1: instr.exec = packed ? exec<1, true> : exec<1, false>; break;
        case 2: instr.exec = packed ? exec<2, true> : exec<2, false>; break;
        default: instr.exec = packed ? exec<3, true> : exec<3, false>; break;
    }
    instr.extra = std::make_shared<Form>(form);
    instr.dst = decoder.dst(0);
    for (size_t i = 0; i < opcode->sources; ++i) instr.src[i] = decoder.src(i + 1, type_bits(type));
    return instr;
}

}  // namespace

const Family half_family = {"half",
                            {"add", "sub", "mul", "fma", "neg", "abs", "min", "max", "ex2", "tanh"},
                            decode,
                            {"f16", "f16x2", "bf16", "bf16x2"}};

}  // namespace nvfp4r::sim
