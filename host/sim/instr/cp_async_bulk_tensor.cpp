// cp.async.bulk.tensor, cp.reduce.async.bulk.tensor, cp.async.bulk.prefetch.tensor (PTX ISA 9.7.9.27.1) and
// prefetch.tensormap: tile mode, 1 to 5 dimensions.
#include "sim/engine/tma.hpp"
#include "sim/engine/tmem.hpp"
#include "sim/instr/decode_help.hpp"
#include "sim/instr/families.hpp"
#include "sim/instr/modifiers.hpp"

namespace nvfp4r::sim {
namespace {

// addr = the shared address, src[0] = multicast mask. The L2 policy is a hint and is only parsed.
struct TensorForm {
    uint32_t rank = 0;
    Addr map;
    std::vector<Src> coords;
    Addr barrier;
    bool own_shared = false;  // .shared::cta destination
    bool multicast = false;
    uint32_t cta_group = 1;
    TensorReduce reduce;
};

TensorCoords coords_of(Warp& w, const TensorForm& form, uint32_t lane) {
    TensorCoords coords{};
    for (uint32_t i = 0; i < form.rank; ++i) {
        Lanes scratch;
        coords[i] = static_cast<int32_t>(w.read(form.coords[i], scratch, LaneMask{1} << lane)[lane]);
    }
    return coords;
}

uint64_t address_of(Warp& w, const Addr& addr, uint32_t lane) {
    Lanes values;
    w.addresses(addr, values, LaneMask{1} << lane);
    return values[lane];
}

TensorMap map_of(const Issuer& issuer, const TensorForm& form) {
    const TensorMap map = load_tensor_map(issuer, address_of(*issuer.warp, form.map, issuer.lane));
    if (map.rank != form.rank)
        issuer.report(FindingKind::illegal_instruction,
                      fmt::format("tensor copy of {} dimensions with a tensor map of {}", form.rank, map.rank));
    return map;
}

// The mbarrier that counts one destination. ::1: the destination's own. ::2: that of the destination's pair whose rank
// has the parity of the named barrier's CTA.
MbarrierRef barrier_for(Cta& target, const MbarrierRef& named, const TensorForm& form) {
    if (form.cta_group == 1) return {&target, named.offset};
    return {&pair_member(target, named.owner->rank & 1u), named.offset};
}

void check_barrier_cta(const Issuer& issuer, const Cta& target, const MbarrierRef& named, const TensorForm& form) {
    const uint32_t a = target.rank, b = named.owner->rank;
    if (a == b || (form.cta_group == 2 && (a ^ b) == 1)) return;
    issuer.report(FindingKind::mbarrier_misuse,
                  fmt::format("the mbarrier is in CTA rank {}, the destination in rank {}: .cta_group::{} needs {}", b,
                              a, form.cta_group, form.cta_group == 1 ? "the same CTA" : "the same CTA pair"));
}

std::vector<LoadTarget> cp_async_bulk_tensor_targets_of(const Issuer& issuer, const Instr& i, const TensorForm& form,
                                                        uint32_t mask) {
    Warp& w = *issuer.warp;
    LoadTarget named;
    named.cta = &issuer.machine().shared_owner(*w.cta, static_cast<uint32_t>(address_of(w, i.addr, issuer.lane)),
                                               !form.own_shared, named.offset, &i);
    const auto barrier_address = static_cast<uint32_t>(address_of(w, form.barrier, issuer.lane));
    const MbarrierRef barrier = barrier_at(issuer.machine(), w, issuer.lane, barrier_address, !form.own_shared, &i);
    if (form.cta_group == 2) pair_peer(*named.cta, "cp.async.bulk.tensor");
    if (!form.multicast) {
        check_barrier_cta(issuer, *named.cta, barrier, form);
        return {{named.cta, named.offset, barrier_for(*named.cta, barrier, form)}};
    }
    std::vector<LoadTarget> targets;
    const auto& ctas = w.cta->cluster->ctas;
    each_lane(mask, [&](uint32_t rank) {
        if (rank >= ctas.size())
            throw Fault(
                FindingKind::illegal_instruction,
                fmt::format("multicast mask {:#x} names CTA rank {} of a cluster of {}", mask, rank, ctas.size()));
        targets.push_back({ctas[rank].get(), named.offset, barrier_for(*ctas[rank], barrier, form)});
    });
    return targets;
}

Step exec_cp_async_bulk_tensor_load(Warp& w, const Instr& i, LaneMask lanes) {
    const auto& form = i.extra_as<TensorForm>();
    Lanes scratch;
    const uint64_t* masks = form.multicast ? w.read(i.src[0], scratch, lanes) : nullptr;
    each_lane(lanes, [&](uint32_t lane) {
        const Issuer issuer{&w, lane, &i};
        const TensorMap map = map_of(issuer, form);
        const TensorCoords coords = coords_of(w, form, lane);
        std::vector<LoadTarget> targets =
            cp_async_bulk_tensor_targets_of(issuer, i, form, masks ? static_cast<uint32_t>(masks[lane]) & 0xffffu : 0);
        if (targets.empty()) return;
        check_tensor_access(issuer, map, coords, targets.front().offset, false);
        issue_tensor_load(issuer, map, coords, std::move(targets));
    });
    return Step::next;
}

Step exec_cp_async_bulk_tensor_store(Warp& w, const Instr& i, LaneMask lanes) {
    const auto& form = i.extra_as<TensorForm>();
    each_lane(lanes, [&](uint32_t lane) {
        const Issuer issuer{&w, lane, &i};
        const TensorMap map = map_of(issuer, form);
        const TensorCoords coords = coords_of(w, form, lane);
        uint32_t offset = 0;
        w.machine().shared_owner(*w.cta, static_cast<uint32_t>(address_of(w, i.addr, lane)), false, offset, &i);
        check_tensor_access(issuer, map, coords, offset, true);
        issue_tensor_store(issuer, map, coords, offset, form.reduce);
    });
    return Step::next;
}

// A prefetch changes nothing that a program can see, but its operands must be right.
Step exec_cp_async_bulk_tensor_prefetch(Warp& w, const Instr& i, LaneMask lanes) {
    const auto& form = i.extra_as<TensorForm>();
    each_lane(lanes, [&](uint32_t lane) {
        const Issuer issuer{&w, lane, &i};
        check_tensor_access(issuer, map_of(issuer, form), coords_of(w, form, lane), 0, false);
    });
    return Step::next;
}

Step exec_prefetch_map(Warp& w, const Instr& i, LaneMask lanes) {
    each_lane(lanes, [&](uint32_t lane) { load_tensor_map({&w, lane, &i}, address_of(w, i.addr, lane)); });
    return Step::next;
}

// [tensor map, {coordinates}]
void decode_tensor(Decoder& d, size_t at, TensorForm& form) {
    const Operand& operand = d.statement().operands.at(at);
    if (operand.kind != OperandKind::address || operand.parts.size() != 2)
        d.refuse(fmt::format("operand {} must be [tensor map, {{coordinates}}]", at));
    form.map = d.addr(operand);
    form.coords = source_list(d, operand.parts[1], form.rank, 32);
}

void take_tile(Decoder& d, Modifiers& m) {
    m.take("tile");
    if (m.peek().starts_with("im2col") || m.peek().starts_with("tile::"))
        d.refuse(fmt::format("modifier .{} is not modelled (tile mode is)", m.peek()));
}

Instr decode_load(Decoder& d, Modifiers& m, std::shared_ptr<TensorForm> form) {
    // ptxas takes .cta_group in front as well, where CUTLASS writes it.
    std::string_view group = m.take_any({"cta_group::1", "cta_group::2"});
    form->own_shared = m.need_any({"shared::cluster", "shared::cta"}) == "shared::cta";
    m.need("global");
    take_tile(d, m);
    m.need("mbarrier::complete_tx::bytes");
    form->multicast = m.take("multicast::cluster");
    if (group.empty()) group = m.take_any({"cta_group::1", "cta_group::2"});
    if (!group.empty() && !is_blackwell(d)) d.refuse(".cta_group needs sm_100a, sm_103a or sm_110a");
    form->cta_group = group == "cta_group::2" ? 2 : 1;
    const bool hint = m.take("L2::cache_hint");
    m.done();
    need_operands(d, 3u + form->multicast + hint);
    Instr i;
    i.exec = exec_cp_async_bulk_tensor_load;
    i.addr = d.addr(0);
    decode_tensor(d, 1, *form);
    form->barrier = d.addr(2);
    if (form->multicast) i.src[0] = d.src(3, 16);
    i.extra = form;
    return i;
}

Instr decode_cp_async_bulk_tensor_store(Decoder& d, Modifiers& m, bool reduce, std::shared_ptr<TensorForm> form) {
    m.need("global");
    m.need_any({"shared::cta", "shared"});
    if (reduce) {
        const std::optional<ReduceOp> op = reduce_op(m.next("the reduction"));
        if (!op) d.refuse("the reduction is not one of .add, .min, .max, .inc, .dec, .and, .or, .xor");
        form->reduce = {true, *op};
    }
    take_tile(d, m);
    m.need("bulk_group");
    const bool hint = m.take("L2::cache_hint");
    m.done();
    need_operands(d, 2u + hint);
    Instr i;
    i.exec = exec_cp_async_bulk_tensor_store;
    decode_tensor(d, 0, *form);
    i.addr = d.addr(1);
    i.extra = form;
    return i;
}

uint32_t decode_rank(Modifiers& m) {
    const std::string_view rank = m.need_any({"1d", "2d", "3d", "4d", "5d"});
    return static_cast<uint32_t>(rank[0] - '0');
}

Instr decode_prefetch_map(Decoder& d, Modifiers& m) {
    m.need("tensormap");
    m.done();
    need_operands(d, 1);
    Instr i;
    i.exec = exec_prefetch_map;
    i.addr = d.addr(0);
    return i;
}

Instr decode_cp_async_bulk_tensor(Decoder& d) {
    if (d.sm() < 90) d.refuse("tensor copies need sm_90 or later");
    Modifiers m(d);
    if (d.statement().opcode == "prefetch") return decode_prefetch_map(d, m);
    auto form = std::make_shared<TensorForm>();
    const bool reduce = m.take("reduce");
    m.need("async");
    m.need("bulk");
    const bool prefetch = !reduce && m.take("prefetch");
    m.need("tensor");
    form->rank = decode_rank(m);
    if (!prefetch)
        return m.peek() == "global" ? decode_cp_async_bulk_tensor_store(d, m, reduce, form) : decode_load(d, m, form);
    m.need("L2");
    m.need("global");
    take_tile(d, m);
    const bool hint = m.take("L2::cache_hint");
    m.done();
    need_operands(d, 1u + hint);
    decode_tensor(d, 0, *form);
    Instr i;
    i.exec = exec_cp_async_bulk_tensor_prefetch;
    i.extra = form;
    return i;
}

}  // namespace

const Family cp_async_bulk_tensor_family{
    "cp.async.bulk.tensor",
    {"cp.async.bulk.tensor", "cp.async.bulk.prefetch.tensor", "cp.reduce.async.bulk.tensor", "prefetch.tensormap"},
    decode_cp_async_bulk_tensor};

}  // namespace nvfp4r::sim
