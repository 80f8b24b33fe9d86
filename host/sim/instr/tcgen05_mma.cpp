// tcgen05.mma (PTX ISA 9.7.16.10.9): kind::f16, and mxf4 and mxf4nvf4 with block scales, A in shared memory or TMEM.
#include "sim/engine/tensor_mma.hpp"
#include "sim/instr/decode_help.hpp"
#include "sim/instr/families.hpp"
#include "sim/instr/modifiers.hpp"

namespace nvfp4r::sim {
namespace {

// Operands that do not fit an Instr. Instr itself: addr = D, src = A descriptor, B descriptor, idesc, enable_input_d.
struct Tcgen05MmaMultiplyForm {
    MmaInstruction instruction;
    Collector collector = Collector::discard;
    bool a_in_tmem = false;
    Addr a, sfa, sfb;
    std::vector<Src> disabled_lanes;
    uint32_t input_scale = 0;
};

TmemAddress tmem_operand(Warp& w, const Addr& addr, uint32_t lane) {
    Lanes values;
    w.addresses(addr, values, LaneMask{1} << lane);
    return TmemAddress::of(static_cast<uint32_t>(values[lane]));
}

uint64_t value_of(Warp& w, const Src& src, uint32_t lane) {
    Lanes scratch;
    return w.read(src, scratch, LaneMask{1} << lane)[lane];
}

TensorMultiply read_operands(Warp& w, const Instr& i, const Tcgen05MmaMultiplyForm& form, uint32_t lane) {
    TensorMultiply t;
    t.instruction = form.instruction;
    t.collector = form.collector;
    t.input_scale = form.input_scale;
    t.descriptor = decode_instruction_descriptor(static_cast<uint32_t>(value_of(w, i.src[2], lane)), form.instruction);
    t.d = tmem_operand(w, i.addr, lane);
    if (form.a_in_tmem)
        t.a_tmem = tmem_operand(w, form.a, lane);
    else
        t.a_shared = decode_tcgen05_descriptor(value_of(w, i.src[0], lane), "A");
    t.b = decode_tcgen05_descriptor(value_of(w, i.src[1], lane), "B");
    if (form.instruction.scales != ScaleVector::none) {
        t.sfa = tmem_operand(w, form.sfa, lane);
        t.sfb = tmem_operand(w, form.sfb, lane);
    }
    t.accumulate = w.read_pred(i.src[3], LaneMask{1} << lane) != 0;
    for (size_t r = 0; r < form.disabled_lanes.size(); ++r)
        t.disabled_lanes[r] = static_cast<uint32_t>(value_of(w, form.disabled_lanes[r], lane));
    check_multiply(t);
    return t;
}

Step exec_tcgen05_mma_mma(Warp& w, const Instr& i, LaneMask lanes) {
    const auto& form = i.extra_as<Tcgen05MmaMultiplyForm>();
    const uint32_t group = form.instruction.cta_group;
    require_cta_group(w, lanes, group, &i);
    each_lane(lanes, [&](uint32_t lane) {
        const Issuer issuer{&w, lane, &i};
        const TensorMultiply multiply = read_operands(w, i, form, lane);
        Cta* peer = group == 2 ? &pair_peer(*w.cta, "tcgen05.mma") : nullptr;
        issue_to_pipe(issuer, "tcgen05.mma", multiply_latency(multiply), 0, peer,
                      [multiply](AsyncOp& self, TensorPipe& pipe) { execute_multiply(self, pipe, multiply); });
        w.machine().count("tcgen05_mma", 1);
    });
    return Step::next;
}

ScaleVector decode_scale_vector(Decoder& d, Modifiers& m, MmaKind kind) {
    m.need("block_scale");
    const std::string_view given =
        m.take_any({"scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16", "block32"});
    const bool two = given == "scale_vec::2X" || given == "block32";
    const bool four = given == "scale_vec::4X" || given == "block16";
    if (kind == MmaKind::mxf4) {
        if (!given.empty() && !two) d.refuse(fmt::format("kind::mxf4 has no .{}: two scales a step", given));
        return ScaleVector::two;
    }
    if (given.empty()) d.refuse("kind::mxf4nvf4 needs .scale_vec::2X, .scale_vec::4X, .block16 or .block32");
    if (!two && !four) d.refuse(fmt::format("kind::mxf4nvf4 has no .{}", given));
    return four ? ScaleVector::four : ScaleVector::two;
}

MmaKind decode_kind(Decoder& d, Modifiers& m) {
    const std::string_view kind = m.take_any({"kind::f16", "kind::mxf4", "kind::mxf4nvf4"});
    if (kind.empty()) d.refuse(fmt::format("modifier .{} is not modelled (f16, mxf4 and mxf4nvf4 are)", m.peek()));
    return kind == "kind::f16" ? MmaKind::f16 : kind == "kind::mxf4" ? MmaKind::mxf4 : MmaKind::mxf4nvf4;
}

// Operands behind idesc of kind::f16: {lanes to leave out}, enable_input_d, scale_input_d.
void decode_dense_tail(Decoder& d, Instr& i, Tcgen05MmaMultiplyForm& form) {
    const auto& operands = d.statement().operands;
    size_t next = 4;
    if (next < operands.size() && operands[next].kind == OperandKind::vector) {
        const size_t count = form.instruction.cta_group == 2 ? 8 : 4;  // one bit for each TMEM lane
        form.disabled_lanes = source_list(d, operands[next++], count, 32);
    }
    if (next >= operands.size()) d.refuse("enable_input_d is missing");
    i.src[3] = d.src(next++, 1);
    if (next < operands.size()) {
        constexpr int64_t kMaxInputScale = 15;
        if (d.sm() == 110) d.refuse("scale_input_d does not exist on sm_110a");
        const Operand& scale = operands[next++];
        if (scale.kind != OperandKind::immediate || scale.imm < 0 || scale.imm > kMaxInputScale)
            d.refuse("scale_input_d must be an immediate from 0 to 15");
        form.input_scale = static_cast<uint32_t>(scale.imm);
    }
    need_operands(d, next);
}

Instr decode_tcgen05_mma(Decoder& d) {
    if (!is_blackwell(d)) d.refuse("tcgen05 needs sm_100a, sm_103a or sm_110a");
    Modifiers m(d);
    m.need("mma");
    if (m.peek() == "ws" || m.peek() == "sp") d.refuse(fmt::format("modifier .{} is not modelled", m.peek()));
    auto form = std::make_shared<Tcgen05MmaMultiplyForm>();
    form->instruction.cta_group = m.need_any({"cta_group::1", "cta_group::2"}) == "cta_group::2" ? 2 : 1;
    form->instruction.kind = decode_kind(d, m);
    const bool scaled = form->instruction.kind != MmaKind::f16;
    if (scaled) form->instruction.scales = decode_scale_vector(d, m, form->instruction.kind);
    form->collector = m.take_one<Collector>({{"collector::a::fill", Collector::fill},
                                             {"collector::a::use", Collector::use},
                                             {"collector::a::lastuse", Collector::last_use},
                                             {"collector::a::discard", Collector::discard}},
                                            Collector::discard);
    m.done();

    const auto& operands = d.statement().operands;
    if (operands.size() < 5) need_operands(d, 5);
    Instr i;
    i.exec = exec_tcgen05_mma_mma;
    i.addr = d.addr(0);
    form->a_in_tmem = operands[1].kind == OperandKind::address;
    if (form->a_in_tmem)
        form->a = d.addr(1);
    else
        i.src[0] = d.src(1, 64);
    i.src[1] = d.src(2, 64);
    i.src[2] = d.src(3, 32);
    if (scaled) {
        need_operands(d, 7);
        form->sfa = d.addr(4);
        form->sfb = d.addr(5);
        i.src[3] = d.src(6, 1);
    } else {
        decode_dense_tail(d, i, *form);
    }
    i.extra = form;
    return i;
}

}  // namespace

const Family tcgen05_mma_family{"tcgen05.mma", {"tcgen05.mma"}, decode_tcgen05_mma};

}  // namespace nvfp4r::sim
