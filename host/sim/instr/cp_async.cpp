// cp.async (PTX ISA 9.7.9.25.2): copies of 4, 8 or 16 bytes a thread from global to shared memory, by the generic proxy.
#include <cstring>

#include "sim/engine/tensor_pipe.hpp"
#include "sim/instr/decode_help.hpp"
#include "sim/instr/families.hpp"
#include "sim/instr/modifiers.hpp"

namespace nvfp4r::sim {
namespace {

constexpr uint32_t kCpAsyncCopyLatency = 500;  // cycles, an estimate

struct CopyGroup {
    uint32_t pending = 0;
    SyncClock done;
};

// The groups of a warp's threads, and what cp.async.mbarrier.arrive waits for: all earlier copies of the thread.
struct LaneCopies {
    std::shared_ptr<CopyGroup> open = std::make_shared<CopyGroup>();
    std::deque<std::shared_ptr<CopyGroup>> committed;
    PipeOrder all;
};
using WarpCopies = std::array<LaneCopies, kLanes>;

LaneCopies& copies_of(Warp& w, uint32_t lane) {
    return w.state<WarpCopies>(kCpAsyncState)[lane];
}

struct LaneCopy {
    uint32_t lane = 0;
    ActorId actor = kNoActor;
    uint64_t to = 0, from = 0;
    uint32_t from_bytes = 0;  // the rest of `bytes` is zero
    std::shared_ptr<CopyGroup> group;
};

void copy_lane(Warp& w, const LaneCopy& copy, uint32_t bytes, const Instr* instr) {
    Machine& machine = w.machine();
    const Machine::Place to = machine.place(w, copy.lane, StateSpace::shared, copy.to, bytes, bytes, instr);
    touch(machine, copy.actor, to, bytes, writes(Proxy::generic, instr));
    if (copy.from_bytes) {
        const Machine::Place from =
            machine.place(w, copy.lane, StateSpace::global, copy.from, copy.from_bytes, 1, instr);
        touch(machine, copy.actor, from, copy.from_bytes, reads(Proxy::generic, instr));
        std::memcpy(to.bytes, from.bytes, copy.from_bytes);
    }
    std::memset(to.bytes + copy.from_bytes, 0, bytes - copy.from_bytes);
    if (machine.checker()) machine.checker()->release(copy.actor, copy.group->done);
    collect(machine, copy.actor, copies_of(w, copy.lane).all);
    end_async(machine, copy.actor);
    --copy.group->pending;
}

AsyncQueue& queue_of(Warp& w) {
    return w.machine().queue(*w.cta, queue_key(Engine::cp_async, w.index), "cp.async");
}

AsyncOp new_copy(Warp& w, const Instr& i, LaneMask lanes, const char* what) {
    AsyncOp op;
    op.what = what;
    op.cta = w.cta;
    op.warp = w.index;
    op.lane = first_lane(lanes);
    op.instr = &i;
    op.latency = kCpAsyncCopyLatency;
    return op;
}

// src[0] = source bytes (none: all), src[1] = ignore-src predicate; detail = copy size.
Step exec_copy(Warp& w, const Instr& i, LaneMask lanes) {
    const auto bytes = static_cast<uint32_t>(i.detail);
    Lanes to, from, scratch;
    w.addresses(i.addr, to, lanes);
    w.addresses(i.extra_as<Addr>(), from, lanes);
    const uint64_t* sizes = i.src[0].kind == Src::Kind::none ? nullptr : w.read(i.src[0], scratch, lanes);
    const LaneMask ignored = i.src[1].kind == Src::Kind::none ? 0 : w.read_pred(i.src[1], lanes);
    std::vector<LaneCopy> copies;
    each_lane(lanes, [&](uint32_t lane) {
        auto size = sizes ? static_cast<uint32_t>(sizes[lane]) : bytes;
        if (size > bytes) {
            report_lane(w, lane, FindingKind::illegal_instruction,
                        fmt::format("cp.async of {} bytes with a source of {}", bytes, size), &i);
            size = bytes;
        }
        if (ignored >> lane & 1u) size = 0;
        if (size && from[lane] % bytes != 0)
            throw Fault(FindingKind::misaligned,
                        fmt::format("cp.async source {:#x} is not a multiple of {}", from[lane], bytes));
        LaneCopies& state = copies_of(w, lane);
        ++state.open->pending;
        copies.push_back(
            {lane, begin_async(w.machine(), w.first_actor + lane), to[lane], from[lane], size, state.open});
    });
    AsyncOp op = new_copy(w, i, lanes, "cp.async");
    op.bytes = uint64_t{bytes} * copies.size();
    op.run = [&w, copies = std::move(copies), bytes](AsyncOp& self) {
        for (const LaneCopy& copy : copies) copy_lane(w, copy, bytes, self.instr);
        w.machine().progress();
        return true;
    };
    w.machine().issue(queue_of(w), std::move(op));
    return Step::next;
}

Step exec_cp_async_commit(Warp& w, const Instr&, LaneMask lanes) {
    each_lane(lanes, [&](uint32_t lane) {
        LaneCopies& state = copies_of(w, lane);
        state.committed.push_back(std::exchange(state.open, std::make_shared<CopyGroup>()));
    });
    return Step::next;
}

std::string describe_cp_async_wait(const Warp&) {
    return "cp.async.wait_group waits for the thread's copies";
}

// detail = groups that may stay pending; wait_all has committed the open one first.
Step wait_groups(Warp& w, const Instr& i, LaneMask lanes) {
    const auto keep = static_cast<size_t>(i.detail);
    const auto ready = [&w, lanes, keep] {
        bool all = true;
        each_lane(lanes, [&](uint32_t lane) {
            const auto& groups = copies_of(w, lane).committed;
            for (size_t g = 0; g + keep < groups.size(); ++g) all = all && groups[g]->pending == 0;
        });
        return all;
    };
    if (!ready()) {
        w.block(lanes, ready, describe_cp_async_wait);
        return Step::blocked;
    }
    each_lane(lanes, [&](uint32_t lane) {
        auto& groups = copies_of(w, lane).committed;
        for (; groups.size() > keep; groups.pop_front())
            if (w.machine().checker()) w.machine().checker()->acquire(w.first_actor + lane, groups.front()->done);
    });
    return Step::next;
}

Step exec_wait_all(Warp& w, const Instr& i, LaneMask lanes) {
    exec_cp_async_commit(w, i, lanes);
    return wait_groups(w, i, lanes);
}

// The arrival comes when the thread's earlier copies have completed; without .noinc it is counted as pending now.
Step exec_cp_async_arrive(Warp& w, const Instr& i, LaneMask lanes) {
    const bool counted = i.detail != 0;
    Lanes addresses;
    w.addresses(i.addr, addresses, lanes);
    each_lane(lanes, [&](uint32_t lane) {
        const MbarrierRef barrier = barrier_at(w.machine(), w, lane, static_cast<uint32_t>(addresses[lane]), false, &i);
        if (!counted) {
            Mbarrier& object = w.machine().mbarrier(*barrier.owner, barrier.offset, &i);
            if (object.pending >= kMbarrierMax)
                throw Fault(FindingKind::mbarrier_overflow,
                            "cp.async.mbarrier.arrive raises the pending count too far");
            ++object.pending;
        }
        AsyncOp op = new_copy(w, i, LaneMask{1} << lane, "cp.async arrive");
        op.latency = 1;
        op.actor = begin_async(w.machine(), w.first_actor + lane);
        op.run = [&w, lane, barrier](AsyncOp& self) {
            follow(w.machine(), self.actor, copies_of(w, lane).all);
            arrive_one(w.machine(), self.actor, barrier, self.instr);
            end_async(w.machine(), self.actor);
            return true;
        };
        w.machine().issue(queue_of(w), std::move(op));
    });
    return Step::next;
}

Instr decode_copy(Decoder& d, Modifiers& m) {
    const bool l2_only = m.need_any({"ca", "cg"}) == "cg";
    m.need_any({"shared", "shared::cta"});
    m.need("global");
    const bool hint = m.take("L2::cache_hint");
    m.take_any({"L2::64B", "L2::128B", "L2::256B"});
    m.done();
    const auto& operands = d.statement().operands;
    if (operands.size() < 3) need_operands(d, 3);
    Instr i;
    i.exec = exec_copy;
    i.addr = d.addr(0);
    i.extra = std::make_shared<const Addr>(d.addr(1));
    const Src size = d.src(2, 32);
    const bool known = size.imm == 4 || size.imm == 8 || size.imm == 16;
    if (size.kind != Src::Kind::imm || !known || (l2_only && size.imm != 16))
        d.refuse("the copy size is 4, 8 or 16 for .ca and 16 for .cg");
    i.detail = size.imm;
    size_t next = 3;
    if (next + hint < operands.size()) {
        const bool ignore = operands[next].kind == OperandKind::pred;
        i.src[ignore ? 1 : 0] = d.src(next, ignore ? 1 : 32);
        ++next;
    }
    need_operands(d, next + hint);
    return i;
}

Instr decode_cp_async(Decoder& d) {
    Modifiers m(d);
    m.need("async");
    Instr i;
    if (m.take("commit_group")) {
        m.done();
        need_operands(d, 0);
        i.exec = exec_cp_async_commit;
    } else if (m.take("wait_all")) {
        m.done();
        need_operands(d, 0);
        i.exec = exec_wait_all;
    } else if (m.take("wait_group")) {
        m.done();
        need_operands(d, 1);
        const Src count = d.src(0, 32);
        if (count.kind != Src::Kind::imm) d.refuse("the number of groups must be an immediate");
        i.detail = count.imm;
        i.exec = wait_groups;
    } else if (m.take("mbarrier")) {
        m.need("arrive");
        i.detail = m.take("noinc");
        m.take_any({"shared", "shared::cta"});
        m.need("b64");
        m.done();
        need_operands(d, 1);
        i.addr = d.addr(0);
        i.exec = exec_cp_async_arrive;
    } else {
        return decode_copy(d, m);
    }
    return i;
}

}  // namespace

const Family cp_async_family{"cp.async", {"cp.async"}, decode_cp_async};

}  // namespace nvfp4r::sim
