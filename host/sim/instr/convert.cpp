// cvt between scalar types (PTX ISA 9.7.9.21): integers of 8 to 64 bits, f16, bf16, f32, f64 and tf32.
#include <algorithm>

#include "core/error.hpp"
#include "sim/instr/families.hpp"
#include "sim/instr/floats.hpp"
#include "sim/instr/integers.hpp"

namespace nvfp4r::sim {

namespace {

struct ConvertConversion {
    DataType to = DataType::none, from = DataType::none;
    Rounding rounding = Rounding::none;
    bool integral = false;  // .rni .rzi .rmi .rpi
    bool ftz = false, sat = false, satfinite = false, relu = false;
    uint32_t register_bits = 0;  // of the destination: a narrower integer is extended to it
};

bool is_integer(DataType type) {
    return is_signed(type) || is_unsigned(type);
}

const FloatFormat& format_of(DataType type) {
    switch (type) {
        case DataType::f16: return kF16;
        case DataType::bf16: return kBf16;
        case DataType::f64: return kF64;
        case DataType::tf32: return kTf32;
        default: return kF32;
    }
}

uint64_t low_bits_convert(uint64_t value, uint32_t bits) {
    return bits < 64 ? value & ((uint64_t{1} << bits) - 1) : value;
}

uint64_t sign_extended(uint64_t value, uint32_t bits) {
    return bits < 64 ? static_cast<uint64_t>(static_cast<int64_t>(value << (64 - bits)) >> (64 - bits)) : value;
}

/// The source integer, extended to 64 bits by its own sign.
uint64_t load_integer(const ConvertConversion& form, uint64_t slot) {
    const uint32_t bits = type_bits(form.from);
    return is_signed(form.from) ? sign_extended(slot, bits) : low_bits_convert(slot, bits);
}

/// A 64-bit integer cut to the destination type and extended to its register.
uint64_t store_integer(const ConvertConversion& form, uint64_t value) {
    const uint32_t bits = type_bits(form.to);
    const uint64_t cut = is_signed(form.to) ? sign_extended(value, bits) : low_bits_convert(value, bits);
    return low_bits_convert(cut, form.register_bits);
}

Int128 least_of(DataType type) {
    return is_signed(type) ? -(Int128{1} << (type_bits(type) - 1)) : 0;
}
Int128 most_of(DataType type) {
    return (Int128{1} << (type_bits(type) - (is_signed(type) ? 1 : 0))) - 1;
}

struct IntegerToInteger {
    const ConvertConversion& form;
    explicit IntegerToInteger(const Instr& instr) : form(instr.extra_as<ConvertConversion>()) {}
    uint64_t operator()(uint64_t slot) const {
        const uint64_t value = load_integer(form, slot);
        if (!form.sat) return store_integer(form, value);
        const Int128 exact = is_signed(form.from) ? Int128{as<int64_t>(value)} : Int128{value};
        return store_integer(form, static_cast<uint64_t>(std::clamp(exact, least_of(form.to), most_of(form.to))));
    }
};

struct IntegerToFloat {
    const ConvertConversion& form;
    explicit IntegerToFloat(const Instr& instr) : form(instr.extra_as<ConvertConversion>()) {}
    uint64_t operator()(uint64_t slot) const {
        const uint64_t value = load_integer(form, slot);
        const FloatFormat& format = format_of(form.to);
        const bool negative = is_signed(form.from) && as<int64_t>(value) < 0;
        if (form.sat) return negative || value == 0 ? 0 : encode_integer(false, 1, 0, format, Rounding::rn, false);
        const uint64_t magnitude = negative ? uint64_t{0} - value : value;
        return encode_integer(negative, magnitude, 0, format, form.rounding, false);
    }
};

double round_integral(double value, Rounding rounding) {
    switch (rounding) {
        case Rounding::rz: return std::trunc(value);
        case Rounding::rm: return std::floor(value);
        case Rounding::rp: return std::ceil(value);
        default: return std::nearbyint(value);
    }
}

double load_float(const ConvertConversion& form, uint64_t slot) {
    if (form.from == DataType::f64) return f64_of(slot);
    const double value = form.from == DataType::f32
                             ? static_cast<double>(f32_of(slot))
                             : decode_value(low_bits_convert(slot, type_bits(form.from)), format_of(form.from));
    // .ftz flushes f32 only; its subnormals are normal numbers in f64.
    // Nor does the conversion to f16 flush: its directed roundings see them (measured on H200).
    const bool flushes = form.ftz && form.from == DataType::f32 && form.to != DataType::f16;
    const bool subnormal = flushes && std::fabs(value) < 0x1p-126;
    return subnormal ? std::copysign(0.0, value) : value;
}

// Always saturates. NaN gives 0, or the top bit alone for 64-bit types (PTX ISA 9.7.9.21).
struct FloatToInteger {
    const ConvertConversion& form;
    explicit FloatToInteger(const Instr& instr) : form(instr.extra_as<ConvertConversion>()) {}
    uint64_t operator()(uint64_t slot) const {
        const double value = round_integral(load_float(form, slot), form.rounding);
        const uint32_t bits = type_bits(form.to);
        if (value != value) {
            const bool top = form.from == DataType::f64 || bits == 64;
            return top ? store_integer(form, uint64_t{1} << (bits - 1)) : 0;
        }
        const double limit = std::ldexp(1.0, static_cast<int>(bits) - (is_signed(form.to) ? 1 : 0));
        if (value >= limit) return store_integer(form, static_cast<uint64_t>(most_of(form.to)));
        if (is_signed(form.to)) {
            if (value <= -limit) return store_integer(form, static_cast<uint64_t>(least_of(form.to)));
            return store_integer(form, static_cast<uint64_t>(static_cast<int64_t>(value)));
        }
        return value <= 0 ? 0 : store_integer(form, static_cast<uint64_t>(value));
    }
};

// A NaN that comes from or becomes an f64: made quiet, with its sign and the leading bits of its payload. .ftz first turns
// an f32 NaN into the one that arithmetic produces (both measured on H200).
uint64_t convert_nan(const ConvertConversion& form, uint64_t slot) {
    const FloatFormat &from = format_of(form.from), &to = format_of(form.to);
    if (form.from == DataType::f32 && form.ftz) slot = kNan32;
    const uint64_t sign = slot >> from.sign_bit() & 1;
    const uint64_t fraction = slot << (kF64.fraction_bits - from.fraction_bits) & (kQuiet64 * 2 - 1);
    const uint64_t quiet = (fraction | kQuiet64) >> (kF64.fraction_bits - to.fraction_bits);
    return sign << to.sign_bit() | to.infinity | quiet;
}

struct FloatToFloat {
    const ConvertConversion& form;
    explicit FloatToFloat(const Instr& instr) : form(instr.extra_as<ConvertConversion>()) {}
    uint64_t operator()(uint64_t slot) const {
        // A bf16 is the upper half of an f32, payload of a NaN included (measured on H200).
        if (form.from == DataType::bf16 && form.to == DataType::f32 && !form.ftz && !form.sat) {
            return low_bits_convert(slot, 16) << 16;
        }
        double value = load_float(form, slot);
        if (form.integral) value = round_integral(value, form.rounding);
        if (form.sat) value = saturate_unit(value);
        if (form.relu && value <= 0) value = 0.0;
        if (value != value && (form.to == DataType::f64 || form.from == DataType::f64)) return convert_nan(form, slot);
        if (form.to == DataType::f64) return std::bit_cast<uint64_t>(value);
        const FloatFormat& format = format_of(form.to);
        const uint64_t bits = encode(value, format, form.rounding, form.satfinite);
        const bool subnormal = (bits & ((uint64_t{1} << format.sign_bit()) - 1)) >> format.fraction_bits == 0;
        return form.ftz && form.to == DataType::f32 && subnormal ? bits & 0x80000000 : bits;
    }
};

// tf32 is an f32 whose low 13 bits are 0. .rna adds half a unit and cuts, which turns the smallest NaNs into infinity;
// the other roundings give one NaN (measured on H200).
struct ToTf32 {
    const ConvertConversion& form;
    explicit ToTf32(const Instr& instr) : form(instr.extra_as<ConvertConversion>()) {}
    uint64_t operator()(uint64_t slot) const {
        constexpr uint32_t kDropped = 13, kExponent = 0x7f800000;
        const uint32_t bits = as<uint32_t>(slot);
        const bool special = (bits & kExponent) == kExponent;
        if (form.rounding == Rounding::rna && special && !form.satfinite) return bits >> kDropped << kDropped;
        double value = f32_of(slot);
        if (form.relu && value <= 0) value = 0.0;
        return encode(value, kTf32, form.rounding, form.satfinite) << kDropped;
    }
};

void take_flags(Modifiers& modifiers, ConvertConversion& form) {
    const std::pair<std::string_view, Rounding> kIntegral[] = {
        {"rni", Rounding::rn}, {"rzi", Rounding::rz}, {"rmi", Rounding::rm}, {"rpi", Rounding::rp}};
    for (const auto& [name, rounding] : kIntegral) {
        if (!modifiers.take(name)) continue;
        form.integral = true;
        form.rounding = rounding;
    }
    if (modifiers.take("rna")) form.rounding = Rounding::rna;
    if (form.rounding == Rounding::none) form.rounding = take_rounding(modifiers, Rounding::none);
    for (bool taken = true; taken;) {
        taken = false;
        for (auto [name, flag] : {std::pair<const char*, bool*>{"ftz", &form.ftz},
                                  {"sat", &form.sat},
                                  {"satfinite", &form.satfinite},
                                  {"relu", &form.relu}}) {
            if (!*flag && modifiers.take(name)) *flag = taken = true;
        }
    }
}

// A rounding is written exactly where the result need not be exact (PTX ISA 9.7.9.21).
void check_rounding(Decoder& decoder, const ConvertConversion& form) {
    const bool from_integer = is_integer(form.from), to_integer = is_integer(form.to);
    if (from_integer && to_integer) {
        if (form.rounding != Rounding::none) decoder.refuse("a rounding between integers");
    } else if (to_integer) {
        if (!form.integral) decoder.refuse("one of .rni, .rzi, .rmi and .rpi is wanted");
    } else if (from_integer) {
        if (form.rounding == Rounding::none || form.integral) decoder.refuse("one of .rn, .rz, .rm and .rp is wanted");
    } else {
        const bool narrows = format_of(form.to).fraction_bits < format_of(form.from).fraction_bits ||
                             format_of(form.to).exponent_bits < format_of(form.from).exponent_bits;
        if (narrows && (form.rounding == Rounding::none || form.integral)) decoder.refuse("a rounding is wanted");
        if (!narrows && form.rounding != Rounding::none && !form.integral && form.to != form.from) {
            decoder.refuse("a rounding of an exact conversion");
        }
    }
}

Exec exec_for(const ConvertConversion& form) {
    if (form.to == DataType::tf32) return exec_map<ToTf32, 1>;
    if (is_integer(form.from)) {
        return is_integer(form.to) ? exec_map<IntegerToInteger, 1> : exec_map<IntegerToFloat, 1>;
    }
    return is_integer(form.to) ? exec_map<FloatToInteger, 1> : exec_map<FloatToFloat, 1>;
}

uint32_t register_bits(Decoder& decoder, const Operand& operand) {
    switch (operand.cls) {
        case RegClass::b8: return 8;
        case RegClass::b16: return 16;
        case RegClass::b32: return 32;
        case RegClass::b64: return 64;
        default: decoder.refuse("the destination is no register of 8 to 64 bits"); return 0;
    }
}

Instr decode_convert(Decoder& decoder) {
    Modifiers modifiers(decoder);
    auto form = std::make_shared<ConvertConversion>();
    take_flags(modifiers, *form);
    form->to = take_type(decoder, modifiers);
    form->from = take_type(decoder, modifiers);
    modifiers.done();
    auto scalar = [](DataType type) {
        return is_integer(type) || type == DataType::f16 || type == DataType::bf16 || type == DataType::f32 ||
               type == DataType::f64;
    };
    const bool to_tf32 = form->to == DataType::tf32 && form->from == DataType::f32;
    if (!to_tf32 && (!scalar(form->to) || !scalar(form->from))) decoder.refuse("this pair of types is not modelled");
    if (to_tf32 && (form->rounding == Rounding::none || form->integral)) decoder.refuse("a rounding is wanted");
    if (!to_tf32 && form->rounding == Rounding::rna) decoder.refuse(".rna is for .tf32");
    if (form->ftz && form->to != DataType::f32 && form->from != DataType::f32) decoder.refuse(".ftz is for .f32");
    if (!to_tf32) check_rounding(decoder, *form);
    if (decoder.statement().operands.size() != 2) decoder.refuse("cvt has two operands here");
    form->register_bits = register_bits(decoder, decoder.statement().operands[0]);
    if (form->register_bits < type_bits(form->to)) decoder.refuse("the destination register is too narrow");
    Instr instr;
    instr.exec = exec_for(*form);
    instr.dst = decoder.dst(0);
    instr.src[0] = decoder.src(1, type_bits(form->from));
    instr.extra = std::move(form);
    return instr;
}

}  // namespace

const Family convert_family = {"convert", {"cvt"}, decode_convert};

}  // namespace nvfp4r::sim
