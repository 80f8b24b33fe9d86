// shfl, match, redux (PTX ISA 9.7.9.6, 9.7.13.12, 9.7.13.13).
#include <bit>
#include <cmath>

#include "sim/instr/families.hpp"
#include "sim/instr/gather.hpp"
#include "sim/instr/modifiers.hpp"

namespace nvfp4r::sim {
namespace {

constexpr uint32_t kNanBits = 0x7fffffff;
constexpr uint32_t kSignBit = 0x80000000;

enum class Shuffle : uint64_t { up, down, bfly, idx };

Step exec_shuffle(Warp& warp, const Instr& instr, LaneMask lanes) {
    Lanes scratch[4], sink, result;
    const uint64_t* value = warp.read(instr.src[0], scratch[0], lanes);
    const uint64_t* by = warp.read(instr.src[1], scratch[1], lanes);
    const uint64_t* clamp = warp.read(instr.src[2], scratch[2], lanes);
    const uint64_t* masks = warp.read(instr.src[3], scratch[3], lanes);
    const LaneMask ready = gather(warp, instr, lanes, masks);
    if (ready == 0) return Step::blocked;
    LaneMask in_range = 0;
    for (LaneMask left = ready; left; left &= left - 1) {
        const uint32_t lane = static_cast<uint32_t>(std::countr_zero(left));
        const uint32_t b = static_cast<uint32_t>(by[lane]) & 0x1f;
        const uint32_t c = static_cast<uint32_t>(clamp[lane]) & 0x1f;
        const uint32_t segment = static_cast<uint32_t>(clamp[lane]) >> 8 & 0x1f;
        const uint32_t max_lane = (lane & segment) | (c & ~segment);
        const uint32_t min_lane = lane & segment;
        int64_t source = 0;
        bool valid = false;
        switch (static_cast<Shuffle>(instr.detail)) {
            case Shuffle::up:
                source = int64_t{lane} - b;
                valid = source >= max_lane;
                break;
            case Shuffle::down:
                source = int64_t{lane} + b;
                valid = source <= max_lane;
                break;
            case Shuffle::bfly:
                source = lane ^ b;
                valid = source <= max_lane;
                break;
            case Shuffle::idx:
                source = min_lane | (b & ~segment);
                valid = source <= max_lane;
                break;
        }
        const uint32_t from = valid ? static_cast<uint32_t>(source) : lane;
        if (!(ready >> from & 1) || masks[from] != masks[lane])
            warp.machine().report(FindingKind::divergence, "shfl.sync reads a lane that does not take part", &warp,
                                  1u << lane, &instr);
        result[lane] = value[from];
        if (valid) in_range |= 1u << lane;
    }
    uint64_t* out = warp.write(instr.dst, sink, ready);
    for (LaneMask left = ready; left; left &= left - 1) {
        const int lane = std::countr_zero(left);
        out[lane] = result[static_cast<size_t>(lane)] & 0xffffffffu;
    }
    if (instr.dst2 != ~0u) {
        LaneMask& pred = warp.pred(instr.dst2);
        pred = (pred & ~ready) | in_range;
    }
    return after_gather(warp, lanes, ready);
}

/// match.any: the lanes with this lane's value; match.all: the mask when all have one value, else 0.
Step exec_match(Warp& warp, const Instr& instr, LaneMask lanes) {
    Lanes scratch[2], sink, result;
    const uint64_t* value = warp.read(instr.src[0], scratch[0], lanes);
    const uint64_t* masks = warp.read(instr.src[1], scratch[1], lanes);
    const LaneMask ready = gather(warp, instr, lanes, masks);
    const bool all = instr.detail & 1;
    const uint64_t bits = instr.detail & 2 ? ~0ull : 0xffffffffull;
    LaneMask agree = 0;
    for_each_mask(ready, masks, [&](LaneMask group) {
        for (LaneMask left = group; left; left &= left - 1) {
            const uint32_t lane = static_cast<uint32_t>(std::countr_zero(left));
            LaneMask same = 0;
            for (LaneMask others = group; others; others &= others - 1) {
                const uint32_t other = static_cast<uint32_t>(std::countr_zero(others));
                if ((value[other] & bits) == (value[lane] & bits)) same |= 1u << other;
            }
            if (same == group) agree |= 1u << lane;
            result[lane] = all && same != group ? 0 : same;
        }
    });
    uint64_t* out = warp.write(instr.dst, sink, ready);
    for (LaneMask left = ready; left; left &= left - 1) {
        const int lane = std::countr_zero(left);
        out[lane] = result[static_cast<size_t>(lane)];
    }
    if (instr.dst2 != ~0u) {
        LaneMask& pred = warp.pred(instr.dst2);
        pred = (pred & ~ready) | (agree & ready);
    }
    return after_gather(warp, lanes, ready);
}

enum class Reduction : uint8_t { add, min, max, and_bits, or_bits, xor_bits };

struct Redux {
    Reduction op = Reduction::add;
    bool is_signed = false, is_float = false, absolute = false, nan = false;
};

/// min/max.f32: a NaN loses against a number unless .NaN; -0 is below +0 (PTX ISA 9.7.3.12).
uint32_t float_extreme(uint32_t a, uint32_t b, bool max, bool nan) {
    const float x = std::bit_cast<float>(a), y = std::bit_cast<float>(b);
    if (std::isnan(x) || std::isnan(y)) {
        if (nan || (std::isnan(x) && std::isnan(y))) return kNanBits;
        return std::isnan(x) ? b : a;
    }
    if (x == y) return max ? a & b : a | b;
    return (x > y) == max ? a : b;
}

uint32_t combine(const Redux& redux, uint32_t a, uint32_t b) {
    const bool max = redux.op == Reduction::max;
    switch (redux.op) {
        case Reduction::add: return a + b;
        case Reduction::and_bits: return a & b;
        case Reduction::or_bits: return a | b;
        case Reduction::xor_bits: return a ^ b;
        case Reduction::min:
        case Reduction::max: break;
    }
    if (redux.is_float) return float_extreme(a, b, max, redux.nan);
    const bool greater = redux.is_signed ? static_cast<int32_t>(a) > static_cast<int32_t>(b) : a > b;
    return greater == max ? a : b;
}

Step exec_redux(Warp& warp, const Instr& instr, LaneMask lanes) {
    const Redux& redux = instr.extra_as<Redux>();
    Lanes scratch[2], sink;
    const uint64_t* value = warp.read(instr.src[0], scratch[0], lanes);
    const uint64_t* masks = warp.read(instr.src[1], scratch[1], lanes);
    const LaneMask ready = gather(warp, instr, lanes, masks);
    uint64_t* out = warp.write(instr.dst, sink, ready);
    for_each_mask(ready, masks, [&](LaneMask group) {
        bool first = true;
        uint32_t sum = 0;
        for (LaneMask left = group; left; left &= left - 1) {
            uint32_t bits = static_cast<uint32_t>(value[std::countr_zero(left)]);
            if (redux.absolute) bits &= ~kSignBit;
            sum = first ? bits : combine(redux, sum, bits);
            first = false;
        }
        if (redux.is_float && std::isnan(std::bit_cast<float>(sum))) sum = kNanBits;
        for (LaneMask left = group; left; left &= left - 1) out[std::countr_zero(left)] = sum;
    });
    return after_gather(warp, lanes, ready);
}

void take_pair(Decoder& decoder, Instr& instr) {
    const Operand& first = decoder.statement().operands.at(0);
    const bool pair = first.kind == OperandKind::pair;
    instr.dst = decoder.dst(pair ? first.parts.at(0) : first);
    instr.dst2 = pair ? decoder.dst(first.parts.at(1)) : ~0u;
}

Instr decode_shuffle(Decoder& decoder) {
    Modifiers modifiers(decoder);
    modifiers.need("sync");
    Instr instr;
    const std::string_view mode = modifiers.need_any({"up", "down", "bfly", "idx"});
    instr.detail = static_cast<uint64_t>(mode == "up"     ? Shuffle::up
                                         : mode == "down" ? Shuffle::down
                                         : mode == "bfly" ? Shuffle::bfly
                                                          : Shuffle::idx);
    modifiers.need("b32");
    modifiers.done();
    instr.exec = exec_shuffle;
    take_pair(decoder, instr);
    for (size_t i = 0; i < 4; ++i) instr.src[i] = decoder.src(i + 1, 32);
    return instr;
}

Instr decode_match(Decoder& decoder) {
    Modifiers modifiers(decoder);
    Instr instr;
    const bool all = modifiers.need_any({"any", "all"}) == "all";
    modifiers.need("sync");
    const bool wide = modifiers.need_any({"b32", "b64"}) == "b64";
    modifiers.done();
    instr.exec = exec_match;
    instr.detail = (all ? 1u : 0u) | (wide ? 2u : 0u);
    take_pair(decoder, instr);
    instr.src[0] = decoder.src(1, wide ? 64 : 32);
    instr.src[1] = decoder.src(2, 32);
    return instr;
}

Instr decode_redux(Decoder& decoder) {
    Modifiers modifiers(decoder);
    modifiers.need("sync");
    Redux redux;
    const std::string_view op = modifiers.need_any({"add", "min", "max", "and", "or", "xor"});
    redux.op = op == "add"   ? Reduction::add
               : op == "min" ? Reduction::min
               : op == "max" ? Reduction::max
               : op == "and" ? Reduction::and_bits
               : op == "or"  ? Reduction::or_bits
                             : Reduction::xor_bits;
    redux.absolute = modifiers.take("abs");
    redux.nan = modifiers.take("NaN");
    const bool extreme = redux.op == Reduction::min || redux.op == Reduction::max;
    const std::string_view type = modifiers.need_any({"u32", "s32", "b32", "f32"});
    redux.is_signed = type == "s32";
    redux.is_float = type == "f32";
    if (redux.is_float && !extreme) decoder.refuse("redux of .f32 has .min and .max only");
    // redux.f32 exists on sm_100a and sm_103a (assembled with ptxas 13.0).
    if (redux.is_float && decoder.sm() != 100 && decoder.sm() != 103)
        decoder.refuse("redux.f32 needs sm_100a or sm_103a");
    if (!redux.is_float && (redux.absolute || redux.nan)) decoder.refuse(".abs and .NaN go with .f32");
    if ((redux.op >= Reduction::and_bits) != (type == "b32")) decoder.refuse("the type does not fit the operation");
    modifiers.done();
    Instr instr;
    instr.exec = exec_redux;
    instr.dst = decoder.dst(0);
    instr.src[0] = decoder.src(1, 32);
    instr.src[1] = decoder.src(2, 32);
    instr.extra = std::make_shared<Redux>(redux);
    return instr;
}

}  // namespace

const Family shuffle_family = {"shuffle", {"shfl"}, decode_shuffle};
const Family match_family = {"match", {"match"}, decode_match};
const Family redux_family = {"redux", {"redux"}, decode_redux};

}  // namespace nvfp4r::sim
