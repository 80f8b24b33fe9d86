// Integer arithmetic (PTX ISA 9.7.1): add, sub, mul, mad, mul24, mad24, sad, div, rem, abs, neg, min, max.
#include <algorithm>
#include <limits>

#include "sim/instr/families.hpp"
#include "sim/instr/integers.hpp"

namespace nvfp4r::sim {

namespace {

template <class T>
struct IntegerAdd {
    uint64_t operator()(uint64_t a, uint64_t b) const { return as<T>(a + b); }
};
template <class T>
struct IntegerSub {
    uint64_t operator()(uint64_t a, uint64_t b) const { return as<T>(a - b); }
};
template <class T>
struct MulLo {
    uint64_t operator()(uint64_t a, uint64_t b) const { return as<T>(a * b); }
};
template <class T>
struct MadLo {
    uint64_t operator()(uint64_t a, uint64_t b, uint64_t c) const { return as<T>(a * b + c); }
};

template <class T>
Wide<T> product(uint64_t a, uint64_t b) {
    return static_cast<Wide<T>>(static_cast<Wide<T>>(as<T>(a)) * static_cast<Wide<T>>(as<T>(b)));
}
template <class T>
struct MulHi {
    uint64_t operator()(uint64_t a, uint64_t b) const {
        return slot_of(static_cast<T>(product<T>(a, b) >> std::numeric_limits<std::make_unsigned_t<T>>::digits));
    }
};
template <class T>
struct MadHi {
    uint64_t operator()(uint64_t a, uint64_t b, uint64_t c) const {
        return as<std::make_unsigned_t<T>>(MulHi<T>{}(a, b) + c);
    }
};

int32_t saturate(int64_t value) {
    return static_cast<int32_t>(std::clamp<int64_t>(value, INT32_MIN, INT32_MAX));
}
struct AddSat {
    uint64_t operator()(uint64_t a, uint64_t b) const {
        return slot_of(saturate(int64_t{as<int32_t>(a)} + as<int32_t>(b)));
    }
};
struct SubSat {
    uint64_t operator()(uint64_t a, uint64_t b) const {
        return slot_of(saturate(int64_t{as<int32_t>(a)} - as<int32_t>(b)));
    }
};
struct MadHiSat {
    uint64_t operator()(uint64_t a, uint64_t b, uint64_t c) const {
        return slot_of(saturate(int64_t{as<int32_t>(MulHi<int32_t>{}(a, b))} + as<int32_t>(c)));
    }
};

// mul.wide and mad.wide exist for 16 and 32 bits; the wide value fits 64.
template <class T>
struct MulWide {
    uint64_t operator()(uint64_t a, uint64_t b) const { return slot_of(product<T>(a, b)); }
};
template <class T>
struct MadWide {
    uint64_t operator()(uint64_t a, uint64_t b, uint64_t c) const {
        return as<std::make_unsigned_t<Wide<T>>>(slot_of(product<T>(a, b)) + c);
    }
};

template <class T>
int64_t low24(uint64_t slot) {
    if (std::is_signed_v<T>) return static_cast<int64_t>(slot << 40) >> 40;
    return static_cast<int64_t>(slot & 0xffffff);
}
// .lo is the low 32 bits of the 48-bit product, .hi its bits 47..16.
template <class T, int shift>
struct Mul24 {
    uint64_t operator()(uint64_t a, uint64_t b) const {
        return as<uint32_t>(static_cast<uint64_t>(low24<T>(a) * low24<T>(b)) >> shift);
    }
};
template <class T, int shift>
struct Mad24 {
    uint64_t operator()(uint64_t a, uint64_t b, uint64_t c) const { return as<uint32_t>(Mul24<T, shift>{}(a, b) + c); }
};
struct Mad24HiSat {
    uint64_t operator()(uint64_t a, uint64_t b, uint64_t c) const {
        return slot_of(saturate(int64_t{as<int32_t>(Mul24<int32_t, 16>{}(a, b))} + as<int32_t>(c)));
    }
};

template <class T>
struct Sad {
    uint64_t operator()(uint64_t a, uint64_t b, uint64_t c) const {
        const T x = as<T>(a), y = as<T>(b);
        return as<std::make_unsigned_t<T>>(c + (x < y ? b - a : a - b));
    }
};

// Division by zero is machine specific (PTX ISA 9.7.1.7): all ones, and the dividend as the rest. The one quotient that
// overflows wraps.
template <class T>
bool overflows(T x, T y) {
    return std::is_signed_v<T> && x == std::numeric_limits<T>::min() && y == static_cast<T>(-1);
}
template <class T>
struct IntegerDiv {
    uint64_t operator()(uint64_t a, uint64_t b) const {
        const T x = as<T>(a), y = as<T>(b);
        if (y == 0) return slot_of(static_cast<T>(-1));
        return slot_of(overflows(x, y) ? x : static_cast<T>(x / y));
    }
};
template <class T>
struct Rem {
    uint64_t operator()(uint64_t a, uint64_t b) const {
        const T x = as<T>(a), y = as<T>(b);
        if (y == 0) return slot_of(x);
        return slot_of(overflows(x, y) ? T{0} : static_cast<T>(x % y));
    }
};

template <class T>
struct IntegerNeg {
    uint64_t operator()(uint64_t a) const { return as<T>(uint64_t{0} - a); }
};
template <class T>
struct IntegerAbs {
    uint64_t operator()(uint64_t a) const { return as<T>(a) < 0 ? IntegerNeg<std::make_unsigned_t<T>>{}(a) : a; }
};
template <class T>
struct Min {
    uint64_t operator()(uint64_t a, uint64_t b) const { return slot_of(std::min(as<T>(a), as<T>(b))); }
};
template <class T>
struct Max {
    uint64_t operator()(uint64_t a, uint64_t b) const { return slot_of(std::max(as<T>(a), as<T>(b))); }
};

// .relu: a negative result becomes 0.
template <class Inner>
struct Relu32 {
    uint64_t operator()(uint64_t a, uint64_t b) const {
        const uint64_t value = Inner{}(a, b);
        return as<int32_t>(value) < 0 ? 0 : value;
    }
};

// Two 16-bit halves, each by Op<T>.
template <template <class> class Op, class T, bool relu>
struct Halves {
    uint64_t operator()(uint64_t a, uint64_t b) const { return half(a, b) | half(a >> 16, b >> 16) << 16; }
    static uint64_t half(uint64_t a, uint64_t b) {
        const uint64_t value = Op<T>{}(a & 0xffff, b & 0xffff) & 0xffff;
        return relu && as<int16_t>(value) < 0 ? 0 : value;
    }
};
template <template <class> class Op>
Exec exec_halves(bool is_signed_type, bool relu) {
    if (!is_signed_type) return exec_map<Halves<Op, uint16_t, false>, 2>;
    return relu ? exec_map<Halves<Op, int16_t, true>, 2> : exec_map<Halves<Op, int16_t, false>, 2>;
}

bool is_halves(DataType type) {
    return type == DataType::u16x2 || type == DataType::s16x2;
}

Exec decode_add_sub(Decoder& decoder, Modifiers& modifiers, DataType& type, bool sub) {
    const bool sat = modifiers.take("sat");
    type = take_type(decoder, modifiers);
    if (sat && type != DataType::s32) decoder.refuse(".sat is for .s32");
    if (sat) return sub ? exec_map<SubSat, 2> : exec_map<AddSat, 2>;
    if (is_halves(type)) return sub ? nullptr : exec_map<Halves<IntegerAdd, uint16_t, false>, 2>;
    return sub ? exec_by_width<IntegerSub, 2>(type) : exec_by_width<IntegerAdd, 2>(type);
}

Exec exec_integer_wide(DataType type, bool mad) {
    switch (type) {
        case DataType::u16: return mad ? exec_map<MadWide<uint16_t>, 3> : exec_map<MulWide<uint16_t>, 2>;
        case DataType::s16: return mad ? exec_map<MadWide<int16_t>, 3> : exec_map<MulWide<int16_t>, 2>;
        case DataType::u32: return mad ? exec_map<MadWide<uint32_t>, 3> : exec_map<MulWide<uint32_t>, 2>;
        case DataType::s32: return mad ? exec_map<MadWide<int32_t>, 3> : exec_map<MulWide<int32_t>, 2>;
        default: return nullptr;
    }
}

Exec decode_mul(Decoder& decoder, Modifiers& modifiers, DataType& type, bool mad, bool& wide) {
    enum class Part { none, lo, hi, both };
    const Part part = modifiers.take_one<Part>({{"lo", Part::lo}, {"hi", Part::hi}, {"wide", Part::both}}, Part::none);
    const bool sat = modifiers.take("sat");
    type = take_type(decoder, modifiers);
    if (sat) return mad && part == Part::hi && type == DataType::s32 ? exec_map<MadHiSat, 3> : nullptr;
    if (part == Part::lo) return mad ? exec_by_width<MadLo, 3>(type) : exec_by_width<MulLo, 2>(type);
    if (part == Part::hi) return mad ? exec_by_type<MadHi, 3>(type) : exec_by_type<MulHi, 2>(type);
    if (part == Part::none) decoder.refuse("one of .lo, .hi and .wide is wanted");
    wide = true;
    return exec_integer_wide(type, mad);
}

Exec decode_mul24(Decoder& decoder, Modifiers& modifiers, DataType& type, bool mad) {
    const bool hi = modifiers.take("hi");
    if (!hi && !modifiers.take("lo")) decoder.refuse("one of .lo and .hi is wanted");
    const bool sat = modifiers.take("sat");
    type = take_type(decoder, modifiers);
    if (sat) return mad && hi && type == DataType::s32 ? exec_map<Mad24HiSat, 3> : nullptr;
    if (type == DataType::u32) {
        if (mad) return hi ? exec_map<Mad24<uint32_t, 16>, 3> : exec_map<Mad24<uint32_t, 0>, 3>;
        return hi ? exec_map<Mul24<uint32_t, 16>, 2> : exec_map<Mul24<uint32_t, 0>, 2>;
    }
    if (type != DataType::s32) return nullptr;
    if (mad) return hi ? exec_map<Mad24<int32_t, 16>, 3> : exec_map<Mad24<int32_t, 0>, 3>;
    return hi ? exec_map<Mul24<int32_t, 16>, 2> : exec_map<Mul24<int32_t, 0>, 2>;
}

Exec decode_min_max(Decoder& decoder, Modifiers& modifiers, DataType& type, bool max) {
    const bool relu = modifiers.take("relu");
    type = take_type(decoder, modifiers);
    if (is_halves(type)) {
        if (relu && type != DataType::s16x2) decoder.refuse(".relu is for signed types");
        return max ? exec_halves<Max>(type == DataType::s16x2, relu) : exec_halves<Min>(type == DataType::s16x2, relu);
    }
    if (!relu) return max ? exec_by_type<Max, 2>(type) : exec_by_type<Min, 2>(type);
    if (type != DataType::s32) decoder.refuse(".relu is for .s32 and .s16x2");
    return max ? exec_map<Relu32<Max<int32_t>>, 2> : exec_map<Relu32<Min<int32_t>>, 2>;
}

Instr decode_integer(Decoder& decoder) {
    const std::string& opcode = decoder.statement().opcode;
    Modifiers modifiers(decoder);
    Instr instr;
    DataType type = DataType::none;
    size_t sources = 2;
    bool wide = false;
    if (opcode == "add" || opcode == "sub") {
        instr.exec = decode_add_sub(decoder, modifiers, type, opcode == "sub");
    } else if (opcode == "mul" || opcode == "mad") {
        sources = opcode == "mad" ? 3 : 2;
        instr.exec = decode_mul(decoder, modifiers, type, opcode == "mad", wide);
    } else if (opcode == "mul24" || opcode == "mad24") {
        sources = opcode == "mad24" ? 3 : 2;
        instr.exec = decode_mul24(decoder, modifiers, type, opcode == "mad24");
    } else if (opcode == "min" || opcode == "max") {
        instr.exec = decode_min_max(decoder, modifiers, type, opcode == "max");
    } else {
        type = take_type(decoder, modifiers);
        if (opcode == "sad") {
            sources = 3;
            instr.exec = exec_by_type<Sad, 3>(type);
        } else if (opcode == "div") {
            instr.exec = exec_by_type<IntegerDiv, 2>(type);
        } else if (opcode == "rem") {
            instr.exec = exec_by_type<Rem, 2>(type);
        } else {
            sources = 1;
            if (!is_signed(type)) decoder.refuse("a signed type is wanted");
            instr.exec = opcode == "neg" ? exec_by_width<IntegerNeg, 1>(type) : exec_by_type<IntegerAbs, 1>(type);
        }
    }
    if (!instr.exec) decoder.refuse("this form is not modelled");
    modifiers.done();
    const uint32_t bits = type_bits(type);
    instr.dst = decoder.dst(0);
    for (size_t i = 0; i < sources; ++i) {
        instr.src[i] = decoder.src(i + 1, wide && i == 2 ? 2 * bits : bits);
    }
    return instr;
}

}  // namespace

const Family integer_family = {
    "integer",
    {"add", "sub", "mul", "mad", "mul24", "mad24", "sad", "div", "rem", "abs", "neg", "min", "max"},
    decode_integer,
    {"u16", "s16", "u32", "s32", "u64", "s64", "u16x2", "s16x2"}};

}  // namespace nvfp4r::sim
