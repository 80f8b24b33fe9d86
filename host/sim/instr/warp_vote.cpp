// vote, activemask, elect, bar.warp.sync (PTX ISA 9.7.13.2, .9 to .11, .14).
#include <bit>

#include "sim/instr/families.hpp"
#include "sim/instr/gather.hpp"
#include "sim/instr/modifiers.hpp"

namespace nvfp4r::sim {
namespace {

enum class Vote : uint64_t { all, any, uni, ballot };

Step exec_vote(Warp& warp, const Instr& instr, LaneMask lanes) {
    Lanes scratch, sink;
    const uint64_t* masks = warp.read(instr.src[1], scratch, lanes);
    const LaneMask ready = gather(warp, instr, lanes, masks);
    const LaneMask values = warp.read_pred(instr.src[0], ready);
    for_each_mask(ready, masks, [&](LaneMask group) {
        const LaneMask yes = values & group;
        if (instr.detail == static_cast<uint64_t>(Vote::ballot)) {
            uint64_t* out = warp.write(instr.dst, sink, group);
            for (LaneMask left = group; left; left &= left - 1) out[std::countr_zero(left)] = yes;
            return;
        }
        bool result = yes == group;
        if (instr.detail == static_cast<uint64_t>(Vote::any)) result = yes != 0;
        if (instr.detail == static_cast<uint64_t>(Vote::uni)) result = yes == group || yes == 0;
        LaneMask& pred = warp.pred(instr.dst);
        pred = result ? pred | group : pred & ~group;
    });
    return after_gather(warp, lanes, ready);
}

Step exec_activemask(Warp& warp, const Instr& instr, LaneMask lanes) {
    Lanes sink;
    uint64_t* out = warp.write(instr.dst, sink, lanes);
    for (LaneMask left = lanes; left; left &= left - 1) out[std::countr_zero(left)] = lanes;
    return Step::next;
}

/// The lowest lane of the mask leads (measured on an H200 for every mask tried).
Step exec_elect(Warp& warp, const Instr& instr, LaneMask lanes) {
    Lanes scratch, sink;
    const uint64_t* masks = warp.read(instr.src[0], scratch, lanes);
    const LaneMask ready = gather(warp, instr, lanes, masks);
    for_each_mask(ready, masks, [&](LaneMask group) {
        const uint32_t leader = static_cast<uint32_t>(std::countr_zero(group));
        uint64_t* out = warp.write(instr.dst, sink, group);
        for (LaneMask left = group; left; left &= left - 1) out[std::countr_zero(left)] = leader;
        LaneMask& pred = warp.pred(instr.dst2);
        pred = (pred & ~group) | 1u << leader;
    });
    return after_gather(warp, lanes, ready);
}

/// The one of these instructions that orders memory among the lanes.
Step exec_warp_sync(Warp& warp, const Instr& instr, LaneMask lanes) {
    Lanes scratch;
    const uint64_t* masks = warp.read(instr.src[0], scratch, lanes);
    const LaneMask ready = gather(warp, instr, lanes, masks);
    if (Checker* checker = warp.machine().checker())
        for_each_mask(ready, masks, [&](LaneMask group) { checker->warp_sync(warp.first_actor, group); });
    return after_gather(warp, lanes, ready);
}

Instr decode_vote(Decoder& decoder) {
    Modifiers modifiers(decoder);
    modifiers.need("sync");
    Instr instr;
    const Vote vote = modifiers.take_one<Vote>(
        {{"all", Vote::all}, {"any", Vote::any}, {"uni", Vote::uni}, {"ballot", Vote::ballot}}, Vote::all);
    modifiers.need(vote == Vote::ballot ? "b32" : "pred");
    modifiers.done();
    instr.exec = exec_vote;
    instr.detail = static_cast<uint64_t>(vote);
    instr.dst = decoder.dst(0);
    instr.src[0] = decoder.src(1, 1);
    instr.src[1] = decoder.src(2, 32);
    return instr;
}

Instr decode_activemask(Decoder& decoder) {
    Modifiers modifiers(decoder);
    modifiers.need("b32");
    modifiers.done();
    Instr instr;
    instr.exec = exec_activemask;
    instr.dst = decoder.dst(0);
    return instr;
}

Instr decode_elect(Decoder& decoder) {
    Modifiers modifiers(decoder);
    modifiers.need("sync");
    modifiers.done();
    const Operand& both = decoder.statement().operands.at(0);
    if (both.kind != OperandKind::pair) decoder.refuse("a pair d|p is expected");
    Instr instr;
    instr.exec = exec_elect;
    instr.dst = decoder.dst(both.parts.at(0));
    instr.dst2 = decoder.dst(both.parts.at(1));
    instr.src[0] = decoder.src(1, 32);
    return instr;
}

Instr decode_warp_sync(Decoder& decoder) {
    Modifiers modifiers(decoder);
    modifiers.need("warp");
    modifiers.need("sync");
    modifiers.done();
    Instr instr;
    instr.exec = exec_warp_sync;
    instr.flags = kWarpSync;
    instr.src[0] = decoder.src(0, 32);
    return instr;
}

}  // namespace

const Family vote_family = {"vote", {"vote"}, decode_vote};
const Family activemask_family = {"activemask", {"activemask"}, decode_activemask};
const Family elect_family = {"elect", {"elect"}, decode_elect};
const Family warp_sync_family = {"warp_sync", {"bar.warp"}, decode_warp_sync};

}  // namespace nvfp4r::sim
