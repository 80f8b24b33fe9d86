// prefetch, prefetchu, createpolicy, applypriority, discard (PTX ISA 9.7.9.13 to .17): they steer caches. Only
// createpolicy gives a value, which is opaque, and only discard changes memory: what it discards counts as unwritten.
#include <bit>

#include "sim/instr/families.hpp"
#include "sim/instr/memory_order.hpp"

namespace nvfp4r::sim {
namespace {

constexpr uint64_t kOpaquePolicy = 0x12f0'0000'0000'0000ull;  // shaped like the constants that CUTLASS uses
constexpr uint32_t kLineBytes = 128;                          // the one size of applypriority and discard

Step exec_cache_control_nothing(Warp&, const Instr&, LaneMask) {
    return Step::next;
}

Step exec_policy(Warp& warp, const Instr& instr, LaneMask lanes) {
    Lanes sink;
    uint64_t* out = warp.write(instr.dst, sink, lanes);
    for (LaneMask left = lanes; left; left &= left - 1) out[std::countr_zero(left)] = kOpaquePolicy;
    return Step::next;
}

Step exec_applypriority(Warp& warp, const Instr& instr, LaneMask lanes) {
    Lanes addresses;
    warp.addresses(instr.addr, addresses, lanes);
    for (LaneMask left = lanes; left; left &= left - 1) {
        const uint32_t lane = static_cast<uint32_t>(std::countr_zero(left));
        warp.machine().place(warp, lane, static_cast<StateSpace>(instr.detail), addresses[lane], kLineBytes, kLineBytes,
                             &instr);
    }
    return Step::next;
}

Step exec_discard(Warp& warp, const Instr& instr, LaneMask lanes) {
    Lanes addresses;
    warp.addresses(instr.addr, addresses, lanes);
    Machine& machine = warp.machine();
    for (LaneMask left = lanes; left; left &= left - 1) {
        const uint32_t lane = static_cast<uint32_t>(std::countr_zero(left));
        const Machine::Place place = machine.place(warp, lane, static_cast<StateSpace>(instr.detail), addresses[lane],
                                                   kLineBytes, kLineBytes, &instr);
        Checker* checker = machine.checker();
        if (!checker || !place.shadow) continue;
        checker->access(warp.first_actor + lane, *place.shadow, place.offset, kLineBytes,
                        {Access::write, Proxy::generic, Order::weak, &instr});
        checker->forget(*place.shadow, place.offset, kLineBytes);
    }
    return Step::next;
}

Instr decode_prefetch(Decoder& decoder) {
    Modifiers modifiers(decoder);
    Instr instr;
    instr.exec = exec_cache_control_nothing;
    instr.addr = decoder.addr(0);
    if (decoder.statement().opcode == "prefetchu") {
        modifiers.need("L1");
    } else {
        take_space(modifiers);
        modifiers.need_any({"L1", "L2", "L2::evict_last", "L2::evict_normal"});
    }
    modifiers.done();
    return instr;
}

Instr decode_policy(Decoder& decoder) {
    Modifiers modifiers(decoder);
    Instr instr;
    instr.exec = exec_policy;
    instr.dst = decoder.dst(0);
    const std::string_view kind = modifiers.need_any({"fractional", "range", "cvt"});
    if (kind == "cvt") {
        modifiers.need("L2");
    } else {
        if (kind == "range") modifiers.take("global");
        modifiers.need_any({"L2::evict_last", "L2::evict_normal", "L2::evict_first", "L2::evict_unchanged"});
        modifiers.take_any({"L2::evict_first", "L2::evict_unchanged"});
    }
    modifiers.need("b64");
    modifiers.done();
    const size_t operands = decoder.statement().operands.size();
    const bool fits = kind == "range" ? operands == 4 : kind == "cvt" ? operands == 2 : operands == 1 || operands == 2;
    if (!fits) decoder.refuse("an operand is missing or too many");
    return instr;
}

/// [a], 128
void need_line(Decoder& decoder) {
    const std::vector<Operand>& operands = decoder.statement().operands;
    if (operands.size() != 2 || operands[1].kind != OperandKind::immediate || operands[1].imm != kLineBytes)
        decoder.refuse("the size must be 128");
}

Instr decode_applypriority(Decoder& decoder) {
    Modifiers modifiers(decoder);
    const StateSpace space = modifiers.take("global") ? StateSpace::global : StateSpace::generic;
    modifiers.need("L2::evict_normal");
    modifiers.done();
    need_line(decoder);
    Instr instr;
    instr.exec = exec_applypriority;
    instr.detail = static_cast<uint64_t>(space);
    instr.addr = decoder.addr(0);
    return instr;
}

Instr decode_discard(Decoder& decoder) {
    Modifiers modifiers(decoder);
    Instr instr;
    const StateSpace space = take_space(modifiers);
    if (space != StateSpace::global && space != StateSpace::generic) decoder.refuse("discard is for global memory");
    modifiers.need("L2");
    modifiers.done();
    need_line(decoder);
    instr.exec = exec_discard;
    instr.detail = static_cast<uint64_t>(space);
    instr.addr = decoder.addr(0);
    return instr;
}

}  // namespace

const Family prefetch_family = {"prefetch", {"prefetch", "prefetchu"}, decode_prefetch};
const Family createpolicy_family = {"createpolicy", {"createpolicy"}, decode_policy};
const Family applypriority_family = {"applypriority", {"applypriority"}, decode_applypriority};
const Family discard_family = {"discard", {"discard"}, decode_discard};

}  // namespace nvfp4r::sim
