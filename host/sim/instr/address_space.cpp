// cvta, isspacep, mapa, getctarank (PTX ISA 9.7.9.18 to .20, 9.7.9.24): addresses between state spaces.
//
// Global and constant addresses are generic addresses. Shared ones are kSharedWindow + the 32 bits, local and parameter
// ones likewise in their windows.
#include <bit>

#include "sim/instr/families.hpp"
#include "sim/instr/memory_order.hpp"

namespace nvfp4r::sim {
namespace {

constexpr uint64_t kWindowMask = 0xffffffffu;

uint64_t window_of(StateSpace space) {
    switch (space) {
        case StateSpace::shared:
        case StateSpace::shared_cluster: return kSharedWindow;
        case StateSpace::local: return kLocalWindow;
        case StateSpace::param: return kParamWindow;
        default: return 0;
    }
}

template <class Convert>
Step map_lanes(Warp& warp, const Instr& instr, LaneMask lanes, Convert convert) {
    Lanes scratch, sink;
    const uint64_t* in = warp.read(instr.src[0], scratch, lanes);
    uint64_t* out = warp.write(instr.dst, sink, lanes);
    for (LaneMask left = lanes; left; left &= left - 1) {
        const uint32_t lane = static_cast<uint32_t>(std::countr_zero(left));
        out[lane] = convert(in[lane], lane);
    }
    return Step::next;
}

Step exec_to_generic(Warp& warp, const Instr& instr, LaneMask lanes) {
    const uint64_t window = instr.detail;
    return map_lanes(warp, instr, lanes,
                     [&](uint64_t address, uint32_t) { return window ? window + (address & kWindowMask) : address; });
}

Step exec_to_space(Warp& warp, const Instr& instr, LaneMask lanes) {
    const uint64_t window = instr.detail;
    return map_lanes(warp, instr, lanes,
                     [&](uint64_t address, uint32_t) { return window ? (address - window) & kWindowMask : address; });
}

Step exec_isspacep(Warp& warp, const Instr& instr, LaneMask lanes) {
    const auto space = static_cast<StateSpace>(instr.detail);
    const Cta& cta = *warp.cta;
    Lanes scratch;
    const uint64_t* in = warp.read(instr.src[0], scratch, lanes);
    LaneMask result = 0;
    for (LaneMask left = lanes; left; left &= left - 1) {
        const uint32_t lane = static_cast<uint32_t>(std::countr_zero(left));
        const uint64_t a = in[lane];
        const bool shared = a - kSharedWindow <= kWindowMask;
        const bool local = a >= kLocalWindow && a < kParamWindow;
        const bool param = a - kParamWindow <= kWindowMask;
        const uint32_t own = cta.shared_address(0) >> kSharedRankShift;
        bool inside = false;
        switch (space) {
            case StateSpace::shared: inside = shared && (a & kWindowMask) >> kSharedRankShift == own; break;
            case StateSpace::shared_cluster: inside = shared; break;
            case StateSpace::local: inside = local; break;
            case StateSpace::param: inside = param; break;
            default: inside = !shared && !local; break;  // the parameters' window lies in the global one (6.4.1)
        }
        if (inside) result |= 1u << lane;
    }
    LaneMask& pred = warp.pred(instr.dst);
    pred = (pred & ~lanes) | result;
    return Step::next;
}

/// (a & 0xffffff) | rank << 24 without any range check (measured on an H200).
Step exec_mapa(Warp& warp, const Instr& instr, LaneMask lanes) {
    Lanes scratch;
    const uint64_t* rank = warp.read(instr.src[1], scratch, lanes);
    const bool generic = instr.detail != 0;
    return map_lanes(warp, instr, lanes, [&](uint64_t address, uint32_t lane) {
        const uint64_t mapped = (address & kSharedOffsetMask) | (rank[lane] << kSharedRankShift & kWindowMask);
        return generic ? kSharedWindow + mapped : mapped;
    });
}

Step exec_getctarank(Warp& warp, const Instr& instr, LaneMask lanes) {
    return map_lanes(warp, instr, lanes,
                     [&](uint64_t address, uint32_t) { return (address & kWindowMask) >> kSharedRankShift; });
}

Instr decode_cvta(Decoder& decoder) {
    Modifiers modifiers(decoder);
    const bool to_space = modifiers.take("to");
    const StateSpace space = take_space(modifiers);
    if (space == StateSpace::generic) decoder.refuse("a state space is missing");
    const uint32_t bits = modifiers.need_any({"u32", "u64"}) == "u64" ? 64 : 32;
    modifiers.done();
    Instr instr;
    instr.exec = to_space ? exec_to_space : exec_to_generic;
    instr.detail = window_of(space);
    // A parameter of a device function is kept in local memory.
    if (space == StateSpace::param && !to_space &&
        decoder.symbol_space(decoder.statement().operands.at(1)) == StateSpace::local)
        instr.detail = kLocalWindow;
    instr.dst = decoder.dst(0);
    instr.src[0] = decoder.src(1, bits);
    return instr;
}

Instr decode_isspacep(Decoder& decoder) {
    Modifiers modifiers(decoder);
    const StateSpace space = take_space(modifiers);
    if (space == StateSpace::generic) decoder.refuse("a state space is missing");
    if (space == StateSpace::constant) decoder.refuse("constants have no window of their own here");
    modifiers.done();
    Instr instr;
    instr.exec = exec_isspacep;
    instr.detail = static_cast<uint64_t>(space);
    instr.dst = decoder.dst(0);
    instr.src[0] = decoder.src(1, 32);
    return instr;
}

Instr decode_mapa(Decoder& decoder) {
    Modifiers modifiers(decoder);
    Instr instr;
    const bool generic = take_space(modifiers) == StateSpace::generic;
    const uint32_t bits = modifiers.need_any({"u32", "u64"}) == "u64" ? 64 : 32;
    modifiers.done();
    instr.exec = decoder.statement().opcode == "mapa" ? exec_mapa : exec_getctarank;
    instr.detail = generic ? 1 : 0;
    instr.dst = decoder.dst(0);
    instr.src[0] = decoder.src(1, instr.exec == exec_mapa ? bits : 32);
    if (instr.exec == exec_mapa) instr.src[1] = decoder.src(2, 32);
    return instr;
}

}  // namespace

const Family cvta_family = {"cvta", {"cvta"}, decode_cvta};
const Family isspacep_family = {"isspacep", {"isspacep"}, decode_isspacep};
const Family mapa_family = {"mapa", {"mapa", "getctarank"}, decode_mapa};

}  // namespace nvfp4r::sim
