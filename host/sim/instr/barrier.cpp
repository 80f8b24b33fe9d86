// bar, barrier (PTX ISA 9.7.13.1): the 16 barriers of a CTA. Threads arrive one by one; an aligned instruction arrives
// for its whole warp. Without a count the barrier takes every thread of the CTA that has not exited.
#include <fmt/format.h>

#include <array>
#include <bit>

#include "sim/instr/families.hpp"
#include "sim/instr/modifiers.hpp"
#include "sim/instr/state_keys.hpp"
#include "sim/machine/cost.hpp"
#include "sim/machine/machine.hpp"

namespace nvfp4r::sim {
namespace {

constexpr uint32_t kBarriers = 16;

enum class Kind : uint8_t { sync, arrive, red_popc, red_and, red_or };

struct BarrierOp {
    Kind kind = Kind::sync;
    bool aligned = false;
    bool counted = false;
    uint32_t destination = ~0u;  // red
};

/// One use of a barrier, from its first arrival to its completion.
struct BarrierPhase {
    uint32_t barrier = 0;
    bool done = false;
    uint32_t expected = 0;             // threads; 0: all that live
    uint32_t arrived = 0;              // threads, whole warps for aligned instructions
    std::vector<LaneMask> arrived_of;  // of each warp
    SyncClock clock;
    uint32_t popc = 0;
    bool all = true, any = false;
};

struct CtaBarriers {
    std::array<std::shared_ptr<BarrierPhase>, kBarriers> open;  // nullptr: nobody has arrived
};

struct WaitingLanes {
    std::array<std::shared_ptr<BarrierPhase>, kLanes> phase;
};

bool complete(const Cta& cta, const BarrierPhase& phase) {
    if (phase.expected != 0) return phase.arrived >= phase.expected;
    for (size_t w = 0; w < cta.warps.size(); ++w)
        if (cta.warps[w]->live & ~phase.arrived_of[w]) return false;
    return true;
}

bool try_complete_barrier(Cta& cta, const std::shared_ptr<BarrierPhase>& phase) {
    if (phase->done) return true;
    if (!complete(cta, *phase)) return false;
    phase->done = true;
    CtaBarriers& barriers = *std::static_pointer_cast<CtaBarriers>(cta.family_state[state_key::kBarrier]);
    if (barriers.open[phase->barrier] == phase) barriers.open[phase->barrier] = nullptr;
    cta.machine().progress();
    return true;
}

std::string describe_barrier(const Warp& warp) {
    auto state = warp.family_state.find(state_key::kBarrier);
    if (state == warp.family_state.end()) return "a barrier";
    for (const auto& phase : static_cast<const WaitingLanes*>(state->second.get())->phase)
        if (phase && !phase->done)
            return fmt::format("barrier {}: {} of {} threads have arrived", phase->barrier, phase->arrived,
                               phase->expected ? fmt::format("{}", phase->expected) : "all live");
    return "a barrier";
}

std::shared_ptr<BarrierPhase> open_phase_barrier(Warp& warp, const Instr& instr, LaneMask lanes, uint32_t barrier,
                                                 uint32_t expected) {
    Cta& cta = *warp.cta;
    auto& state = cta.family_state[state_key::kBarrier];
    if (!state) state = std::make_shared<CtaBarriers>();
    std::shared_ptr<BarrierPhase>& open = static_cast<CtaBarriers*>(state.get())->open[barrier];
    if (!open) {
        open = std::make_shared<BarrierPhase>();
        open->barrier = barrier;
        open->expected = expected;
        open->arrived_of.assign(cta.warps.size(), 0);
    }
    if (open->expected != expected)
        cta.machine().report(FindingKind::illegal_instruction,
                             fmt::format("barrier {} is in use with a count of {}, this thread names {} (0: all)",
                                         barrier, open->expected, expected),
                             &warp, lanes, &instr);
    return open;
}

void arrive(Warp& warp, const Instr& instr, LaneMask lanes, const std::shared_ptr<BarrierPhase>& phase) {
    const BarrierOp& op = instr.extra_as<BarrierOp>();
    Machine& machine = warp.machine();
    if (phase->arrived_of[warp.index] & lanes)
        machine.report(FindingKind::illegal_instruction,
                       fmt::format("lanes {:#010x} arrive twice at barrier {} in one phase",
                                   phase->arrived_of[warp.index] & lanes, phase->barrier),
                       &warp, lanes, &instr);
    phase->arrived_of[warp.index] |= lanes;
    // An aligned instruction counts its warp as whole, also a last warp with fewer threads (PTX ISA 9.7.13.1).
    phase->arrived += op.aligned ? kLanes : static_cast<uint32_t>(std::popcount(lanes));
    if (phase->expected != 0 && phase->arrived > phase->expected)
        machine.report(
            FindingKind::illegal_instruction,
            fmt::format("{} threads arrive at barrier {} of {}", phase->arrived, phase->barrier, phase->expected),
            &warp, lanes, &instr);
    if (op.kind >= Kind::red_popc) {
        const LaneMask values = warp.read_pred(instr.src[2], lanes);
        phase->popc += static_cast<uint32_t>(std::popcount(values));
        phase->all &= values == lanes;
        phase->any |= values != 0;
    }
    if (Checker* checker = machine.checker()) {
        if (op.kind == Kind::arrive) {
            for (LaneMask left = lanes; left; left &= left - 1)
                checker->release(warp.first_actor + static_cast<uint32_t>(std::countr_zero(left)), phase->clock);
        } else {
            // The barrier orders these lanes anyway, so one of them may speak for all.
            checker->warp_sync(warp.first_actor, lanes);
            checker->release(warp.first_actor + static_cast<uint32_t>(std::countr_zero(lanes)), phase->clock);
        }
    }
    machine.progress();
}

void write_result_barrier(Warp& warp, const Instr& instr, LaneMask lanes, const BarrierPhase& phase) {
    const BarrierOp& op = instr.extra_as<BarrierOp>();
    if (op.kind < Kind::red_popc || op.destination == ~0u) return;
    if (op.kind == Kind::red_popc) {
        Lanes sink;
        uint64_t* out = warp.write(op.destination, sink, lanes);
        for (LaneMask left = lanes; left; left &= left - 1) out[std::countr_zero(left)] = phase.popc;
        return;
    }
    const bool value = op.kind == Kind::red_and ? phase.all : phase.any;
    LaneMask& pred = warp.pred(op.destination);
    pred = value ? pred | lanes : pred & ~lanes;
}

Step exec_barrier(Warp& warp, const Instr& instr, LaneMask lanes) {
    const BarrierOp& op = instr.extra_as<BarrierOp>();
    Cta& cta = *warp.cta;
    WaitingLanes& waiting = warp.state<WaitingLanes>(state_key::kBarrier);
    const uint32_t first = static_cast<uint32_t>(std::countr_zero(lanes));
    if (!waiting.phase[first]) {
        Lanes scratch[2];
        const uint64_t* barrier = warp.read(instr.src[0], scratch[0], lanes);
        const uint64_t* count = warp.read(instr.src[1], scratch[1], lanes);
        // Lanes that name another barrier, or that wait already, go by themselves.
        for (LaneMask left = lanes & (lanes - 1); left; left &= left - 1) {
            const uint32_t lane = static_cast<uint32_t>(std::countr_zero(left));
            if (barrier[lane] != barrier[first] || count[lane] != count[first] || waiting.phase[lane])
                lanes &= ~(1u << lane);
        }
        if (barrier[first] >= kBarriers)
            throw Fault(FindingKind::illegal_instruction,
                        fmt::format("barrier {}: a CTA has {}", barrier[first], kBarriers));
        const uint32_t expected = op.counted ? static_cast<uint32_t>(count[first]) : 0;
        if (op.counted && (expected == 0 || expected % kLanes != 0))
            throw Fault(FindingKind::illegal_instruction,
                        fmt::format("barrier count {}: a multiple of {} threads is needed", expected, kLanes));
        std::shared_ptr<BarrierPhase> phase =
            open_phase_barrier(warp, instr, lanes, static_cast<uint32_t>(barrier[first]), expected);
        arrive(warp, instr, lanes, phase);
        try_complete_barrier(cta, phase);
        for (LaneMask left = lanes; left; left &= left - 1) {
            const uint32_t lane = static_cast<uint32_t>(std::countr_zero(left));
            if (op.kind == Kind::arrive)
                ++warp.pc[lane];
            else
                waiting.phase[lane] = phase;
        }
        if (op.kind == Kind::arrive) return Step::jumped;
    }
    const std::shared_ptr<BarrierPhase> phase = waiting.phase[first];
    for (LaneMask left = lanes; left; left &= left - 1) {
        const uint32_t lane = static_cast<uint32_t>(std::countr_zero(left));
        if (waiting.phase[lane] != phase) lanes &= ~(1u << lane);
    }
    if (!try_complete_barrier(cta, phase)) {
        cta.machine().count("barrier waits", 1);
        warp.block(
            lanes, [&cta, phase] { return try_complete_barrier(cta, phase); }, describe_barrier);
        return Step::blocked;
    }
    if (Checker* checker = cta.machine().checker()) {
        checker->acquire(warp.first_actor + first, phase->clock);
        checker->warp_sync(warp.first_actor, lanes);
    }
    write_result_barrier(warp, instr, lanes, *phase);
    for (LaneMask left = lanes; left; left &= left - 1) {
        const uint32_t lane = static_cast<uint32_t>(std::countr_zero(left));
        waiting.phase[lane] = nullptr;
        ++warp.pc[lane];
    }
    warp.time += cost::kBarrier;
    return Step::jumped;
}

Instr decode_barrier(Decoder& decoder) {
    const Statement& statement = decoder.statement();
    Modifiers modifiers(decoder);
    modifiers.take("cta");
    BarrierOp op;
    const std::string_view kind = modifiers.need_any({"sync", "arrive", "red"});
    // bar is barrier.aligned (PTX ISA 9.7.13.1).
    op.aligned = statement.opcode == "bar";
    size_t next = 0;
    Instr instr;
    if (kind == "red") {
        op.kind = modifiers.take_one<Kind>({{"popc", Kind::red_popc}, {"and", Kind::red_and}, {"or", Kind::red_or}},
                                           Kind::sync);
        if (op.kind == Kind::sync) decoder.refuse(".popc, .and or .or is expected");
        op.aligned |= modifiers.take("aligned");
        modifiers.need(op.kind == Kind::red_popc ? "u32" : "pred");
        op.destination = decoder.dst(next++);
        instr.src[2] = decoder.src(statement.operands.size() - 1, 1);
    } else {
        op.kind = kind == "sync" ? Kind::sync : Kind::arrive;
        op.aligned |= modifiers.take("aligned");
    }
    modifiers.done();
    const size_t operands = statement.operands.size() - next - (kind == "red" ? 1 : 0);
    if (operands < 1 || operands > 2) decoder.refuse("a barrier and at most one thread count are expected");
    instr.src[0] = decoder.src(next, 32);
    op.counted = operands == 2;
    if (op.counted) instr.src[1] = decoder.src(next + 1, 32);
    if (op.kind == Kind::arrive && !op.counted) decoder.refuse("bar.arrive needs a thread count");
    instr.exec = exec_barrier;
    instr.flags = op.aligned ? kAlignedLive : 0;
    instr.extra = std::make_shared<BarrierOp>(op);
    return instr;
}

}  // namespace

const Family barrier_family = {"barrier", {"bar", "barrier"}, decode_barrier};

}  // namespace nvfp4r::sim
