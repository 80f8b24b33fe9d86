// cvt of pairs (PTX ISA 9.7.9.21): f16x2 and bf16x2, the 8-, 6- and 4-bit formats, and scale exponents; cvt.pack
// (9.7.9.22). Of two sources the first goes to the high half.
#include <algorithm>

#include "sim/instr/families.hpp"
#include "sim/instr/floats.hpp"
#include "sim/instr/integers.hpp"

namespace nvfp4r::sim {

namespace {

struct ConvertPackedConversion {
    DataType to = DataType::none, from = DataType::none;
    Rounding rounding = Rounding::none;
    bool satfinite = false, relu = false;
};

/// One element of a pair: its format and how many bits it takes.
struct ConvertPackedElement {
    const FloatFormat* format;
    uint32_t bits;
};
ConvertPackedElement convert_packed_element_of(DataType type) {
    switch (type) {
        case DataType::f16x2: return {&kF16, 16};
        case DataType::bf16x2: return {&kBf16, 16};
        case DataType::e4m3x2: return {&kE4m3, 8};
        case DataType::e5m2x2: return {&kE5m2, 8};
        case DataType::e2m3x2: return {&kE2m3, 8};
        case DataType::e3m2x2: return {&kE3m2, 8};
        case DataType::e2m1x2: return {&kE2m1, 4};
        default: return {&kF32, 32};
    }
}

// A power of two as its biased exponent, 0xff for NaN. The sign is dropped; what lies below 2^-127 becomes that.
uint64_t encode_ue8m0(double value, const ConvertPackedConversion& form) {
    constexpr uint64_t kNan = 0xff, kMost = 0xfe;
    constexpr int kBias = 127;
    if (value != value) return kNan;
    value = std::fabs(value);
    if (std::isinf(value)) return form.satfinite ? kMost : kNan;
    if (value <= 0x1p-127) return 0;
    int exponent = 0;
    const double fraction = std::frexp(value, &exponent);  // value = fraction * 2^exponent, fraction in [0.5, 1)
    const int biased = exponent - 1 + kBias + (form.rounding == Rounding::rp && fraction > 0.5 ? 1 : 0);
    if (biased > static_cast<int>(kMost)) return form.satfinite ? kMost : kNan;
    return static_cast<uint64_t>(biased);
}

uint64_t encode_element(double value, const ConvertPackedConversion& form) {
    if (form.to == DataType::ue8m0x2) return encode_ue8m0(value, form);
    if (form.relu && value <= 0) value = 0.0;
    return encode(value, *convert_packed_element_of(form.to).format, form.rounding, form.satfinite);
}

double decode_element(uint64_t bits, const ConvertPackedConversion& form) {
    if (form.from == DataType::ue8m0x2) {
        return (bits & 0xff) == 0xff ? std::nan("") : std::ldexp(1.0, static_cast<int>(bits & 0xff) - 127);
    }
    const ConvertPackedElement element = convert_packed_element_of(form.from);
    return decode_value(bits & ((uint64_t{1} << element.bits) - 1), *element.format);
}

uint32_t bits_to(const ConvertPackedConversion& form) {
    return form.to == DataType::ue8m0x2 ? 8 : convert_packed_element_of(form.to).bits;
}

struct TwoFloats {
    const ConvertPackedConversion& form;
    explicit TwoFloats(const Instr& instr) : form(instr.extra_as<ConvertPackedConversion>()) {}
    uint64_t operator()(uint64_t high, uint64_t low) const {
        return encode_element(f32_of(low), form) | encode_element(f32_of(high), form) << bits_to(form);
    }
};
struct OnePair {
    const ConvertPackedConversion& form;
    explicit OnePair(const Instr& instr) : form(instr.extra_as<ConvertPackedConversion>()) {}
    uint64_t operator()(uint64_t pair) const {
        const uint32_t bits = form.from == DataType::ue8m0x2 ? 8 : convert_packed_element_of(form.from).bits;
        return encode_element(decode_element(pair, form), form) |
               encode_element(decode_element(pair >> bits, form), form) << bits_to(form);
    }
};

bool is_half_pair(DataType type) {
    return type == DataType::f16x2 || type == DataType::bf16x2;
}
bool is_eight_bit(DataType type) {
    return type == DataType::e4m3x2 || type == DataType::e5m2x2;
}
bool is_small(DataType type) {
    return type == DataType::e2m1x2 || type == DataType::e2m3x2 || type == DataType::e3m2x2;
}

// The forms that ptxas 13.0 accepts (isa.md 11.1 and its appendix).
void check(Decoder& decoder, const ConvertPackedConversion& form) {
    const bool ue8m0 = form.to == DataType::ue8m0x2 || form.from == DataType::ue8m0x2;
    if ((ue8m0 || is_small(form.to) || is_small(form.from)) && !(decoder.sm() >= 100 && decoder.arch_specific())) {
        decoder.refuse("4- and 6-bit formats and ue8m0 exist on sm_100a and its like only");
    }
    bool known = false;
    if (is_half_pair(form.to) && form.from == DataType::f32) {
        known = form.rounding == Rounding::rn || form.rounding == Rounding::rz;
    } else if (is_eight_bit(form.to) || is_small(form.to)) {
        known = form.rounding == Rounding::rn && form.satfinite &&
                (form.from == DataType::f32 || form.from == DataType::f16x2);
    } else if (form.to == DataType::f16x2) {
        known = form.rounding == Rounding::rn && !form.satfinite && (is_eight_bit(form.from) || is_small(form.from));
    } else if (form.to == DataType::ue8m0x2) {
        known = (form.rounding == Rounding::rz || form.rounding == Rounding::rp) && !form.relu &&
                (form.from == DataType::f32 || form.from == DataType::bf16x2);
    } else if (form.to == DataType::bf16x2) {
        known = form.rounding == Rounding::rn && form.from == DataType::ue8m0x2 && !form.relu && !form.satfinite;
    }
    if (!known) decoder.refuse("this pair of types and modifiers is not modelled");
}

Instr decode_convert_packed(Decoder& decoder) {
    Modifiers modifiers(decoder);
    auto form = std::make_shared<ConvertPackedConversion>();
    form->rounding = take_rounding(modifiers, Rounding::none);
    form->satfinite = modifiers.take("satfinite");
    form->relu = modifiers.take("relu");
    form->satfinite |= modifiers.take("satfinite");
    form->to = take_type(decoder, modifiers);
    form->from = take_type(decoder, modifiers);
    modifiers.done();
    check(decoder, *form);
    Instr instr;
    instr.dst = decoder.dst(0);
    const bool two = form->from == DataType::f32;
    instr.exec = two ? exec_map<TwoFloats, 2> : exec_map<OnePair, 1>;
    for (size_t i = 0; i < (two ? 2u : 1u); ++i) instr.src[i] = decoder.src(i + 1, type_bits(form->from));
    // ptxas takes e2m1x2 in .b8 registers only.
    const RegClass cls = decoder.statement().operands.at(0).cls;
    if (form->to == DataType::e2m1x2 && cls != RegClass::b8) decoder.refuse("the destination is a .b8 register");
    instr.extra = std::move(form);
    return instr;
}

template <class T>
uint64_t clamp_to(uint64_t slot) {
    const int64_t value = as<int32_t>(slot);
    return slot_of(
        static_cast<T>(std::clamp<int64_t>(value, std::numeric_limits<T>::min(), std::numeric_limits<T>::max())));
}
// Two saturated values; the first source is the high one.
template <class T>
struct PackHalves {
    uint64_t operator()(uint64_t a, uint64_t b) const { return clamp_to<T>(a) << 16 | clamp_to<T>(b); }
};
// Two saturated bytes below the low half of c, which moves up.
template <class T>
struct PackBytes {
    uint64_t operator()(uint64_t a, uint64_t b, uint64_t c) const {
        return (c & 0xffff) << 16 | clamp_to<T>(a) << 8 | clamp_to<T>(b);
    }
};

Instr decode_pack(Decoder& decoder) {
    Modifiers modifiers(decoder);
    modifiers.take("pack");
    if (!modifiers.take("sat")) decoder.refuse(".sat is wanted");
    const DataType to = take_type(decoder, modifiers);
    if (take_type(decoder, modifiers) != DataType::s32) decoder.refuse("the source type is .s32");
    const bool bytes = type_bits(to) == 8;
    if (bytes && take_type(decoder, modifiers) != DataType::b32) decoder.refuse(".b32 is wanted");
    modifiers.done();
    Instr instr;
    switch (to) {
        case DataType::u16: instr.exec = exec_map<PackHalves<uint16_t>, 2>; break;
        case DataType::s16: instr.exec = exec_map<PackHalves<int16_t>, 2>; break;
        case DataType::u8: instr.exec = exec_map<PackBytes<uint8_t>, 3>; break;
        case DataType::s8: instr.exec = exec_map<PackBytes<int8_t>, 3>; break;
        default: decoder.refuse("this form is not modelled");
    }
    instr.dst = decoder.dst(0);
    for (size_t i = 0; i < (bytes ? 3u : 2u); ++i) instr.src[i] = decoder.src(i + 1, 32);
    return instr;
}

}  // namespace

const Family convert_packed_family = {
    "packed convert",
    {"cvt"},
    decode_convert_packed,
    {"f16x2.f32", "bf16x2.f32", "e4m3x2.f32", "e5m2x2.f32", "e2m1x2.f32", "e2m3x2.f32", "e3m2x2.f32", "ue8m0x2.f32",
     "f16x2", "bf16x2", "e4m3x2", "e5m2x2", "e2m1x2", "e2m3x2", "e3m2x2", "ue8m0x2"}};

const Family convert_pack_family = {"cvt.pack", {"cvt.pack"}, decode_pack};

}  // namespace nvfp4r::sim
