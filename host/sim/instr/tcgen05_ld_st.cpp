// tcgen05.ld, .st and .wait (PTX ISA 9.7.16.8): a warp's asynchronous transfers between registers and TMEM.
#include "sim/engine/tensor_pipe.hpp"
#include "sim/engine/tmem.hpp"
#include "sim/instr/decode_help.hpp"
#include "sim/instr/families.hpp"
#include "sim/instr/modifiers.hpp"

namespace nvfp4r::sim {
namespace {

constexpr const char* kLoad = "tcgen05.ld";
constexpr const char* kStore = "tcgen05.st";
constexpr uint32_t kTransferLatency = 40;  // cycles; not established, an estimate for the clock
constexpr uint32_t kHalfQuarter = 16;      // lanes of the 16-lane shapes

enum class TmemShape : uint8_t { l32x32b, l16x64b, l16x128b, l16x256b, l16x32bx2 };

struct Transfer {
    TmemShape shape = TmemShape::l32x32b;
    uint32_t count = 1;           // .xN
    bool packed = false;          // .pack::16b / .unpack::16b: two columns in one register
    uint32_t half_split = 0;      // columns, 16x32bx2
    std::vector<uint32_t> slots;  // ld
    std::vector<Src> sources;     // st

    uint32_t registers() const {
        return shape == TmemShape::l16x128b ? 2 * count : shape == TmemShape::l16x256b ? 4 * count : count;
    }
    uint32_t lanes() const { return shape == TmemShape::l32x32b ? 2 * kHalfQuarter : kHalfQuarter; }
    /// Columns of one contiguous run of a lane.
    uint32_t columns() const {
        const uint32_t words = shape == TmemShape::l16x64b    ? 2 * count
                               : shape == TmemShape::l16x128b ? 4 * count
                               : shape == TmemShape::l16x256b ? 8 * count
                                                              : count;
        return packed ? 2 * words : words;
    }
};

// Lane (from the base lane) and column of thread t's register i (PTX ISA 9.7.16.8, matrix fragments).
TmemAddress tcgen05_ld_st_cell_of(const Transfer& x, uint32_t t, uint32_t i) {
    const uint32_t scale = x.packed ? 2 : 1;
    switch (x.shape) {
        case TmemShape::l32x32b: return {t, scale * i};
        case TmemShape::l16x64b: return {t / 4 + 8 * (t % 2), scale * (t / 2 % 2 + 2 * i)};
        case TmemShape::l16x128b: return {t / 4 + 8 * (i % 2), scale * (t % 4 + 4 * (i / 2))};
        case TmemShape::l16x256b: return {t / 4 + 8 * (i / 2 % 2), scale * (2 * (t % 4) + i % 2 + 8 * (i / 4))};
        case TmemShape::l16x32bx2: break;
    }
    return {t % 16, scale * i + t / 16 * x.half_split};
}

// What a warp has under way, for its waits.
struct WarpTransfers {
    PipeOrder loads, stores;
};

// The lane field must name the warp's quarter of TMEM, and within it a lane the shape allows.
TmemAddress checked_address(Warp& w, const Instr& i, LaneMask lanes, const Transfer& x) {
    Lanes addresses;
    w.addresses(i.addr, addresses, lanes);
    const auto bits = static_cast<uint32_t>(addresses[first_lane(lanes)]);
    each_lane(lanes, [&](uint32_t lane) {
        if (static_cast<uint32_t>(addresses[lane]) != bits)
            report_lane(w, lane, FindingKind::illegal_instruction,
                        fmt::format("TMEM address {:#x} here and {:#x} in another lane: the warp must agree",
                                    static_cast<uint32_t>(addresses[lane]), bits),
                        &i);
    });
    TmemAddress at = TmemAddress::of(bits);
    constexpr uint32_t kQuarters = kTmemLanes / kTmemQuarter;
    const uint32_t quarter = w.index % kQuarters * kTmemQuarter;
    if (at.lane / kTmemQuarter * kTmemQuarter != quarter) {
        w.machine().report(FindingKind::tmem_owner,
                           fmt::format("warp {} accesses TMEM lane {}: it owns lanes {} to {}", w.index, at.lane,
                                       quarter, quarter + kTmemQuarter - 1),
                           &w, lanes, &i);
        // A warp reaches no other lanes: kernels with a wrong upper lane field ran right on a B200 (cases C11).
        at.lane = quarter + at.lane % kTmemQuarter;
    }
    if (at.lane % x.lanes() != 0)
        throw Fault(FindingKind::tmem_alignment, fmt::format("TMEM lane {} of a {}-lane access is not a multiple of {}",
                                                             at.lane, x.lanes(), x.lanes()));
    return at;
}

// The cells of the transfer, row by row: two runs for 16x32bx2, otherwise one.
void touch_transfer(const TmemAccess& access, const Transfer& x, TmemAddress at, Access kind) {
    const bool split = x.shape == TmemShape::l16x32bx2;
    for (uint32_t half = 0; half < (split ? 2u : 1u); ++half) {
        const uint32_t column = at.column + half * x.half_split;
        check_cells(access, {at.lane, column}, x.lanes(), x.columns());
        for (uint32_t lane = 0; lane < x.lanes(); ++lane)
            touch_cells(access, at.lane + lane, column, x.columns(), kind);
    }
}

// The warp's registers belong to one operation; its knowledge is that of the warp's first lane.
AsyncOp new_transfer(Warp& w, const Instr& i, LaneMask lanes, const Transfer& x, const char* what) {
    const uint64_t bytes = uint64_t{x.registers()} * kLanes * sizeof(uint32_t);
    AsyncOp op = new_operation({&w, first_lane(lanes), &i}, what, bytes, true);
    op.latency = kTransferLatency;
    return op;
}

Step exec_ld(Warp& w, const Instr& i, LaneMask lanes) {
    const auto& x = i.extra_as<Transfer>();
    const TmemAddress at = checked_address(w, i, lanes, x);
    for (const uint32_t slot : x.slots)
        if (slot != kSinkSlot) {
            Lanes unused;
            w.write(slot, unused, lanes);  // reports a register that another load still owns
            w.set_pending(slot, lanes, kLoad);
        }
    AsyncOp op = new_transfer(w, i, lanes, x, kLoad);
    op.run = [&w, at, &x](AsyncOp& self) {
        Machine& machine = w.machine();
        touch_transfer({w.cta, self.instr, self.actor}, x, at, Access::read);
        Tmem& tmem = tmem_of(*w.cta);
        for (uint32_t r = 0; r < x.slots.size(); ++r) {
            if (x.slots[r] == kSinkSlot) continue;
            uint64_t* values = w.reg(x.slots[r]);
            for (uint32_t t = 0; t < kLanes; ++t) {
                const TmemAddress cell = tcgen05_ld_st_cell_of(x, t, r);
                const uint32_t* from = &tmem.cell(at.lane + cell.lane, at.column + cell.column);
                values[t] = x.packed ? (from[0] & 0xffffu) | from[1] << 16 : from[0];
            }
        }
        collect(machine, self.actor, w.state<WarpTransfers>(kTmemTransferState).loads);
        end_async(machine, self.actor);
        machine.progress();
        return true;
    };
    // Hardware holds back a reader of the registers even without the wait that PTX asks for: so does permissive mode.
    if (!w.machine().config().strict) {
        op.run(op);
        return Step::next;
    }
    w.machine().issue(w.machine().queue(*w.cta, queue_key(Engine::tmem_load, w.index), kLoad), std::move(op));
    return Step::next;
}

Step exec_st(Warp& w, const Instr& i, LaneMask lanes) {
    const auto& x = i.extra_as<Transfer>();
    const TmemAddress at = checked_address(w, i, lanes, x);
    std::vector<Lanes> values(x.sources.size());
    for (size_t r = 0; r < values.size(); ++r) {
        Lanes scratch;
        const uint64_t* from = w.read(x.sources[r], scratch, lanes);
        std::copy(from, from + kLanes, values[r].begin());
    }
    AsyncOp op = new_transfer(w, i, lanes, x, kStore);
    op.run = [&w, at, &x, values = std::move(values)](AsyncOp& self) {
        Machine& machine = w.machine();
        touch_transfer({w.cta, self.instr, self.actor}, x, at, Access::write);
        Tmem& tmem = tmem_of(*w.cta);
        for (uint32_t r = 0; r < values.size(); ++r)
            for (uint32_t t = 0; t < kLanes; ++t) {
                const TmemAddress cell = tcgen05_ld_st_cell_of(x, t, r);
                uint32_t* to = &tmem.cell(at.lane + cell.lane, at.column + cell.column);
                const auto value = static_cast<uint32_t>(values[r][t]);
                to[0] = x.packed ? value & 0xffffu : value;
                if (x.packed) to[1] = value >> 16;
            }
        collect(machine, self.actor, w.state<WarpTransfers>(kTmemTransferState).stores);
        end_async(machine, self.actor);
        machine.progress();
        return true;
    };
    w.machine().issue(w.machine().queue(*w.cta, queue_key(Engine::tmem_store, w.index), kStore), std::move(op));
    return Step::next;
}

std::string describe_tcgen05_ld_st_wait(const Warp&) {
    return "tcgen05.wait waits for the warp's tcgen05.ld or .st";
}

Step exec_tcgen05_ld_st_wait(Warp& w, const Instr& i, LaneMask lanes) {
    const bool loads = i.detail == 0;
    AsyncQueue* queue = &w.machine().queue(*w.cta, queue_key(loads ? Engine::tmem_load : Engine::tmem_store, w.index),
                                           loads ? kLoad : kStore);
    if (!queue->idle()) {
        w.block(
            lanes, [queue] { return queue->idle(); }, describe_tcgen05_ld_st_wait);
        return Step::blocked;
    }
    if (loads) w.clear_pending(kLoad);
    WarpTransfers& transfers = w.state<WarpTransfers>(kTmemTransferState);
    const PipeOrder& order = loads ? transfers.loads : transfers.stores;
    Checker* checker = w.machine().checker();
    if (checker && order.actor != kNoActor)
        each_lane(lanes, [&](uint32_t lane) { checker->tcgen05_wait(w.first_actor + lane, order.actor); });
    return Step::next;
}

uint32_t decode_count(Decoder& d, Modifiers& m, TmemShape shape) {
    const std::string_view text = m.need_any({"x1", "x2", "x4", "x8", "x16", "x32", "x64", "x128"});
    const auto count = static_cast<uint32_t>(std::stoul(std::string(text.substr(1))));
    const uint32_t most = shape == TmemShape::l16x128b ? 64 : shape == TmemShape::l16x256b ? 32 : 128;
    if (count > most) d.refuse(fmt::format("this shape goes up to .x{}", most));
    return count;
}

Instr decode_transfer(Decoder& d, Modifiers& m, bool load) {
    if (load && m.peek() == "red") d.refuse("modifier .red is not modelled");
    m.need("sync");
    m.need("aligned");
    auto x = std::make_shared<Transfer>();
    const std::string_view shape = m.need_any({"32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"});
    x->shape = shape == "32x32b"    ? TmemShape::l32x32b
               : shape == "16x64b"  ? TmemShape::l16x64b
               : shape == "16x128b" ? TmemShape::l16x128b
               : shape == "16x256b" ? TmemShape::l16x256b
                                    : TmemShape::l16x32bx2;
    x->count = decode_count(d, m, x->shape);
    x->packed = m.take(load ? "pack::16b" : "unpack::16b");
    m.need("b32");
    m.done();
    const auto& operands = d.statement().operands;
    const bool split = x->shape == TmemShape::l16x32bx2;
    need_operands(d, split ? 3 : 2);
    Instr i;
    i.flags = kAligned;
    size_t next = 0;
    if (load) x->slots = register_list(d, operands[next++], x->registers());
    i.addr = d.addr(next++);
    if (split) {
        const Operand& columns = operands[next++];
        if (columns.kind != OperandKind::immediate || columns.imm < 0 || columns.imm >= kTmemColumns)
            d.refuse("the half-split offset must be an immediate number of columns");
        x->half_split = static_cast<uint32_t>(columns.imm);
    }
    if (!load) x->sources = source_list(d, operands[next], x->registers(), 32);
    i.exec = load ? exec_ld : exec_st;
    i.extra = x;
    return i;
}

Instr decode_tcgen05_ld_st(Decoder& d) {
    if (!is_blackwell(d)) d.refuse("tcgen05 needs sm_100a, sm_103a or sm_110a");
    Modifiers m(d);
    const std::string_view what = m.need_any({"ld", "st", "wait::ld", "wait::st"});
    if (what == "ld" || what == "st") return decode_transfer(d, m, what == "ld");
    m.need("sync");
    m.need("aligned");
    m.done();
    need_operands(d, 0);
    Instr i;
    i.flags = kAligned;
    i.exec = exec_tcgen05_ld_st_wait;
    i.detail = what == "wait::ld" ? 0 : 1;
    return i;
}

}  // namespace

const Family tcgen05_ld_st_family{
    "tcgen05.ld", {"tcgen05.ld", "tcgen05.st", "tcgen05.wait::ld", "tcgen05.wait::st"}, decode_tcgen05_ld_st};

}  // namespace nvfp4r::sim
