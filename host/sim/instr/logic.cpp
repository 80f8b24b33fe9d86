// Logic and shifts (PTX ISA 9.7.8): and, or, xor, not, cnot, lop3, shl, shr, shf, and prmt (9.7.9.7).
#include <algorithm>

#include "sim/instr/families.hpp"
#include "sim/instr/integers.hpp"

namespace nvfp4r::sim {

namespace {

struct And {
    uint64_t operator()(uint64_t a, uint64_t b) const { return a & b; }
};
struct Or {
    uint64_t operator()(uint64_t a, uint64_t b) const { return a | b; }
};
struct Xor {
    uint64_t operator()(uint64_t a, uint64_t b) const { return a ^ b; }
};
template <class T>
struct Not {
    uint64_t operator()(uint64_t a) const { return as<T>(~a); }
};
template <class T>
struct Cnot {
    uint64_t operator()(uint64_t a) const { return as<T>(a) == 0; }
};

// Shift amounts above the width count as the width.
template <class T>
struct Shl {
    uint64_t operator()(uint64_t a, uint64_t b) const {
        return as<uint32_t>(b) < static_cast<uint32_t>(std::numeric_limits<T>::digits) ? as<T>(a << as<uint32_t>(b))
                                                                                       : 0;
    }
};
template <class T>
struct Shr {
    uint64_t operator()(uint64_t a, uint64_t b) const {
        constexpr uint32_t kTop = std::numeric_limits<std::make_unsigned_t<T>>::digits - 1;
        const uint32_t amount = as<uint32_t>(b);
        if (amount > kTop && !std::is_signed_v<T>) return 0;
        return slot_of(static_cast<T>(as<T>(a) >> std::min(amount, kTop)));
    }
};

// The funnel shift of {b, a}: .l gives the upper word of the value shifted left, .r the lower one shifted right.
template <bool left, bool wrap>
struct Shf {
    uint64_t operator()(uint64_t a, uint64_t b, uint64_t c) const {
        const uint32_t amount = wrap ? c & 31 : static_cast<uint32_t>(std::min<uint64_t>(as<uint32_t>(c), 32));
        const uint64_t both = b << 32 | a;
        return left ? as<uint32_t>(amount == 32 ? both : (both << amount) >> 32) : as<uint32_t>(both >> amount);
    }
};

uint32_t lop3(uint64_t a, uint64_t b, uint64_t c, uint64_t table) {
    uint64_t value = 0;
    if (table & 0x01) value |= ~a & ~b & ~c;
    if (table & 0x02) value |= ~a & ~b & c;
    if (table & 0x04) value |= ~a & b & ~c;
    if (table & 0x08) value |= ~a & b & c;
    if (table & 0x10) value |= a & ~b & ~c;
    if (table & 0x20) value |= a & ~b & c;
    if (table & 0x40) value |= a & b & ~c;
    if (table & 0x80) value |= a & b & c;
    return static_cast<uint32_t>(value);
}
struct Lop3 {
    uint64_t table;
    explicit Lop3(const Instr& instr) : table(instr.detail) {}
    uint64_t operator()(uint64_t a, uint64_t b, uint64_t c) const { return lop3(a, b, c, table); }
};

// lop3.{or,and}: also a predicate, (d != 0) BoolOp q.
struct Lop3Pred {
    Src q;
    bool is_or = false;
};
Step exec_lop3_pred(Warp& warp, const Instr& instr, LaneMask lanes) {
    const auto& form = instr.extra_as<Lop3Pred>();
    LaneMask nonzero = 0;
    Lanes scratch[3], sink;
    const uint64_t* in[3];
    for (size_t i = 0; i < 3; ++i) in[i] = warp.read(instr.src[i], scratch[i], lanes);
    const LaneMask q = warp.read_pred(form.q, lanes);
    uint64_t* out = warp.write(instr.dst, sink, lanes);
    for_lanes(lanes, [&](uint32_t lane) {
        const uint32_t value = lop3(in[0][lane], in[1][lane], in[2][lane], instr.detail);
        out[lane] = value;
        nonzero |= LaneMask{value != 0} << lane;
    });
    write_pred(warp, instr.dst2, form.is_or ? nonzero | q : nonzero & q, lanes);
    return Step::next;
}

enum class Permute : uint64_t { index, f4e, b4e, rc8, ecl, ecr, rc16 };

uint32_t selector(Permute mode, uint32_t control, uint32_t i) {
    switch (mode) {
        case Permute::index: return control >> (4 * i) & 0xf;
        case Permute::f4e: return (control & 3) + i;
        case Permute::b4e: return ((control & 3) - i) & 7;
        case Permute::rc8: return control & 3;
        case Permute::ecl: return std::max(control & 3, i);
        case Permute::ecr: return std::min(control & 3, i);
        case Permute::rc16: return (control & 1) * 2 + (i & 1);
    }
    return 0;
}
// Bytes of {b, a} by selector; bit 3 of a selector of the plain mode replicates the byte's sign.
struct Prmt {
    Permute mode;
    explicit Prmt(const Instr& instr) : mode(static_cast<Permute>(instr.detail)) {}
    uint64_t operator()(uint64_t a, uint64_t b, uint64_t c) const {
        const uint64_t both = b << 32 | a;
        uint64_t value = 0;
        for (uint32_t i = 0; i < 4; ++i) {
            const uint32_t pick = selector(mode, as<uint32_t>(c), i);
            uint64_t byte = both >> (8 * (pick & 7)) & 0xff;
            if (pick & 8) byte = byte & 0x80 ? 0xff : 0;
            value |= byte << (8 * i);
        }
        return value;
    }
};

enum class PredOp : uint64_t { and_, or_, xor_, not_ };

Step exec_logic_pred(Warp& warp, const Instr& instr, LaneMask lanes) {
    const LaneMask a = warp.read_pred(instr.src[0], lanes);
    const auto op = static_cast<PredOp>(instr.detail);
    const LaneMask b = op == PredOp::not_ ? 0 : warp.read_pred(instr.src[1], lanes);
    LaneMask value = ~a;
    if (op == PredOp::and_) value = a & b;
    if (op == PredOp::or_) value = a | b;
    if (op == PredOp::xor_) value = a ^ b;
    write_pred(warp, instr.dst, value, lanes);
    return Step::next;
}

Instr decode_logic(Decoder& decoder, Modifiers& modifiers, const std::string& opcode) {
    const DataType type = take_type(decoder, modifiers);
    const bool unary = opcode == "not" || opcode == "cnot";
    Instr instr;
    if (type == DataType::pred) {
        if (opcode == "cnot") decoder.refuse("cnot of a predicate");
        instr.exec = exec_logic_pred;
        const PredOp op = opcode == "and"   ? PredOp::and_
                          : opcode == "or"  ? PredOp::or_
                          : opcode == "xor" ? PredOp::xor_
                                            : PredOp::not_;
        instr.detail = static_cast<uint64_t>(op);
    } else if (!is_bits(type) || type == DataType::b8) {
        decoder.refuse("the type is one of .pred, .b16, .b32 and .b64");
    } else if (opcode == "not") {
        instr.exec = exec_by_width<Not, 1>(type);
    } else if (opcode == "cnot") {
        instr.exec = exec_by_width<Cnot, 1>(type);
    } else {
        instr.exec = opcode == "and" ? exec_map<And, 2> : opcode == "or" ? exec_map<Or, 2> : exec_map<Xor, 2>;
    }
    instr.dst = decoder.dst(0);
    for (size_t i = 0; i < (unary ? 1u : 2u); ++i) instr.src[i] = decoder.src(i + 1, type_bits(type));
    return instr;
}

Instr decode_shift(Decoder& decoder, Modifiers& modifiers, bool left) {
    const DataType type = take_type(decoder, modifiers);
    Instr instr;
    instr.exec = left ? exec_by_width<Shl, 2>(type) : exec_by_type<Shr, 2>(type);
    if (!instr.exec || (left && !is_bits(type))) decoder.refuse("the type is not one that is shifted");
    instr.dst = decoder.dst(0);
    instr.src[0] = decoder.src(1, type_bits(type));
    instr.src[1] = decoder.src(2, 32);
    return instr;
}

Instr decode_funnel(Decoder& decoder, Modifiers& modifiers) {
    const bool left = modifiers.take("l");
    if (!left && !modifiers.take("r")) decoder.refuse("one of .l and .r is wanted");
    const bool wrap = modifiers.take("wrap");
    if (!wrap && !modifiers.take("clamp")) decoder.refuse("one of .clamp and .wrap is wanted");
    if (take_type(decoder, modifiers) != DataType::b32) decoder.refuse("the type is .b32");
    Instr instr;
    instr.exec = left ? (wrap ? exec_map<Shf<true, true>, 3> : exec_map<Shf<true, false>, 3>)
                      : (wrap ? exec_map<Shf<false, true>, 3> : exec_map<Shf<false, false>, 3>);
    instr.dst = decoder.dst(0);
    for (size_t i = 0; i < 3; ++i) instr.src[i] = decoder.src(i + 1, 32);
    return instr;
}

Instr decode_lop3(Decoder& decoder, Modifiers& modifiers) {
    const bool is_or = modifiers.take("or");
    const bool with_pred = is_or || modifiers.take("and");
    if (take_type(decoder, modifiers) != DataType::b32) decoder.refuse("the type is .b32");
    Instr instr;
    instr.exec = with_pred ? exec_lop3_pred : exec_map<Lop3, 3>;
    for (size_t i = 0; i < 3; ++i) instr.src[i] = decoder.src(i + 1, 32);
    const Src table = decoder.src(4, 32);
    if (table.kind != Src::Kind::imm || table.imm > 0xff) decoder.refuse("the table is a constant of 8 bits");
    instr.detail = table.imm;
    if (!with_pred) {
        instr.dst = decoder.dst(0);
        return instr;
    }
    const Operand& target = decoder.statement().operands[0];
    if (target.kind != OperandKind::pair) decoder.refuse("the destination is d|p");
    instr.dst = decoder.dst(target.parts[0]);
    instr.dst2 = decoder.dst(target.parts[1]);
    instr.extra = std::make_shared<Lop3Pred>(Lop3Pred{decoder.src(5, 1), is_or});
    return instr;
}

Instr decode_permute(Decoder& decoder, Modifiers& modifiers) {
    if (take_type(decoder, modifiers) != DataType::b32) decoder.refuse("the type is .b32");
    const Permute mode = modifiers.take_one<Permute>({{"f4e", Permute::f4e},
                                                      {"b4e", Permute::b4e},
                                                      {"rc8", Permute::rc8},
                                                      {"ecl", Permute::ecl},
                                                      {"ecr", Permute::ecr},
                                                      {"rc16", Permute::rc16}},
                                                     Permute::index);
    Instr instr;
    instr.exec = exec_map<Prmt, 3>;
    instr.detail = static_cast<uint64_t>(mode);
    instr.dst = decoder.dst(0);
    for (size_t i = 0; i < 3; ++i) instr.src[i] = decoder.src(i + 1, 32);
    return instr;
}

Instr decode_logic(Decoder& decoder) {
    const std::string& opcode = decoder.statement().opcode;
    Modifiers modifiers(decoder);
    Instr instr;
    if (opcode == "shl" || opcode == "shr") {
        instr = decode_shift(decoder, modifiers, opcode == "shl");
    } else if (opcode == "shf") {
        instr = decode_funnel(decoder, modifiers);
    } else if (opcode == "lop3") {
        instr = decode_lop3(decoder, modifiers);
    } else if (opcode == "prmt") {
        instr = decode_permute(decoder, modifiers);
    } else {
        instr = decode_logic(decoder, modifiers, opcode);
    }
    modifiers.done();
    return instr;
}

}  // namespace

const Family logic_family = {
    "logic", {"and", "or", "xor", "not", "cnot", "lop3", "shl", "shr", "shf", "prmt"}, decode_logic};

}  // namespace nvfp4r::sim
