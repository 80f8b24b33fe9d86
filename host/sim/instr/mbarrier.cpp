// mbarrier.* (PTX ISA 9.7.13.15). The object's rules are in machine/mbarrier.hpp; here are the operations on it.
//
// A state token holds what hardware puts there (bit 63 phase, bits 43-62 minus the pending count) and, in the low half
// that hardware leaves undefined, the number of the phase, so that a wait on a phase two behind is noticed.
#include "sim/machine/mbarrier.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <map>

#include "sim/instr/families.hpp"
#include "sim/instr/memory_order.hpp"
#include "sim/instr/stale_wait.hpp"
#include "sim/instr/state_keys.hpp"
#include "sim/machine/cost.hpp"

namespace nvfp4r::sim {
namespace {

constexpr uint32_t kBytes = 8;
constexpr uint32_t kPhaseBit = 63, kPendingBit = 43;
constexpr uint64_t kPendingMask = (1u << 20) - 1;
constexpr uint64_t kRefusals = 8;  // random policies: one try_wait in so many returns false before its phase is over

struct MbarrierOperation {
    StateSpace space = StateSpace::shared;
    bool has_order = true;  // release for arrivals, acquire for waits
    // .cta is written: nothing is ordered between CTAs. Without a scope the ISA says .cta too, yet CUTLASS and others
    // arrive at other CTAs' barriers in that form, so it orders as far as the barrier reaches.
    bool cta_only = false;
    bool parity = false;    // waits
    bool blocking = false;  // try_wait
    bool drop = false;
    bool expects = false;
    bool counted = false;
    bool no_complete = false;
};

struct Target {
    Cta* owner = nullptr;
    uint32_t offset = 0;
};

/// What the lanes last saw of a barrier, for the report of stale waits.
struct Waits {
    struct Lane {
        const Cta* owner = nullptr;
        uint32_t offset = 0, parity = 0;
    };
    std::array<Lane, kLanes> lanes;
    // Completed phases that a lane knows of, by barrier.
    std::array<std::map<std::pair<const Cta*, uint32_t>, uint64_t>, kLanes> known;
};

Target mbarrier_target_of(Warp& warp, const Instr& instr, StateSpace space, uint64_t address) {
    Target target;
    bool cluster_form = space == StateSpace::shared_cluster;
    if (space == StateSpace::generic) {
        if (address - kSharedWindow > ~0u)
            throw Fault(FindingKind::out_of_bounds,
                        fmt::format("generic address {:#x} of an mbarrier is not in shared memory", address));
        cluster_form = true;
    }
    target.owner =
        &warp.machine().shared_owner(*warp.cta, static_cast<uint32_t>(address), cluster_form, target.offset, &instr);
    return target;
}

Mbarrier& barrier_of(Warp& warp, uint32_t lane, const Instr& instr, const Target& target) {
    Machine& machine = warp.machine();
    Mbarrier& barrier = machine.mbarrier(*target.owner, target.offset, &instr);
    if (target.owner != warp.cta && !barrier.shown)
        machine.report(FindingKind::mbarrier_misuse,
                       fmt::format("the mbarrier at offset {:#x} of rank {} is used from another CTA, but its "
                                   "initialiser executed no fence.mbarrier_init",
                                   target.offset, target.owner->rank),
                       &warp, 1u << lane, &instr);
    // Every use must come after the initialisation.
    if (Checker* checker = machine.checker())
        checker->access(warp.first_actor + lane, *target.owner->shared_shadow, target.offset, kBytes,
                        {Access::read, Proxy::generic, Order::weak, &instr});
    return barrier;
}

uint64_t token(const Mbarrier& barrier) {
    return (barrier.phase & 1) << kPhaseBit | (-uint64_t{barrier.pending} & kPendingMask) << kPendingBit |
           (barrier.phase & 0xffffffffu);
}

Step exec_init(Warp& warp, const Instr& instr, LaneMask lanes) {
    const MbarrierOperation& op = instr.extra_as<MbarrierOperation>();
    Lanes addresses, scratch;
    warp.addresses(instr.addr, addresses, lanes);
    const uint64_t* counts = warp.read(instr.src[0], scratch, lanes);
    Machine& machine = warp.machine();
    for (LaneMask left = lanes; left; left &= left - 1) {
        const uint32_t lane = static_cast<uint32_t>(std::countr_zero(left));
        const Target target = mbarrier_target_of(warp, instr, op.space, addresses[lane]);
        if (target.owner->mbarriers.erase(target.offset) != 0)
            machine.report(FindingKind::mbarrier_misuse,
                           fmt::format("mbarrier.init at offset {:#x}, where a live mbarrier is: mbarrier.inval first",
                                       target.offset),
                           &warp, 1u << lane, &instr);
        const Machine::Place place = machine.place(warp, lane, op.space, addresses[lane], kBytes, kBytes, &instr);
        const uint32_t count = static_cast<uint32_t>(counts[lane]);
        if (count == 0 || count > kMbarrierMax)
            throw Fault(FindingKind::mbarrier_misuse,
                        fmt::format("mbarrier.init with a count of {}: 1 to {} are possible", count, kMbarrierMax));
        Mbarrier barrier;
        barrier.expected = barrier.pending = count;
        barrier.init_warp = warp.index;
        barrier.init_lane = lane;
        target.owner->mbarriers[target.offset] = barrier;
        if (Checker* checker = machine.checker())
            checker->access(warp.first_actor + lane, *place.shadow, place.offset, kBytes,
                            {Access::write, Proxy::generic, Order::weak, &instr});
    }
    machine.progress();
    return Step::next;
}

Step exec_inval(Warp& warp, const Instr& instr, LaneMask lanes) {
    const MbarrierOperation& op = instr.extra_as<MbarrierOperation>();
    Lanes addresses;
    warp.addresses(instr.addr, addresses, lanes);
    Machine& machine = warp.machine();
    for (LaneMask left = lanes; left; left &= left - 1) {
        const uint32_t lane = static_cast<uint32_t>(std::countr_zero(left));
        const Target target = mbarrier_target_of(warp, instr, op.space, addresses[lane]);
        const Mbarrier& barrier = machine.mbarrier(*target.owner, target.offset, &instr);
        if (barrier.tx != 0)
            machine.report(
                FindingKind::mbarrier_misuse,
                fmt::format("mbarrier.inval while {} bytes are awaited in phase {}", barrier.tx, barrier.phase), &warp,
                1u << lane, &instr);
        target.owner->mbarriers.erase(target.offset);
        if (Checker* checker = machine.checker()) {
            checker->access(warp.first_actor + lane, *target.owner->shared_shadow, target.offset, kBytes,
                            {Access::write, Proxy::generic, Order::weak, &instr});
            checker->forget(*target.owner->shared_shadow, target.offset, kBytes);
        }
    }
    machine.progress();
    return Step::next;
}

Step exec_mbarrier_arrive(Warp& warp, const Instr& instr, LaneMask lanes) {
    const MbarrierOperation& op = instr.extra_as<MbarrierOperation>();
    Lanes addresses, scratch[2], sink;
    warp.addresses(instr.addr, addresses, lanes);
    const uint64_t* counts = warp.read(instr.src[0], scratch[0], lanes);
    const uint64_t* bytes = warp.read(instr.src[1], scratch[1], lanes);
    uint64_t* tokens = warp.write(instr.dst, sink, lanes);
    Machine& machine = warp.machine();
    for (LaneMask left = lanes; left; left &= left - 1) {
        const uint32_t lane = static_cast<uint32_t>(std::countr_zero(left));
        const Target target = mbarrier_target_of(warp, instr, op.space, addresses[lane]);
        Mbarrier& barrier = barrier_of(warp, lane, instr, target);
        if (op.expects) barrier.expect_tx(static_cast<int64_t>(static_cast<uint32_t>(bytes[lane])));
        const uint64_t state = token(barrier);
        const uint32_t count = op.counted ? static_cast<uint32_t>(counts[lane]) : 1;
        if (op.no_complete && count >= barrier.pending && barrier.tx == 0)
            throw Fault(FindingKind::mbarrier_misuse,
                        fmt::format("arrive.noComplete of {} would complete phase {}", count, barrier.phase));
        const bool far = target.owner != warp.cta;
        if (Checker* checker = machine.checker(); checker && op.has_order && !(far && op.cta_only))
            checker->release(warp.first_actor + lane, far ? barrier.arriving_far : barrier.arriving);
        op.drop ? barrier.arrive_drop(count) : barrier.arrive(count);
        tokens[lane] = state;
    }
    machine.progress();
    return Step::next;
}

Step exec_tx(Warp& warp, const Instr& instr, LaneMask lanes) {
    const MbarrierOperation& op = instr.extra_as<MbarrierOperation>();
    Lanes addresses, scratch;
    warp.addresses(instr.addr, addresses, lanes);
    const uint64_t* bytes = warp.read(instr.src[0], scratch, lanes);
    for (LaneMask left = lanes; left; left &= left - 1) {
        const uint32_t lane = static_cast<uint32_t>(std::countr_zero(left));
        Mbarrier& barrier = barrier_of(warp, lane, instr, mbarrier_target_of(warp, instr, op.space, addresses[lane]));
        const int64_t count = static_cast<int64_t>(static_cast<uint32_t>(bytes[lane]));
        op.expects ? barrier.expect_tx(count) : barrier.complete_tx(count);
    }
    warp.machine().progress();
    return Step::next;
}

std::string describe_mbarrier_wait(const Warp& warp) {
    auto found = warp.family_state.find(state_key::kMbarrier);
    if (found == warp.family_state.end()) return "an mbarrier";
    const Waits& waits = *static_cast<const Waits*>(found->second.get());
    for (LaneMask left = warp.blocked_lanes; left; left &= left - 1) {
        const Waits::Lane& lane = waits.lanes[static_cast<uint32_t>(std::countr_zero(left))];
        if (!lane.owner) continue;
        auto barrier = lane.owner->mbarriers.find(lane.offset);
        if (barrier == lane.owner->mbarriers.end()) continue;
        const Mbarrier& b = barrier->second;
        return fmt::format(
            "the phase of parity {} of the mbarrier at offset {:#x} (phase {}, pending {} of {}, {} bytes "
            "of tx missing)",
            lane.parity, lane.offset, b.phase, b.pending, b.expected, b.tx);
    }
    return "an mbarrier";
}

}  // namespace

bool waits_for_stale_phase(const Warp& warp) {
    auto found = warp.family_state.find(state_key::kMbarrier);
    if (found == warp.family_state.end()) return false;
    const Waits& waits = *static_cast<const Waits*>(found->second.get());
    for (LaneMask left = warp.blocked_lanes & warp.live; left; left &= left - 1) {
        const uint32_t lane = static_cast<uint32_t>(std::countr_zero(left));
        const Waits::Lane& wait = waits.lanes[lane];
        if (!wait.owner) continue;
        auto barrier = wait.owner->mbarriers.find(wait.offset);
        if (barrier == wait.owner->mbarriers.end()) continue;
        auto known = waits.known[lane].find({wait.owner, wait.offset});
        const uint64_t next = known == waits.known[lane].end() ? 0 : known->second;
        if ((next & 1) == wait.parity && barrier->second.phase >= next + 2 &&
            (barrier->second.phase & 1) == wait.parity)
            return true;
    }
    return false;
}

namespace {

/// Has the awaited phase completed?
bool over(Warp& warp, uint32_t lane, const Instr& instr, const MbarrierOperation& op, const Mbarrier& barrier,
          uint64_t value) {
    if (op.parity) return barrier.test(static_cast<uint32_t>(value) & 1);
    const uint64_t behind = (barrier.phase - value) & 0xffffffffu;
    if (behind > 1)
        warp.machine().report(FindingKind::stale_phase,
                              fmt::format("the token is of phase {}, the mbarrier is in phase {}: only the current and "
                                          "the last phase may be asked for",
                                          value & 0xffffffffu, barrier.phase),
                              &warp, 1u << lane, &instr);
    return barrier.test(static_cast<uint32_t>(value >> kPhaseBit));
}

Step exec_mbarrier_wait(Warp& warp, const Instr& instr, LaneMask lanes) {
    const MbarrierOperation& op = instr.extra_as<MbarrierOperation>();
    Lanes addresses, scratch;
    warp.addresses(instr.addr, addresses, lanes);
    const uint64_t* values = warp.read(instr.src[0], scratch, lanes);
    Machine& machine = warp.machine();
    // A potentially blocking wait may give up at any time; the random policies use that now and then.
    const bool gives_up =
        !op.blocking || (machine.config().policy >= Policy::random && machine.random() % kRefusals == 0);
    LaneMask done = 0;
    LaneMask result = 0;
    for (LaneMask left = lanes; left; left &= left - 1) {
        const uint32_t lane = static_cast<uint32_t>(std::countr_zero(left));
        const Target target = mbarrier_target_of(warp, instr, op.space, addresses[lane]);
        if (target.owner != warp.cta)
            throw Fault(FindingKind::mbarrier_misuse, "a wait on the mbarrier of another CTA");
        Mbarrier& barrier = barrier_of(warp, lane, instr, target);
        if (over(warp, lane, instr, op, barrier, values[lane])) {
            done |= 1u << lane;
            result |= 1u << lane;
            warp.state<Waits>(state_key::kMbarrier).known[lane][{target.owner, target.offset}] = barrier.phase;
            if (Checker* checker = machine.checker(); checker && op.has_order) {
                checker->acquire(warp.first_actor + lane, barrier.completed);
                if (!op.cta_only) checker->acquire(warp.first_actor + lane, barrier.completed_far);
            }
            continue;
        }
        if (gives_up) {
            done |= 1u << lane;
            continue;
        }
        const uint64_t value = op.parity ? values[lane] & 1 : values[lane] >> kPhaseBit;
        warp.state<Waits>(state_key::kMbarrier).lanes[lane] = {target.owner, target.offset,
                                                               static_cast<uint32_t>(value)};
        Cta* owner = target.owner;
        // Lanes that wait for the same phase share one entry.
        auto same = [&](uint32_t other) {
            return addresses[other] == addresses[lane] && values[other] == values[lane];
        };
        LaneMask group = 0;
        for (LaneMask rest = left; rest; rest &= rest - 1) {
            const uint32_t other = static_cast<uint32_t>(std::countr_zero(rest));
            if (!same(other)) continue;
            group |= 1u << other;
            warp.state<Waits>(state_key::kMbarrier).lanes[other] = warp.state<Waits>(state_key::kMbarrier).lanes[lane];
        }
        machine.count("mbarrier waits", 1);
        warp.block(
            group,
            [owner, offset = target.offset, parity = static_cast<uint32_t>(value)] {
                auto found = owner->mbarriers.find(offset);
                // A barrier that is gone is reported when the instruction runs again.
                return found == owner->mbarriers.end() || found->second.test(parity);
            },
            describe_mbarrier_wait);
        left &= ~group | 1u << lane;
    }
    warp.time += cost::kBarrier;
    if (done == 0) return Step::blocked;
    LaneMask& pred = warp.pred(instr.dst);
    pred = (pred & ~done) | result;
    if (done == lanes) return Step::next;
    for (LaneMask left = done; left; left &= left - 1) ++warp.pc[static_cast<uint32_t>(std::countr_zero(left))];
    return Step::jumped;
}

Step exec_pending_count(Warp& warp, const Instr& instr, LaneMask lanes) {
    Lanes scratch, sink;
    const uint64_t* state = warp.read(instr.src[0], scratch, lanes);
    uint64_t* out = warp.write(instr.dst, sink, lanes);
    for (LaneMask left = lanes; left; left &= left - 1) {
        const int lane = std::countr_zero(left);
        out[lane] = -(state[lane] >> kPendingBit) & kPendingMask;
    }
    return Step::next;
}

StateSpace take_shared(Decoder& decoder, Modifiers& modifiers) {
    const StateSpace space = take_space(modifiers);
    if (space != StateSpace::shared && space != StateSpace::shared_cluster && space != StateSpace::generic)
        decoder.refuse("an mbarrier lives in shared memory");
    return space;
}

void take_order_mbarrier(Modifiers& modifiers, std::string_view strong, MbarrierOperation& op) {
    if (modifiers.take("relaxed"))
        op.has_order = false;
    else if (!modifiers.take(strong))
        return;
    op.cta_only = take_scope(modifiers, Scope::cluster) == Scope::cta;
}

void decode_arrive(Decoder& decoder, Modifiers& modifiers, MbarrierOperation& op, Instr& instr) {
    op.expects = modifiers.take("expect_tx");
    op.no_complete = modifiers.take("noComplete");
    take_order_mbarrier(modifiers, "release", op);
    op.space = take_shared(decoder, modifiers);
    modifiers.need("b64");
    const std::vector<Operand>& operands = decoder.statement().operands;
    // The result may be left out altogether, as in `mbarrier.arrive.b64 _, [a]`; remote arrivals have none.
    const size_t address = operands.at(0).kind == OperandKind::address ? 0 : 1;
    instr.dst = address == 1 ? decoder.dst(0) : ~0u;
    if (op.space == StateSpace::shared_cluster && instr.dst != ~0u)
        decoder.refuse("an arrive in .shared::cluster gives no state: write _");
    instr.addr = decoder.addr(address);
    const bool more = operands.size() > address + 1;
    if (op.expects) {
        instr.src[1] = decoder.src(address + 1, 32);
    } else if (more) {
        op.counted = true;
        instr.src[0] = decoder.src(address + 1, 32);
    }
    instr.exec = exec_mbarrier_arrive;
}

void decode_wait(Decoder& decoder, Modifiers& modifiers, MbarrierOperation& op, Instr& instr) {
    op.parity = modifiers.take("parity");
    take_order_mbarrier(modifiers, "acquire", op);
    op.space = take_shared(decoder, modifiers);
    if (op.space == StateSpace::shared_cluster) decoder.refuse("there is no wait on an mbarrier in .shared::cluster");
    modifiers.need("b64");
    instr.dst = decoder.dst(0);
    instr.addr = decoder.addr(1);
    // The time hint of try_wait has no visible effect (measured on an H200).
    instr.src[0] = decoder.src(2, op.parity ? 32 : 64);
    instr.exec = exec_mbarrier_wait;
    instr.flags = kMaySpin;
}

Instr decode_mbarrier(Decoder& decoder) {
    Modifiers modifiers(decoder);
    MbarrierOperation op;
    Instr instr;
    const std::string_view kind = modifiers.next("the operation");
    if (kind == "init" || kind == "inval") {
        op.space = take_shared(decoder, modifiers);
        modifiers.need("b64");
        instr.addr = decoder.addr(0);
        if (kind == "init") instr.src[0] = decoder.src(1, 32);
        instr.exec = kind == "init" ? exec_init : exec_inval;
    } else if (kind == "arrive" || kind == "arrive_drop") {
        op.drop = kind == "arrive_drop";
        decode_arrive(decoder, modifiers, op, instr);
    } else if (kind == "expect_tx" || kind == "complete_tx") {
        op.expects = kind == "expect_tx";
        if (modifiers.take("relaxed")) take_scope(modifiers, Scope::cta);
        op.space = take_shared(decoder, modifiers);
        modifiers.need("b64");
        instr.addr = decoder.addr(0);
        instr.src[0] = decoder.src(1, 32);
        instr.exec = exec_tx;
    } else if (kind == "test_wait" || kind == "try_wait") {
        op.blocking = kind == "try_wait";
        decode_wait(decoder, modifiers, op, instr);
    } else if (kind == "pending_count") {
        modifiers.need("b64");
        instr.dst = decoder.dst(0);
        instr.src[0] = decoder.src(1, 64);
        instr.exec = exec_pending_count;
    } else {
        decoder.refuse("operation ." + std::string(kind) + " is not known");
    }
    modifiers.done();
    instr.extra = std::make_shared<MbarrierOperation>(op);
    return instr;
}

}  // namespace

const Family mbarrier_family = {"mbarrier", {"mbarrier"}, decode_mbarrier};

}  // namespace nvfp4r::sim
