// wgmma (PTX ISA 9.7.15): each warp of the warpgroup multiplies its 16 rows, late, by the async proxy.
//
// The accumulator belongs to the multiply until wait_group. A register of D, or of A from registers, that was written
// since the last wgmma.fence makes the multiply undefined; the snapshot taken at the fence finds it.
#include <array>
#include <deque>

#include "sim/engine/fragments.hpp"
#include "sim/engine/matrix_descriptor.hpp"
#include "sim/engine/tma.hpp"
#include "sim/instr/decode_help.hpp"
#include "sim/instr/families.hpp"
#include "sim/instr/modifiers.hpp"

namespace nvfp4r::sim {
namespace {

constexpr const char* kWgmma = "wgmma.mma_async";
constexpr uint32_t kGroupWarps = 4;
constexpr uint32_t kSlabBytes = 32;

struct WgmmaMultiplyForm {
    arith::FdaType a_type = arith::FdaType::kF16, b_type = arith::FdaType::kF16;
    uint32_t n = 8, k = 16;
    bool f32_result = true;
    std::vector<uint32_t> d;
    std::vector<Src> a;  // empty: from shared memory by src[0]
    bool negate_a = false, negate_b = false;
    bool transpose_a = false, transpose_b = false;
};

// One wgmma-group: there is one for the four warps (PTX ISA 9.7.15.7.2), so that whoever waits for it knows all four to
// have read their operands. Kernels release a stage of shared memory from a single thread of the warpgroup.
struct SharedGroup {
    uint32_t pending = 0;
    uint32_t commits = 0, waits = 0;  // warps that have committed it, and waited for it
    SyncClock done;
};
using SharedGroups = std::map<uint64_t, std::shared_ptr<SharedGroup>>;  // by number, until all four warps have waited

// A warp's part of a group.
struct MultiplyGroup {
    uint64_t number = 0;
    std::shared_ptr<SharedGroup> shared;
    std::vector<uint32_t> slots;  // registers that the group owns until its wait
};

struct WarpMultiplies {
    MultiplyGroup open;  // has no `shared` before its first use
    uint64_t opened = 0;
    std::deque<MultiplyGroup> committed;
    SharedGroups groups;                 // of the warpgroup, in its first warp
    std::map<uint32_t, uint32_t> owned;  // slot -> multiplies not waited for
    bool fenced = false;
    std::vector<uint64_t> expected;  // the register file as of the fence and of finished multiplies
    uint32_t fences = 0;             // executed by this warp
};

WarpMultiplies& state_of(Warp& w) {
    return w.state<WarpMultiplies>(kWgmmaState);
}

SharedGroups& groups_of(Warp& w) {
    return state_of(*w.cta->warps[w.index / kGroupWarps * kGroupWarps]).groups;
}

MultiplyGroup& open_group(Warp& w) {
    WarpMultiplies& state = state_of(w);
    if (!state.open.shared) {
        std::shared_ptr<SharedGroup>& shared = groups_of(w)[state.opened];
        if (!shared) shared = std::make_shared<SharedGroup>();
        state.open = {state.opened++, shared, {}};
    }
    return state.open;
}

void own(Warp& w, MultiplyGroup& group, uint32_t slot) {
    group.slots.push_back(slot);
    if (state_of(w).owned[slot]++ == 0) w.set_pending(slot, w.live, kWgmma);
}

// Ends the ownership of a waited-for group.
void disown(Warp& w, const MultiplyGroup& group) {
    WarpMultiplies& state = state_of(w);
    for (const uint32_t slot : group.slots)
        if (--state.owned[slot] == 0) state.owned.erase(slot);
    w.clear_pending(kWgmma);
    for (const auto& [slot, count] : state.owned) w.set_pending(slot, w.live, kWgmma);
}

void check_fence(Warp& w, const Instr& i, LaneMask lanes, uint32_t slot) {
    const WarpMultiplies& state = state_of(w);
    if (!w.machine().checker() || !state.fenced || state.owned.count(slot)) return;
    const size_t first = size_t{slot} * kLanes;
    if (std::equal(w.reg(slot), w.reg(slot) + kLanes, state.expected.begin() + static_cast<std::ptrdiff_t>(first)))
        return;
    const auto& names = w.cta->grid->launch->program->entry->register_names;
    w.machine().report(FindingKind::wgmma_fence,
                       fmt::format("register {} was written after the last wgmma.fence",
                                   slot < names.size() ? names[slot] : fmt::format("slot {}", slot)),
                       &w, lanes, &i);
}

// Row of the warp's tile and column of element e of register r of lane l.
struct WgmmaElement {
    uint32_t row, column;
};
WgmmaElement wgmma_element_of(const WgmmaMultiplyForm& form, uint32_t l, uint32_t r, uint32_t e) {
    const uint32_t index = form.f32_result ? r : 2 * r + e;  // of the thread's N / 2 elements
    return {l / 4 + 8 * (index / 2 % 2), 8 * (index / 4) + 2 * (l % 4) + index % 2};
}

// One issued multiply of one warp.
struct Multiply {
    Warp* warp = nullptr;
    const WgmmaMultiplyForm* form = nullptr;
    MatrixDescriptor a, b;
    std::array<FragmentRow, kFragmentRows> a_rows;  // from registers: read when issued
    bool accumulate = true;
    std::shared_ptr<SharedGroup> group;
};

std::vector<uint8_t> read_operand(const OperandReader& reader, const MatrixDescriptor& d, bool transposed,
                                  uint32_t rows, uint32_t first) {
    return transposed ? read_mn_major(reader, d, rows, first) : read_k_major(reader, d, rows, kSlabBytes, first);
}

void read_a(const OperandReader& reader, Multiply& x) {
    const WgmmaMultiplyForm& form = *x.form;
    const uint32_t first = x.warp->index % kGroupWarps * kFragmentRows;
    const std::vector<uint8_t> bytes = read_operand(reader, x.a, form.transpose_a, kFragmentRows, first);
    for (uint32_t r = 0; r < kFragmentRows; ++r) {
        x.a_rows[r] = decode_row(form.a_type, &bytes[r * kSlabBytes], form.k);
        if (form.negate_a) negate_row(x.a_rows[r], form.k);
    }
}

uint32_t step_wgmma(const WgmmaMultiplyForm& form, const FragmentRow& a, const FragmentRow& b, uint32_t c) {
    const std::span<const arith::FdaValue> x(a.data(), form.k), y(b.data(), form.k);
    const bool fp8 = element_bytes(form.a_type) == 1;
    if (form.f32_result) return arith::fda_step(x, y, c, fp8 ? arith::kFdaHopperFp8 : arith::kFda16Bit);
    return arith::fda_step_f16(x, y, static_cast<uint16_t>(c), arith::kFda16Bit);
}

void execute(AsyncOp& self, Multiply& x) {
    const WgmmaMultiplyForm& form = *x.form;
    Warp& w = *x.warp;
    const OperandReader reader{w.cta, self.actor, self.instr};
    if (form.a.empty()) read_a(reader, x);
    const std::vector<uint8_t> b = read_operand(reader, x.b, form.transpose_b, form.n, 0);
    std::vector<FragmentRow> columns(form.n);
    for (uint32_t n = 0; n < form.n; ++n) {
        columns[n] = decode_row(form.b_type, &b[n * kSlabBytes], form.k);
        if (form.negate_b) negate_row(columns[n], form.k);
    }
    WarpMultiplies& state = state_of(w);
    const uint32_t per = form.f32_result ? 1 : 2;
    for (uint32_t r = 0; r < form.d.size(); ++r) {
        uint64_t* d = w.reg(form.d[r]);
        for (uint32_t l = 0; l < kLanes; ++l) {
            uint64_t value = 0;
            for (uint32_t e = 0; e < per; ++e) {
                const WgmmaElement at = wgmma_element_of(form, l, r, e);
                const uint32_t c = x.accumulate ? static_cast<uint32_t>(d[l] >> (16 * e)) : 0;
                value |= uint64_t{step_wgmma(form, x.a_rows[at.row], columns[at.column], c)} << (16 * e);
            }
            d[l] = value;
        }
        if (!state.expected.empty())
            std::copy(d, d + kLanes, state.expected.begin() + static_cast<std::ptrdiff_t>(size_t{form.d[r]} * kLanes));
    }
}

Step exec_multiply(Warp& w, const Instr& i, LaneMask lanes) {
    const auto& form = i.extra_as<WgmmaMultiplyForm>();
    Machine& machine = w.machine();
    WarpMultiplies& state = state_of(w);
    if (!state.fenced)
        machine.report(FindingKind::wgmma_fence, "wgmma.mma_async before any wgmma.fence", &w, lanes, &i);
    const uint32_t lane = first_lane(lanes);
    auto x = std::make_shared<Multiply>();
    x->warp = &w;
    x->form = &form;
    MultiplyGroup& group = open_group(w);
    x->group = group.shared;
    x->accumulate = w.read_pred(i.src[2], LaneMask{1} << lane) != 0;
    Lanes scratch;
    if (form.a.empty()) x->a = decode_wgmma_descriptor(w.read(i.src[0], scratch, lanes)[lane], "A");
    x->b = decode_wgmma_descriptor(w.read(i.src[1], scratch, lanes)[lane], "B");
    for (uint32_t j = 0; j < form.a.size(); ++j) {
        if (form.a[j].kind == Src::Kind::reg) check_fence(w, i, lanes, form.a[j].slot);
        // Several multiplies may read the same fragment, so this is no use of a register that one of them owns.
        const uint64_t* values =
            form.a[j].kind == Src::Kind::reg ? w.reg(form.a[j].slot) : w.read(form.a[j], scratch, lanes);
        decode_a_register(form.a_type, j, values, x->a_rows);
    }
    if (!form.a.empty() && form.negate_a)
        for (FragmentRow& row : x->a_rows) negate_row(row, form.k);
    for (const uint32_t slot : form.d) {
        check_fence(w, i, lanes, slot);
        own(w, group, slot);
    }
    for (const Src& a : form.a)
        if (a.kind == Src::Kind::reg) own(w, group, a.slot);
    ++group.shared->pending;

    AsyncOp op = new_operation({&w, lane, &i}, kWgmma, 0);
    op.latency = std::max(16u, form.n / 2);  // cycles: about N / 2.08, with a floor (measured by others on an H100)
    op.run = [x](AsyncOp& self) {
        Machine& m = self.cta->machine();
        execute(self, *x);
        if (m.checker()) m.checker()->release(self.actor, x->group->done);
        end_async(m, self.actor);
        --x->group->pending;
        m.progress();
        return true;
    };
    machine.issue(machine.queue(*w.cta, queue_key(Engine::wgmma, w.index), kWgmma), std::move(op));
    machine.count("wgmma", 1);
    return Step::next;
}

std::string describe_fence(const Warp&) {
    return "wgmma.fence waits for the other warps of its warpgroup";
}

// The four warps of a warpgroup go on together. The first execution counts; later ones only look.
Step exec_wgmma_fence(Warp& w, const Instr&, LaneMask lanes) {
    const uint32_t first = w.index / kGroupWarps * kGroupWarps;
    if (first + kGroupWarps > w.cta->warps.size())
        throw Fault(FindingKind::divergence,
                    fmt::format("wgmma in warp {}: its warpgroup has fewer than four warps", w.index));
    WarpMultiplies& state = state_of(w);
    struct FenceStep {
        bool counted = false;
    };
    auto& counted = w.state<FenceStep>(kWgmmaFenceState).counted;
    if (!counted) ++state.fences;
    counted = true;
    const auto together = [&w, first, want = state.fences] {
        for (uint32_t i = 0; i < kGroupWarps; ++i)
            if (state_of(*w.cta->warps[first + i]).fences < want) return false;
        return true;
    };
    w.machine().progress();
    if (!together()) {
        w.block(lanes, together, describe_fence);
        return Step::blocked;
    }
    counted = false;
    state.fenced = true;
    if (w.machine().checker()) state.expected = w.registers;
    return Step::next;
}

Step exec_wgmma_commit(Warp& w, const Instr&, LaneMask) {
    ++open_group(w).shared->commits;
    WarpMultiplies& state = state_of(w);
    state.committed.push_back(std::exchange(state.open, {}));
    w.machine().progress();
    return Step::next;
}

std::string describe_wgmma_wait(const Warp&) {
    return "wgmma.wait_group waits for the multiplies of its warpgroup";
}

Step exec_wgmma_wait(Warp& w, const Instr& i, LaneMask lanes) {
    WarpMultiplies* state = &state_of(w);
    const auto keep = static_cast<size_t>(i.detail);
    const auto ready = [state, keep] {
        for (size_t g = 0; g + keep < state->committed.size(); ++g) {
            const SharedGroup& group = *state->committed[g].shared;
            if (group.commits < kGroupWarps || group.pending != 0) return false;
        }
        return true;
    };
    if (!ready()) {
        w.block(lanes, ready, describe_wgmma_wait);
        return Step::blocked;
    }
    Checker* checker = w.machine().checker();
    for (; state->committed.size() > keep; state->committed.pop_front()) {
        const MultiplyGroup& group = state->committed.front();
        if (checker)
            each_lane(lanes, [&](uint32_t lane) { checker->acquire(w.first_actor + lane, group.shared->done); });
        disown(w, group);
        if (++group.shared->waits == kGroupWarps) groups_of(w).erase(group.number);
    }
    return Step::next;
}

arith::FdaType decode_wgmma_type(Modifiers& m) {
    const std::string_view name = m.need_any({"f16", "bf16", "e4m3", "e5m2"});
    return name == "f16"    ? arith::FdaType::kF16
           : name == "bf16" ? arith::FdaType::kBf16
           : name == "e4m3" ? arith::FdaType::kE4m3
                            : arith::FdaType::kE5m2;
}

// "m64n128k16": N and K.
void decode_shape(Decoder& d, std::string_view shape, WgmmaMultiplyForm& form) {
    const size_t k_at = shape.find('k');
    if (!shape.starts_with("m64n") || k_at == std::string_view::npos)
        d.refuse(fmt::format("shape .{} is not m64nNkK", shape));
    form.n = static_cast<uint32_t>(std::strtoul(std::string(shape.substr(4, k_at - 4)).c_str(), nullptr, 10));
    form.k = static_cast<uint32_t>(std::strtoul(std::string(shape.substr(k_at + 1)).c_str(), nullptr, 10));
    if (form.n < 8 || form.n > 256 || form.n % 8 != 0)
        d.refuse(fmt::format("N is {}: 8 to 256 in steps of 8 are legal", form.n));
}

int64_t decode_immediate(Decoder& d, size_t at, std::initializer_list<int64_t> allowed, const char* what) {
    const Operand& operand = d.statement().operands[at];
    const bool known = operand.kind == OperandKind::immediate &&
                       std::find(allowed.begin(), allowed.end(), operand.imm) != allowed.end();
    if (!known) d.refuse(fmt::format("{} must be one of the immediates {}", what, fmt::join(allowed, ", ")));
    return operand.imm;
}

Instr decode_multiply(Decoder& d, Modifiers& m) {
    auto form = std::make_shared<WgmmaMultiplyForm>();
    decode_shape(d, m.next("the shape"), *form);
    form->f32_result = m.need_any({"f32", "f16"}) == "f32";
    form->a_type = decode_wgmma_type(m);
    form->b_type = decode_wgmma_type(m);
    m.done();
    const bool fp8 = element_bytes(form->a_type) == 1;
    if (fp8 != (element_bytes(form->b_type) == 1) || (!fp8 && form->a_type != form->b_type) ||
        form->k * element_bytes(form->a_type) != kSlabBytes)
        d.refuse("A and B types do not fit each other or the shape");
    if (!form->f32_result && form->a_type != arith::FdaType::kF16)
        d.refuse("an f16 result is modelled for f16 operands");

    const auto& operands = d.statement().operands;
    if (operands.size() < 6) need_operands(d, 6);
    Instr i;
    i.flags = kAligned;
    i.exec = exec_multiply;
    form->d = register_list(d, operands[0], form->f32_result ? form->n / 2 : form->n / 4);
    if (std::count(form->d.begin(), form->d.end(), kSinkSlot)) d.refuse("a register of D cannot be `_`");
    const bool from_registers = operands[1].kind == OperandKind::vector;
    if (from_registers)
        form->a = source_list(d, operands[1], 4, 32);
    else
        i.src[0] = d.src(1, 64);
    i.src[1] = d.src(2, 64);
    i.src[2] = d.src(3, 1);
    form->negate_a = decode_immediate(d, 4, {1, -1}, "imm-scale-a") < 0;
    form->negate_b = decode_immediate(d, 5, {1, -1}, "imm-scale-b") < 0;
    size_t next = 6;
    if (!fp8) {
        const size_t bits = from_registers ? 1 : 2;
        need_operands(d, next + bits);
        if (!from_registers) form->transpose_a = decode_immediate(d, next++, {0, 1}, "imm-trans-a") != 0;
        form->transpose_b = decode_immediate(d, next++, {0, 1}, "imm-trans-b") != 0;
    }
    need_operands(d, next);
    i.extra = form;
    return i;
}

Instr decode_wgmma(Decoder& d) {
    if (!is_hopper(d)) d.refuse("wgmma needs sm_90a");
    Modifiers m(d);
    const std::string_view what = m.need_any({"fence", "commit_group", "wait_group", "mma_async"});
    if (m.peek() == "sp") d.refuse("modifier .sp is not modelled");
    m.need("sync");
    m.need("aligned");
    if (what == "mma_async") return decode_multiply(d, m);
    m.done();
    need_operands(d, what == "wait_group" ? 1 : 0);
    Instr i;
    i.flags = kAligned;
    i.exec = what == "fence" ? exec_wgmma_fence : what == "commit_group" ? exec_wgmma_commit : exec_wgmma_wait;
    if (what == "wait_group") {
        const Src count = d.src(0, 32);
        if (count.kind != Src::Kind::imm) d.refuse("the number of groups must be an immediate");
        i.detail = count.imm;
    }
    return i;
}

}  // namespace

const Family wgmma_family{
    "wgmma", {"wgmma.fence", "wgmma.commit_group", "wgmma.wait_group", "wgmma.mma_async"}, decode_wgmma};

}  // namespace nvfp4r::sim
