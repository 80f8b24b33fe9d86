// mov (PTX ISA 9.7.9.1, 9.7.9.2): registers, constants, addresses and special registers; packing and unpacking of
// vectors; predicates; 128-bit values in two slots.
#include "sim/instr/families.hpp"
#include "sim/instr/lanes.hpp"
#include "sim/instr/types.hpp"

namespace nvfp4r::sim {

namespace {

struct Same {
    uint64_t operator()(uint64_t a) const { return a; }
};

uint64_t low_bits_move(uint64_t value, uint32_t bits) {
    return bits < 64 ? value & ((uint64_t{1} << bits) - 1) : value;
}

/// Elements, first one lowest, of `bits` bits each.
struct Pack {
    std::vector<Src> parts;
    uint32_t bits = 0;
};
struct Unpack {
    std::vector<uint32_t> parts;
    uint32_t bits = 0;
};

// The destination may be one of the elements, so the whole is put together first.
Step exec_pack(Warp& warp, const Instr& instr, LaneMask lanes) {
    const Pack& pack = instr.extra_as<Pack>();
    Lanes whole{}, scratch, sink;
    for (size_t i = 0; i < pack.parts.size(); ++i) {
        const uint64_t* part = warp.read(pack.parts[i], scratch, lanes);
        const auto shift = static_cast<uint32_t>(i) * pack.bits;
        for_lanes(lanes, [&](uint32_t lane) { whole[lane] |= low_bits_move(part[lane], pack.bits) << shift; });
    }
    uint64_t* out = warp.write(instr.dst, sink, lanes);
    for_lanes(lanes, [&](uint32_t lane) { out[lane] = whole[lane]; });
    return Step::next;
}

Step exec_unpack(Warp& warp, const Instr& instr, LaneMask lanes) {
    const Unpack& unpack = instr.extra_as<Unpack>();
    Lanes scratch, sink;
    const uint64_t* source = warp.read(instr.src[0], scratch, lanes);
    if (source != scratch.data()) {
        for_lanes(lanes, [&](uint32_t lane) { scratch[lane] = source[lane]; });
    }
    for (size_t i = 0; i < unpack.parts.size(); ++i) {
        if (unpack.parts[i] == kSinkSlot) continue;
        uint64_t* out = warp.write(unpack.parts[i], sink, lanes);
        const auto shift = static_cast<uint32_t>(i) * unpack.bits;
        for_lanes(lanes, [&](uint32_t lane) { out[lane] = low_bits_move(scratch[lane] >> shift, unpack.bits); });
    }
    return Step::next;
}

Step exec_move_pred(Warp& warp, const Instr& instr, LaneMask lanes) {
    LaneMask value = 0;
    if (instr.src[0].kind == Src::Kind::special) {
        Lanes scratch;
        const uint64_t* bits = warp.read(instr.src[0], scratch, lanes);
        value = lanes_where(lanes, [&](uint32_t lane) { return bits[lane] != 0; });
    } else {
        value = warp.read_pred(instr.src[0], lanes);
    }
    write_pred(warp, instr.dst, value, lanes);
    return Step::next;
}

/// Two 64-bit halves, low first: both are read before one is written.
struct Wide {
    Src from[2];
    uint32_t to[2];
};
Step exec_b128(Warp& warp, const Instr& instr, LaneMask lanes) {
    const Wide& wide = instr.extra_as<Wide>();
    Lanes scratch[2], sink, copy[2];
    for (size_t i = 0; i < 2; ++i) {
        const uint64_t* in = warp.read(wide.from[i], scratch[i], lanes);
        for_lanes(lanes, [&](uint32_t lane) { copy[i][lane] = in[lane]; });
    }
    for (size_t i = 0; i < 2; ++i) {
        uint64_t* out = warp.write(wide.to[i], sink, lanes);
        for_lanes(lanes, [&](uint32_t lane) { out[lane] = copy[i][lane]; });
    }
    return Step::next;
}

Instr decode_b128(Decoder& decoder) {
    const Operand& to = decoder.statement().operands[0];
    const Operand& from = decoder.statement().operands[1];
    auto wide = std::make_shared<Wide>();
    for (uint32_t i = 0; i < 2; ++i) {
        if (to.kind == OperandKind::vector) {
            if (to.parts.size() != 2) decoder.refuse("a 128-bit value has two halves of 64 bits");
            wide->to[i] = decoder.dst(to.parts[i]);
        } else {
            wide->to[i] = decoder.dst(to) + i;
        }
        if (from.kind == OperandKind::vector) {
            if (from.parts.size() != 2) decoder.refuse("a 128-bit value has two halves of 64 bits");
            wide->from[i] = decoder.src(from.parts[i], 64);
        } else {
            wide->from[i] = decoder.src(from, 128);
            wide->from[i].slot += i;
        }
    }
    Instr instr;
    instr.exec = exec_b128;
    instr.extra = std::move(wide);
    return instr;
}

uint32_t element_bits(Decoder& decoder, size_t elements, uint32_t bits) {
    if ((elements != 2 && elements != 4) || bits % elements != 0 || bits / elements < 8) {
        decoder.refuse("a vector of 2 or 4 elements of at least 8 bits is wanted");
    }
    return bits / static_cast<uint32_t>(elements);
}

Instr decode_mov(Decoder& decoder) {
    const Statement& statement = decoder.statement();
    Modifiers modifiers(decoder);
    const DataType type = take_type(decoder, modifiers);
    modifiers.done();
    if (statement.operands.size() != 2) decoder.refuse("mov has two operands");
    const Operand& to = statement.operands[0];
    const Operand& from = statement.operands[1];
    const uint32_t bits = type_bits(type);
    if (type == DataType::b128) return decode_b128(decoder);
    Instr instr;
    if (type == DataType::pred) {
        instr.exec = exec_move_pred;
        instr.dst = decoder.dst(0);
        instr.src[0] = decoder.src(1, 1);
    } else if (from.kind == OperandKind::vector) {
        auto pack = std::make_shared<Pack>();
        pack->bits = element_bits(decoder, from.parts.size(), bits);
        for (const Operand& part : from.parts) pack->parts.push_back(decoder.src(part, pack->bits));
        instr.exec = exec_pack;
        instr.dst = decoder.dst(0);
        instr.extra = std::move(pack);
    } else if (to.kind == OperandKind::vector) {
        auto unpack = std::make_shared<Unpack>();
        unpack->bits = element_bits(decoder, to.parts.size(), bits);
        for (const Operand& part : to.parts) unpack->parts.push_back(decoder.dst(part));
        instr.exec = exec_unpack;
        instr.src[0] = decoder.src(1, bits);
        instr.extra = std::move(unpack);
    } else {
        instr.exec = exec_map<Same, 1>;
        instr.dst = decoder.dst(0);
        instr.src[0] = decoder.src(1, bits);
    }
    return instr;
}

}  // namespace

const Family move_family = {"move", {"mov"}, decode_mov};

}  // namespace nvfp4r::sim
