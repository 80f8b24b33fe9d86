// Comparison and selection (PTX ISA 9.7.6, 9.7.7): setp, set, selp, slct.
#include "sim/instr/compare.hpp"
#include "sim/instr/families.hpp"

namespace nvfp4r::sim {

namespace {

bool is_packed(DataType type) {
    return type == DataType::f16x2 || type == DataType::bf16x2;
}

// p = (a CmpOp b) BoolOp c, q = !(a CmpOp b) BoolOp c. Packed types: p of the low halves, q of the high ones.
Step exec_setp(Warp& warp, const Instr& instr, LaneMask lanes) {
    const Comparison& comparison = instr.extra_as<Comparison>();
    Lanes scratch[2];
    const uint64_t* a = warp.read(instr.src[0], scratch[0], lanes);
    const uint64_t* b = warp.read(instr.src[1], scratch[1], lanes);
    LaneMask high = 0;
    const LaneMask value = compare_lanes(comparison, a, b, lanes, &high);
    const LaneMask c = comparison.bool_op == BoolOp::none ? 0 : warp.read_pred(comparison.c, lanes);
    write_pred(warp, instr.dst, combine(comparison.bool_op, value, c), lanes);
    const LaneMask other = is_packed(comparison.type) ? high : ~value;
    write_pred(warp, instr.dst2, combine(comparison.bool_op, other, c), lanes);
    return Step::next;
}

// What `set` writes for true: all ones for integers, 1.0 for floating point.
uint64_t true_value(DataType type) {
    switch (type) {
        case DataType::f32: return 0x3f800000;
        case DataType::f16:
        case DataType::f16x2: return 0x3c00;
        case DataType::bf16:
        case DataType::bf16x2: return 0x3f80;
        case DataType::u16:
        case DataType::s16: return 0xffff;
        default: return 0xffffffff;
    }
}

Step exec_set(Warp& warp, const Instr& instr, LaneMask lanes) {
    const Comparison& comparison = instr.extra_as<Comparison>();
    const auto type = static_cast<DataType>(instr.detail);
    Lanes scratch[2], sink;
    const uint64_t* a = warp.read(instr.src[0], scratch[0], lanes);
    const uint64_t* b = warp.read(instr.src[1], scratch[1], lanes);
    LaneMask high = 0;
    LaneMask low = compare_lanes(comparison, a, b, lanes, &high);
    const LaneMask c = comparison.bool_op == BoolOp::none ? 0 : warp.read_pred(comparison.c, lanes);
    low = combine(comparison.bool_op, low, c);
    high = combine(comparison.bool_op, high, c);
    uint64_t* out = warp.write(instr.dst, sink, lanes);
    const uint64_t yes = true_value(type);
    const bool packed = is_packed(type);
    for_lanes(lanes, [&](uint32_t lane) {
        out[lane] = low >> lane & 1 ? yes : 0;
        if (packed && (high >> lane & 1)) out[lane] |= yes << 16;
    });
    return Step::next;
}

Step exec_selp(Warp& warp, const Instr& instr, LaneMask lanes) {
    const LaneMask choose = warp.read_pred(instr.src[2], lanes);
    Lanes scratch[2], sink;
    const uint64_t* a = warp.read(instr.src[0], scratch[0], lanes);
    const uint64_t* b = warp.read(instr.src[1], scratch[1], lanes);
    uint64_t* out = warp.write(instr.dst, sink, lanes);
    for_lanes(lanes, [&](uint32_t lane) { out[lane] = choose >> lane & 1 ? a[lane] : b[lane]; });
    return Step::next;
}

// a when c >= 0, else b; -0 counts as 0 and NaN picks b.
struct SlctS32 {
    uint64_t operator()(uint64_t a, uint64_t b, uint64_t c) const { return as<int32_t>(c) >= 0 ? a : b; }
};
struct SlctF32 {
    bool ftz;
    explicit SlctF32(const Instr& instr) : ftz(instr.detail != 0) {}
    uint64_t operator()(uint64_t a, uint64_t b, uint64_t c) const {
        const float value = ftz ? flush(f32_of(c)) : f32_of(c);
        return value >= 0 ? a : b;
    }
};

void add_operands(Decoder& decoder, Instr& instr, Comparison& comparison) {
    const uint32_t bits = type_bits(comparison.type);
    instr.src[0] = decoder.src(1, bits);
    instr.src[1] = decoder.src(2, bits);
    if (comparison.bool_op != BoolOp::none) comparison.c = decoder.src(3, 1);
    instr.extra = std::make_shared<Comparison>(comparison);
}

Instr decode_setp(Decoder& decoder, Modifiers& modifiers) {
    Comparison comparison = take_comparison(decoder, modifiers);
    comparison.type = take_type(decoder, modifiers);
    check_comparison(decoder, comparison);
    Instr instr;
    instr.exec = exec_setp;
    instr.dst2 = kSinkSlot;
    const Operand& target = decoder.statement().operands.at(0);
    if (target.kind == OperandKind::pair) {
        instr.dst = decoder.dst(target.parts[0]);
        instr.dst2 = decoder.dst(target.parts[1]);
    } else {
        if (is_packed(comparison.type)) decoder.refuse("a packed comparison writes p|q");
        instr.dst = decoder.dst(0);
    }
    add_operands(decoder, instr, comparison);
    return instr;
}

Instr decode_set(Decoder& decoder, Modifiers& modifiers) {
    Comparison comparison = take_comparison(decoder, modifiers);
    const DataType result = take_type(decoder, modifiers);
    comparison.type = take_type(decoder, modifiers);
    check_comparison(decoder, comparison);
    if (is_packed(result) && !is_packed(comparison.type)) decoder.refuse("a packed result of a scalar comparison");
    if (is_packed(comparison.type) && type_bits(result) != 32) decoder.refuse("a 16-bit result of a packed comparison");
    if (type_bits(result) != 16 && type_bits(result) != 32) decoder.refuse("the result has 16 or 32 bits");
    Instr instr;
    instr.exec = exec_set;
    instr.detail = static_cast<uint64_t>(result);
    instr.dst = decoder.dst(0);
    add_operands(decoder, instr, comparison);
    return instr;
}

Instr decode_predicate(Decoder& decoder) {
    const std::string& opcode = decoder.statement().opcode;
    Modifiers modifiers(decoder);
    if (decoder.statement().operands.size() < 3) decoder.refuse("operands are missing");
    Instr instr;
    if (opcode == "setp") {
        instr = decode_setp(decoder, modifiers);
    } else if (opcode == "set") {
        instr = decode_set(decoder, modifiers);
    } else {
        const bool ftz = modifiers.take("ftz");
        const DataType type = take_type(decoder, modifiers);
        if (type_bits(type) < 16 || type_bits(type) > 64) decoder.refuse("the type has 16, 32 or 64 bits");
        instr.dst = decoder.dst(0);
        instr.src[0] = decoder.src(1, type_bits(type));
        instr.src[1] = decoder.src(2, type_bits(type));
        if (opcode == "selp") {
            if (ftz) decoder.refuse("modifier .ftz is not modelled here");
            instr.exec = exec_selp;
            instr.src[2] = decoder.src(3, 1);
        } else {
            const DataType condition = take_type(decoder, modifiers);
            if (condition != DataType::s32 && condition != DataType::f32)
                decoder.refuse("the condition is .s32 or .f32");
            instr.exec = condition == DataType::s32 ? exec_map<SlctS32, 3> : exec_map<SlctF32, 3>;
            instr.detail = ftz;
            instr.src[2] = decoder.src(3, 32);
        }
    }
    modifiers.done();
    return instr;
}

}  // namespace

const Family predicate_family = {"predicate", {"setp", "set", "selp", "slct"}, decode_predicate};

}  // namespace nvfp4r::sim
