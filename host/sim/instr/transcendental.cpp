// Roots, reciprocals and approximate functions of f32 and f64 (PTX ISA 9.7.3): rcp, sqrt, rsqrt, ex2, lg2, sin, cos,
// tanh.
//
// The bits of the hardware's approximations are not documented. The correctly rounded value lies within every bound and
// has the same special values (measured on H200 over all inputs), so the approximations give that.
#include "sim/instr/families.hpp"
#include "sim/instr/floats.hpp"

namespace nvfp4r::sim {

namespace {

struct Rcp {
    template <class T>
    T operator()(T a) const {
        return T{1} / a;
    }
    static float scaled(float scale, float a) { return scale / a; }
};
struct Sqrt {
    template <class T>
    T operator()(T a) const {
        return std::sqrt(a);
    }
};
// Through f64, whose 29 extra bits keep the second rounding from mattering.
struct Rsqrt {
    float operator()(float a) const { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(a))); }
    double operator()(double a) const { return 1.0 / std::sqrt(a); }
};
struct Ex2 {
    float operator()(float a) const { return static_cast<float>(std::exp2(static_cast<double>(a))); }
};
struct Lg2 {
    float operator()(float a) const { return static_cast<float>(std::log2(static_cast<double>(a))); }
};
struct Tanh {
    float operator()(float a) const { return static_cast<float>(std::tanh(static_cast<double>(a))); }
};
// The range reduction of the unit takes subnormal angles as zero (measured on H200).
struct Sin {
    float operator()(float a) const { return static_cast<float>(std::sin(static_cast<double>(flush(a)))); }
};
struct Cos {
    float operator()(float a) const { return static_cast<float>(std::cos(static_cast<double>(a))); }
};

Exec approximation(const std::string& opcode) {
    if (opcode == "ex2") return exec_f32<Ex2, 1>;
    if (opcode == "lg2") return exec_f32<Lg2, 1>;
    if (opcode == "sin") return exec_f32<Sin, 1>;
    if (opcode == "cos") return exec_f32<Cos, 1>;
    if (opcode == "tanh") return exec_f32<Tanh, 1>;
    if (opcode == "rsqrt") return exec_f32<Rsqrt, 1>;
    return opcode == "rcp" ? exec_f32<Rcp, 1> : exec_f32<Sqrt, 1>;
}

Instr decode_transcendental(Decoder& decoder) {
    const std::string& opcode = decoder.statement().opcode;
    Modifiers modifiers(decoder);
    FloatRule rule;
    const bool approx = modifiers.take("approx");
    const bool rounds = opcode == "rcp" || opcode == "sqrt";
    if (!approx) rule.rounding = rounds ? take_rounding(modifiers, Rounding::none) : Rounding::none;
    if (!approx && rule.rounding == Rounding::none)
        decoder.refuse(rounds ? ".approx or a rounding is wanted" : ".approx is wanted");
    rule.ftz = modifiers.take("ftz");
    const DataType type = take_type(decoder, modifiers);
    modifiers.done();
    Instr instr;
    if (type == DataType::f32) {
        if (opcode == "tanh" && rule.ftz) decoder.refuse("tanh has no .ftz form");
        instr.exec = approximation(opcode);
    } else if (rule.ftz) {
        decoder.refuse("the coarse .approx.ftz.f64 forms are not modelled");
    } else if (opcode == "rsqrt") {
        instr.exec = exec_f64<Rsqrt, 1>;
    } else if (rounds && !approx) {
        instr.exec = opcode == "rcp" ? exec_f64<Rcp, 1> : exec_f64<Sqrt, 1>;
    } else {
        decoder.refuse("this form is not modelled");
    }
    instr.detail = rule.pack();
    instr.dst = decoder.dst(0);
    instr.src[0] = decoder.src(1, type_bits(type));
    return instr;
}

}  // namespace

const Family transcendental_family = {"transcendental",
                                      {"rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh"},
                                      decode_transcendental,
                                      {"f32", "f64"}};

}  // namespace nvfp4r::sim
