// Counting, finding and moving bits (PTX ISA 9.7.1): popc, clz, bfind, fns, brev, bfe, bfi, szext, bmsk, and the byte
// dot products dp4a and dp2a.
#include <algorithm>

#include "sim/instr/families.hpp"
#include "sim/instr/integers.hpp"

namespace nvfp4r::sim {

namespace {

template <class T>
struct Popc {
    uint64_t operator()(uint64_t a) const { return static_cast<uint64_t>(std::popcount(as<T>(a))); }
};
template <class T>
struct Clz {
    uint64_t operator()(uint64_t a) const { return static_cast<uint64_t>(std::countl_zero(as<T>(a))); }
};
template <class T>
struct Brev {
    uint64_t operator()(uint64_t a) const {
        uint64_t reversed = 0;
        for (int i = 0; i < std::numeric_limits<T>::digits; ++i) reversed = reversed << 1 | (a >> i & 1);
        return reversed;
    }
};

// The highest bit that differs from the sign; .shiftamt: how far left it must go.
template <class T, bool shift_amount>
struct Bfind {
    uint64_t operator()(uint64_t a) const {
        using U = std::make_unsigned_t<T>;
        const U magnitude = as<T>(a) < T{0} ? static_cast<U>(~as<U>(a)) : as<U>(a);
        if (magnitude == 0) return 0xffffffff;
        const int leading = std::countl_zero(magnitude);
        return static_cast<uint64_t>(shift_amount ? leading : std::numeric_limits<U>::digits - 1 - leading);
    }
};

Exec exec_bfind(DataType type, bool shift_amount) {
    switch (type) {
        case DataType::u32:
            return shift_amount ? exec_map<Bfind<uint32_t, true>, 1> : exec_map<Bfind<uint32_t, false>, 1>;
        case DataType::s32:
            return shift_amount ? exec_map<Bfind<int32_t, true>, 1> : exec_map<Bfind<int32_t, false>, 1>;
        case DataType::u64:
            return shift_amount ? exec_map<Bfind<uint64_t, true>, 1> : exec_map<Bfind<uint64_t, false>, 1>;
        case DataType::s64:
            return shift_amount ? exec_map<Bfind<int64_t, true>, 1> : exec_map<Bfind<int64_t, false>, 1>;
        default: return nullptr;
    }
}

// Position of the offset-th set bit from `base` up (offset > 0) or down (offset < 0); 0xffffffff when there is none.
struct Fns {
    uint64_t operator()(uint64_t mask, uint64_t base, uint64_t offset) const {
        const int32_t count = as<int32_t>(offset);
        if (base >= 32) return 0xffffffff;
        if (count == 0) return mask >> base & 1 ? base : 0xffffffff;
        const int step = count > 0 ? 1 : -1;
        int64_t left = count > 0 ? count : -int64_t{count};
        for (auto bit = static_cast<int>(base); bit >= 0 && bit < 32; bit += step) {
            if ((mask >> bit & 1) && --left == 0) return static_cast<uint64_t>(bit);
        }
        return 0xffffffff;
    }
};

// Position and length count modulo 256; bits past the top are copies of the sign (signed types) or 0.
template <class T>
struct Bfe {
    uint64_t operator()(uint64_t a, uint64_t b, uint64_t c) const {
        constexpr uint32_t kTop = std::numeric_limits<std::make_unsigned_t<T>>::digits - 1;
        const uint32_t position = b & 0xff, length = c & 0xff;
        const bool signed_type = std::is_signed_v<T>;
        const uint32_t sign_at = std::min(position + (length ? length - 1 : 0), kTop);
        const bool sign = signed_type && length != 0 && (a >> sign_at & 1);
        uint64_t value = 0;
        for (uint32_t i = 0; i <= kTop; ++i) {
            const bool inside = i < length && position + i <= kTop;
            if (inside ? (a >> (position + i) & 1) != 0 : sign) value |= uint64_t{1} << i;
        }
        return value;
    }
};

template <class T>
struct Bfi {
    uint64_t operator()(uint64_t a, uint64_t b, uint64_t c, uint64_t d) const {
        constexpr uint32_t kTop = std::numeric_limits<T>::digits - 1;
        const uint32_t position = c & 0xff, length = d & 0xff;
        if (position > kTop || length == 0) return b;
        const uint32_t width = std::min(length, kTop + 1 - position);
        const uint64_t field = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
        return (b & ~(field << position)) | (a & field) << position;
    }
};

template <bool wrap>
uint32_t field_width(uint64_t value) {
    return static_cast<uint32_t>(wrap ? value & 31 : std::min<uint64_t>(value, 32));
}

template <class T, bool wrap>
struct Szext {
    uint64_t operator()(uint64_t a, uint64_t b) const {
        const uint32_t width = field_width<wrap>(b);
        if (width == 0) return 0;
        if (width == 32) return a;
        const uint64_t low = a & ((uint64_t{1} << width) - 1);
        const bool sign = std::is_signed_v<T> && (low >> (width - 1) & 1);
        return sign ? as<uint32_t>(low | ~uint64_t{0} << width) : low;
    }
};

// Ones of width b from position a.
template <bool wrap>
struct Bmsk {
    uint64_t operator()(uint64_t a, uint64_t b) const {
        const uint32_t position = field_width<wrap>(a), width = field_width<wrap>(b);
        return as<uint32_t>(((uint64_t{1} << width) - 1) << position);
    }
};

template <class T>
int64_t byte_of(uint64_t word, int i) {
    return static_cast<T>(word >> (8 * i));
}
template <class T>
int64_t half_of(uint64_t word, int i) {
    return static_cast<T>(word >> (16 * i));
}
template <class A, class B>
struct Dp4a {
    uint64_t operator()(uint64_t a, uint64_t b, uint64_t c) const {
        int64_t sum = as<int32_t>(c);
        for (int i = 0; i < 4; ++i) sum += byte_of<A>(a, i) * byte_of<B>(b, i);
        return as<uint32_t>(static_cast<uint64_t>(sum));
    }
};
template <class A16, class B8, int first>
struct Dp2a {
    uint64_t operator()(uint64_t a, uint64_t b, uint64_t c) const {
        int64_t sum = as<int32_t>(c);
        for (int i = 0; i < 2; ++i) sum += half_of<A16>(a, i) * byte_of<B8>(b, first + i);
        return as<uint32_t>(static_cast<uint64_t>(sum));
    }
};

template <class A16, class B8>
Exec exec_dp2a(bool hi) {
    return hi ? exec_map<Dp2a<A16, B8, 2>, 3> : exec_map<Dp2a<A16, B8, 0>, 3>;
}

// dp4a.atype.btype, dp2a.mode.atype.btype
Instr decode_dot(Decoder& decoder, Modifiers& modifiers, bool four) {
    const bool hi = !four && modifiers.take("hi");
    if (!four && !hi && !modifiers.take("lo")) decoder.refuse("one of .lo and .hi is wanted");
    const DataType a = take_type(decoder, modifiers), b = take_type(decoder, modifiers);
    modifiers.done();
    if (type_bits(a) != 32 || type_bits(b) != 32) decoder.refuse("both types are .u32 or .s32");
    const bool sa = is_signed(a), sb = is_signed(b);
    Instr instr;
    if (four) {
        instr.exec = sa ? (sb ? exec_map<Dp4a<int8_t, int8_t>, 3> : exec_map<Dp4a<int8_t, uint8_t>, 3>)
                        : (sb ? exec_map<Dp4a<uint8_t, int8_t>, 3> : exec_map<Dp4a<uint8_t, uint8_t>, 3>);
    } else {
        instr.exec = sa ? (sb ? exec_dp2a<int16_t, int8_t>(hi) : exec_dp2a<int16_t, uint8_t>(hi))
                        : (sb ? exec_dp2a<uint16_t, int8_t>(hi) : exec_dp2a<uint16_t, uint8_t>(hi));
    }
    instr.dst = decoder.dst(0);
    for (size_t i = 0; i < 3; ++i) instr.src[i] = decoder.src(i + 1, 32);
    return instr;
}

// Each source has the instruction's type except positions, lengths and widths, which are 32 bits.
Instr finish_bit_field(Decoder& decoder, Modifiers& modifiers, Exec exec, size_t typed, size_t others, uint32_t bits) {
    modifiers.done();
    if (!exec) decoder.refuse("this form is not modelled");
    Instr instr;
    instr.exec = exec;
    instr.dst = decoder.dst(0);
    for (size_t i = 0; i < typed + others; ++i) instr.src[i] = decoder.src(i + 1, i < typed ? bits : 32);
    return instr;
}

Instr decode_bit_field(Decoder& decoder) {
    const std::string& opcode = decoder.statement().opcode;
    Modifiers modifiers(decoder);
    if (opcode == "dp4a" || opcode == "dp2a") return decode_dot(decoder, modifiers, opcode == "dp4a");
    const bool shift_amount = opcode == "bfind" && modifiers.take("shiftamt");
    const bool clamped = opcode == "szext" || opcode == "bmsk";
    const bool wrap = clamped && modifiers.take("wrap");
    if (clamped && !wrap && !modifiers.take("clamp")) decoder.refuse("one of .clamp and .wrap is wanted");
    const DataType type = take_type(decoder, modifiers);
    const uint32_t bits = type_bits(type);
    if (bits < 32 || bits > 64) decoder.refuse("the type has 32 or 64 bits");
    const bool wide = bits == 64;
    if (opcode == "bfind") return finish_bit_field(decoder, modifiers, exec_bfind(type, shift_amount), 1, 0, bits);
    if (opcode == "bfe") return finish_bit_field(decoder, modifiers, exec_by_type<Bfe, 3>(type), 1, 2, bits);
    if (opcode == "bfi") {
        return finish_bit_field(decoder, modifiers, wide ? exec_map<Bfi<uint64_t>, 4> : exec_map<Bfi<uint32_t>, 4>, 2,
                                2, bits);
    }
    if (opcode == "popc") return finish_bit_field(decoder, modifiers, exec_by_width<Popc, 1>(type), 1, 0, bits);
    if (opcode == "clz") return finish_bit_field(decoder, modifiers, exec_by_width<Clz, 1>(type), 1, 0, bits);
    if (opcode == "brev") return finish_bit_field(decoder, modifiers, exec_by_width<Brev, 1>(type), 1, 0, bits);
    if (wide) decoder.refuse("the type has 32 bits");
    if (opcode == "fns") return finish_bit_field(decoder, modifiers, exec_map<Fns, 3>, 3, 0, bits);
    if (opcode == "bmsk") {
        return finish_bit_field(decoder, modifiers, wrap ? exec_map<Bmsk<true>, 2> : exec_map<Bmsk<false>, 2>, 2, 0,
                                bits);
    }
    if (is_signed(type)) {
        return finish_bit_field(decoder, modifiers,
                                wrap ? exec_map<Szext<int32_t, true>, 2> : exec_map<Szext<int32_t, false>, 2>, 2, 0,
                                bits);
    }
    return finish_bit_field(decoder, modifiers,
                            wrap ? exec_map<Szext<uint32_t, true>, 2> : exec_map<Szext<uint32_t, false>, 2>, 2, 0,
                            bits);
}

}  // namespace

const Family bit_field_family = {"bit field",
                                 {"popc", "clz", "bfind", "fns", "brev", "bfe", "bfi", "szext", "bmsk", "dp4a", "dp2a"},
                                 decode_bit_field};

}  // namespace nvfp4r::sim
