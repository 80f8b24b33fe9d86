// f32, f64, packed f32x2 and mixed-precision arithmetic (PTX ISA 9.7.3, 9.7.5): add, sub, mul, fma, mad, div, abs, neg,
// copysign, testp.
#include "core/error.hpp"
#include "sim/instr/families.hpp"
#include "sim/instr/floats.hpp"

namespace nvfp4r::sim {

namespace {

struct FloatArithmeticAdd {
    template <class T>
    T operator()(T a, T b) const {
        return a + b;
    }
};
struct FloatArithmeticSub {
    template <class T>
    T operator()(T a, T b) const {
        return a - b;
    }
};
struct Mul {
    template <class T>
    T operator()(T a, T b) const {
        return a * b;
    }
    static float scaled(float scale, float a, float b) { return a * scale * b; }
};
struct Fma {
    template <class T>
    T operator()(T a, T b, T c) const {
        return std::fma(a, b, c);
    }
    static float scaled(float scale, float a, float b, float c) { return std::fma(a * scale, b, c * scale); }
};
struct FloatArithmeticDiv {
    template <class T>
    T operator()(T a, T b) const {
        return a / b;
    }
    static float scaled(float scale, float a, float b) { return a * scale / b; }
};
// a * (1/b), whose reciprocal is 0 beyond 2^126 (PTX ISA 9.7.3.8).
struct DivApprox {
    float operator()(float a, float b) const {
        if (std::fabs(b) > 0x1p126f && std::isfinite(b)) return a * std::copysign(0.0f, b);
        return a / b;
    }
};
struct FloatArithmeticNeg {
    template <class T>
    T operator()(T a) const {
        return -a;
    }
};
struct FloatArithmeticAbs {
    template <class T>
    T operator()(T a) const {
        return std::fabs(a);
    }
};

template <uint64_t sign>
struct CopySign {
    uint64_t operator()(uint64_t a, uint64_t b) const { return (a & sign) | (b & (sign - 1)); }
};

enum class Test : uint64_t { finite, infinite, number, notanumber, normal, subnormal };

template <class T>
bool passes(Test test, T value) {
    switch (test) {
        case Test::finite: return std::isfinite(value);
        case Test::infinite: return std::isinf(value);
        case Test::number: return !std::isnan(value);
        case Test::notanumber: return std::isnan(value);
        case Test::normal: return std::isnormal(value) || value == 0;  // zero counts (PTX ISA 9.7.3.2)
        case Test::subnormal: return std::fpclassify(value) == FP_SUBNORMAL;
    }
    return false;
}

template <bool wide>
Step exec_testp(Warp& warp, const Instr& instr, LaneMask lanes) {
    Lanes scratch;
    const uint64_t* a = warp.read(instr.src[0], scratch, lanes);
    const auto test = static_cast<Test>(instr.detail);
    const LaneMask mask = lanes_where(
        lanes, [&](uint32_t lane) { return wide ? passes(test, f64_of(a[lane])) : passes(test, f32_of(a[lane])); });
    write_pred(warp, instr.dst, mask, lanes);
    return Step::next;
}

// add.f32.bf16 and the like: the 16-bit sources are widened exactly, then it is the f32 operation.
template <class Op, size_t narrow, size_t N>
Step exec_mixed(Warp& warp, const Instr& instr, LaneMask lanes) {
    const FloatRule rule = FloatRule::of(instr);
    const FloatFormat& format = instr.extra_as<FloatFormat>();
    const RoundingScope scope(rule.rounding);
    auto widen = [&](uint64_t slot) { return static_cast<float>(decode_value(slot & 0xffff, format)); };
    if constexpr (N == 2) {
        return map_lanes<2>(warp, instr, lanes,
                            [&](uint64_t a, uint64_t c) { return store_f32(Op{}(widen(a), f32_of(c)), rule); });
    } else {
        return map_lanes<3>(warp, instr, lanes, [&](uint64_t a, uint64_t b, uint64_t c) {
            return store_f32(Op{}(widen(a), widen(b), f32_of(c)), rule);
        });
    }
}

template <class Op, size_t N>
Exec exec_of(DataType type) {
    switch (type) {
        case DataType::f32: return exec_f32<Op, N>;
        case DataType::f64: return exec_f64<Op, N>;
        case DataType::f32x2: return exec_f32x2<Op, N>;
        default: return nullptr;
    }
}

bool has_pairs(const Decoder& decoder) {
    return decoder.sm() >= 100;
}

Instr finish_float_arithmetic(Decoder& decoder, Exec exec, const FloatRule& rule, size_t sources, uint32_t bits) {
    if (!exec) decoder.refuse("this form is not modelled");
    Instr instr;
    instr.exec = exec;
    instr.detail = rule.pack();
    instr.dst = decoder.dst(0);
    for (size_t i = 0; i < sources; ++i) instr.src[i] = decoder.src(i + 1, bits);
    return instr;
}

Instr decode_mixed(Decoder& decoder, const std::string& opcode, DataType narrow, const FloatRule& rule) {
    if (decoder.sm() < 100) decoder.refuse("mixed-precision arithmetic exists on sm_100 and up");
    if (narrow != DataType::f16 && narrow != DataType::bf16) decoder.refuse("the narrow type is .f16 or .bf16");
    Instr instr;
    const size_t sources = opcode == "fma" ? 3 : 2;
    instr.exec = opcode == "fma"   ? exec_mixed<Fma, 2, 3>
                 : opcode == "add" ? exec_mixed<FloatArithmeticAdd, 1, 2>
                 : opcode == "sub" ? exec_mixed<FloatArithmeticSub, 1, 2>
                                   : nullptr;
    if (!instr.exec) decoder.refuse("this form is not modelled");
    instr.detail = rule.pack();
    instr.extra = std::make_shared<FloatFormat>(narrow == DataType::f16 ? kF16 : kBf16);
    instr.dst = decoder.dst(0);
    for (size_t i = 0; i < sources; ++i) instr.src[i] = decoder.src(i + 1, i + 1 < sources ? 16 : 32);
    return instr;
}

// {add,sub,mul,fma,mad}{.rnd}{.ftz}{.sat}.type{.narrow type}
Instr decode_arithmetic(Decoder& decoder, Modifiers& modifiers, const std::string& opcode) {
    const bool fused = opcode == "fma" || opcode == "mad";
    FloatRule rule;
    rule.rounding = take_rounding(modifiers, Rounding::none);
    if (fused && rule.rounding == Rounding::none) decoder.refuse("a rounding modifier is wanted");
    rule.ftz = modifiers.take("ftz");
    rule.sat = modifiers.take("sat");
    const DataType type = take_type(decoder, modifiers);
    if (type == DataType::f64 && (rule.ftz || rule.sat)) decoder.refuse(".ftz and .sat are for .f32");
    if (type == DataType::f32x2 && !has_pairs(decoder)) decoder.refuse(".f32x2 exists on sm_100 and up");
    if (type == DataType::f32x2 && (rule.sat || opcode == "mad")) decoder.refuse("this form is not modelled");
    if (!modifiers.empty()) {
        const DataType narrow = take_type(decoder, modifiers);
        modifiers.done();
        if (type != DataType::f32 || rule.ftz) decoder.refuse("this form is not modelled");
        return decode_mixed(decoder, opcode, narrow, rule);
    }
    const Exec exec = fused             ? exec_of<Fma, 3>(type)
                      : opcode == "add" ? exec_of<FloatArithmeticAdd, 2>(type)
                      : opcode == "sub" ? exec_of<FloatArithmeticSub, 2>(type)
                                        : exec_of<Mul, 2>(type);
    return finish_float_arithmetic(decoder, exec, rule, fused ? 3 : 2, type_bits(type));
}

Instr decode_div(Decoder& decoder, Modifiers& modifiers) {
    const bool approx = modifiers.take("approx");
    const bool full = !approx && modifiers.take("full");
    FloatRule rule;
    if (!approx && !full) rule.rounding = take_rounding(modifiers, Rounding::none);
    if (!approx && !full && rule.rounding == Rounding::none)
        decoder.refuse("one of .approx, .full or a rounding is wanted");
    rule.ftz = modifiers.take("ftz");
    const DataType type = take_type(decoder, modifiers);
    if (type != DataType::f32 && (approx || full || rule.ftz || type != DataType::f64)) {
        decoder.refuse("this form is not modelled");
    }
    const Exec exec = approx                  ? exec_f32<DivApprox, 2>
                      : type == DataType::f32 ? exec_f32<FloatArithmeticDiv, 2>
                                              : exec_f64<FloatArithmeticDiv, 2, true>;
    return finish_float_arithmetic(decoder, exec, rule, 2, type_bits(type));
}

Instr decode_sign(Decoder& decoder, Modifiers& modifiers, bool neg) {
    FloatRule rule;
    rule.ftz = modifiers.take("ftz");
    const DataType type = take_type(decoder, modifiers);
    if (type == DataType::f32x2 || (rule.ftz && type != DataType::f32)) decoder.refuse("this form is not modelled");
    return finish_float_arithmetic(decoder,
                                   neg ? exec_of<FloatArithmeticNeg, 1>(type) : exec_of<FloatArithmeticAbs, 1>(type),
                                   rule, 1, type_bits(type));
}

Instr decode_testp(Decoder& decoder, Modifiers& modifiers) {
    const std::string_view name = modifiers.next("the test");
    const std::pair<std::string_view, Test> kTests[] = {{"finite", Test::finite}, {"infinite", Test::infinite},
                                                        {"number", Test::number}, {"notanumber", Test::notanumber},
                                                        {"normal", Test::normal}, {"subnormal", Test::subnormal}};
    Instr instr;
    const Test* test = nullptr;
    for (const auto& [text, value] : kTests) {
        if (text == name) test = &value;
    }
    if (!test) decoder.refuse("the test is not one of testp");
    const DataType type = take_type(decoder, modifiers);
    instr.detail = static_cast<uint64_t>(*test);
    instr.exec = type == DataType::f64 ? exec_testp<true> : exec_testp<false>;
    instr.dst = decoder.dst(0);
    instr.src[0] = decoder.src(1, type_bits(type));
    return instr;
}

Instr decode_float_arithmetic(Decoder& decoder) {
    const std::string& opcode = decoder.statement().opcode;
    Modifiers modifiers(decoder);
    Instr instr;
    if (opcode == "div") {
        instr = decode_div(decoder, modifiers);
    } else if (opcode == "neg" || opcode == "abs") {
        instr = decode_sign(decoder, modifiers, opcode == "neg");
    } else if (opcode == "testp") {
        instr = decode_testp(decoder, modifiers);
    } else if (opcode == "copysign") {
        const DataType type = take_type(decoder, modifiers);
        const Exec exec =
            type == DataType::f32 ? exec_map<CopySign<0x80000000u>, 2> : exec_map<CopySign<uint64_t{1} << 63>, 2>;
        instr = finish_float_arithmetic(decoder, exec, FloatRule{}, 2, type_bits(type));
    } else {
        instr = decode_arithmetic(decoder, modifiers, opcode);
    }
    modifiers.done();
    return instr;
}

}  // namespace

const Family float_arithmetic_family = {"float arithmetic",
                                        {"add", "sub", "mul", "fma", "mad", "div", "abs", "neg", "copysign", "testp"},
                                        decode_float_arithmetic,
                                        {"f32", "f64", "f32x2", "f32.f16", "f32.bf16"}};

}  // namespace nvfp4r::sim
