// Extended-precision integer arithmetic (PTX ISA 9.7.2): add.cc, addc, sub.cc, subc, mad.cc, madc. The carry is one
// flag a lane.
#include "sim/instr/families.hpp"
#include "sim/instr/integers.hpp"
#include "sim/instr/state_keys.hpp"

namespace nvfp4r::sim {

namespace {

struct Carry {
    LaneMask flags = 0;
};

enum class ExtendedPrecisionOperation : uint8_t { add, sub, mad_lo, mad_hi };

struct ExtendedPrecisionForm {
    ExtendedPrecisionOperation operation = ExtendedPrecisionOperation::add;
    bool carry_in = false, carry_out = false, is_signed = false;
    uint32_t bits = 32;
};

uint64_t multiply(const ExtendedPrecisionForm& form, uint64_t a, uint64_t b) {
    if (form.operation == ExtendedPrecisionOperation::mad_lo) return a * b;
    if (form.bits == 64) {
        if (form.is_signed) return static_cast<uint64_t>((Int128{as<int64_t>(a)} * as<int64_t>(b)) >> 64);
        return static_cast<uint64_t>((Uint128{a} * b) >> 64);
    }
    if (form.is_signed) return static_cast<uint64_t>((int64_t{as<int32_t>(a)} * as<int32_t>(b)) >> 32);
    return (a * b) >> 32;
}

Step exec_extended_precision(Warp& warp, const Instr& instr, LaneMask lanes) {
    const ExtendedPrecisionForm& form = instr.extra_as<ExtendedPrecisionForm>();
    Carry& carry = warp.state<Carry>(state_key::kCarry);
    const uint64_t mask = form.bits == 64 ? ~uint64_t{0} : 0xffffffff;
    Lanes scratch[3], sink;
    const uint64_t* a = warp.read(instr.src[0], scratch[0], lanes);
    const uint64_t* b = warp.read(instr.src[1], scratch[1], lanes);
    const uint64_t* c = warp.read(instr.src[2], scratch[2], lanes);
    uint64_t* out = warp.write(instr.dst, sink, lanes);
    const LaneMask old = carry.flags;
    for_lanes(lanes, [&](uint32_t lane) {
        const uint64_t in = form.carry_in ? old >> lane & 1 : 0;
        uint64_t x = a[lane], y = b[lane];
        if (form.operation == ExtendedPrecisionOperation::mad_lo ||
            form.operation == ExtendedPrecisionOperation::mad_hi) {
            x = multiply(form, x, y) & mask;
            y = c[lane];
        }
        // CC.CF is the carry of an addition and the borrow of a subtraction.
        const bool sub = form.operation == ExtendedPrecisionOperation::sub;
        const Uint128 wide = sub ? Uint128{x} - y - in : Uint128{x} + y + in;
        const bool flag = sub ? Uint128{x} < Uint128{y} + in : (wide >> form.bits) != 0;
        out[lane] = static_cast<uint64_t>(wide) & mask;
        if (form.carry_out) carry.flags = (carry.flags & ~(1u << lane)) | (flag ? 1u << lane : 0);
    });
    return Step::next;
}

Instr decode_extended_precision(Decoder& decoder) {
    const std::string& opcode = decoder.statement().opcode;
    Modifiers modifiers(decoder);
    ExtendedPrecisionForm form;
    form.carry_in = opcode.back() == 'c';
    const bool mad = opcode.starts_with("mad");
    if (mad) {
        form.operation = modifiers.take("hi") ? ExtendedPrecisionOperation::mad_hi : ExtendedPrecisionOperation::mad_lo;
        if (form.operation == ExtendedPrecisionOperation::mad_lo && !modifiers.take("lo"))
            decoder.refuse("one of .lo and .hi is wanted");
    } else {
        form.operation = opcode.starts_with("sub") ? ExtendedPrecisionOperation::sub : ExtendedPrecisionOperation::add;
    }
    form.carry_out = modifiers.take("cc");
    const DataType type = take_type(decoder, modifiers);
    modifiers.done();
    form.bits = type_bits(type);
    form.is_signed = is_signed(type);
    if ((!form.is_signed && !is_unsigned(type)) || form.bits < 32)
        decoder.refuse("the type is not one of 32 or 64 bits");
    Instr instr;
    instr.exec = exec_extended_precision;
    instr.dst = decoder.dst(0);
    for (size_t i = 0; i < (mad ? 3u : 2u); ++i) instr.src[i] = decoder.src(i + 1, form.bits);
    instr.extra = std::make_shared<ExtendedPrecisionForm>(form);
    return instr;
}

}  // namespace

const Family extended_precision_family = {"extended precision",
                                          {"add.cc", "addc", "sub.cc", "subc", "mad.lo.cc", "mad.hi.cc", "madc"},
                                          decode_extended_precision};

}  // namespace nvfp4r::sim
