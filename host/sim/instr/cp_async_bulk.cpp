// cp.async.bulk, cp.reduce.async.bulk, and the bulk groups (PTX ISA 9.7.9.25).
#include "sim/engine/bulk_copy.hpp"
#include "sim/instr/decode_help.hpp"
#include "sim/instr/families.hpp"
#include "sim/instr/modifiers.hpp"

namespace nvfp4r::sim {
namespace {

constexpr uint32_t kAllBytes = 0xffff;

// addr = destination, src[0] = size, src[1] = multicast or byte mask.
struct BulkForm {
    Addr source, barrier;
    bool own_shared = false;  // .shared::cta destination
    bool multicast = false;
    bool byte_mask = false;
    std::optional<BulkReduce> reduce;
};

// The operands of one lane.
struct BulkOperands {
    uint64_t destination = 0, source = 0, barrier = 0;
    uint32_t bytes = 0, mask = 0;
};

template <class Visit>
void each_bulk(Warp& w, const Instr& i, LaneMask lanes, const BulkForm& form, Visit visit) {
    Lanes destinations, sources, barriers, size_scratch, mask_scratch;
    w.addresses(i.addr, destinations, lanes);
    w.addresses(form.source, sources, lanes);
    w.addresses(form.barrier, barriers, lanes);
    const uint64_t* sizes = w.read(i.src[0], size_scratch, lanes);
    const uint64_t* masks = w.read(i.src[1], mask_scratch, lanes);
    each_lane(lanes, [&](uint32_t lane) {
        const Issuer issuer{&w, lane, &i};
        const BulkOperands operands{destinations[lane], sources[lane], barriers[lane],
                                    static_cast<uint32_t>(sizes[lane]), static_cast<uint32_t>(masks[lane]) & kAllBytes};
        check_bulk(issuer, "destination", operands.destination);
        check_bulk(issuer, "source", operands.source);
        check_bulk(issuer, "size", operands.bytes);
        visit(issuer, operands);
    });
}

// Destination and mbarrier must lie in one CTA (hardware signals the destination's, whatever the mbarrier's rank is).
LoadTarget cp_async_bulk_target_of(const Issuer& issuer, const BulkOperands& o, bool own_shared) {
    LoadTarget target;
    Machine& machine = issuer.machine();
    target.cta = &machine.shared_owner(issuer.cta(), static_cast<uint32_t>(o.destination), !own_shared, target.offset,
                                       issuer.instr);
    const MbarrierRef named =
        barrier_at(machine, *issuer.warp, issuer.lane, static_cast<uint32_t>(o.barrier), !own_shared, issuer.instr);
    if (named.owner != target.cta)
        issuer.report(FindingKind::mbarrier_misuse,
                      fmt::format("bulk copy into CTA rank {} with an mbarrier of rank {}: they must be in one CTA",
                                  target.cta->rank, named.owner->rank));
    target.barrier = {target.cta, named.offset};
    return target;
}

Step exec_cp_async_bulk_load(Warp& w, const Instr& i, LaneMask lanes) {
    const auto& form = i.extra_as<BulkForm>();
    each_bulk(w, i, lanes, form, [&](const Issuer& issuer, const BulkOperands& o) {
        if (!form.multicast) {
            issue_bulk_load(issuer, o.source, o.bytes, {cp_async_bulk_target_of(issuer, o, form.own_shared)});
            return;
        }
        const LoadTarget named = cp_async_bulk_target_of(issuer, o, false);
        std::vector<LoadTarget> targets;
        const auto& ctas = w.cta->cluster->ctas;
        each_lane(o.mask, [&](uint32_t rank) {
            if (rank >= ctas.size())
                throw Fault(FindingKind::illegal_instruction,
                            fmt::format("multicast mask {:#x} names CTA rank {} of a cluster of {}", o.mask, rank,
                                        ctas.size()));
            targets.push_back({ctas[rank].get(), named.offset, {ctas[rank].get(), named.barrier.offset}});
        });
        issue_bulk_load(issuer, o.source, o.bytes, std::move(targets));
    });
    return Step::next;
}

uint32_t own_offset(const Issuer& issuer, uint64_t address) {
    uint32_t offset = 0;
    issuer.machine().shared_owner(issuer.cta(), static_cast<uint32_t>(address), false, offset, issuer.instr);
    return offset;
}

Step exec_shared(Warp& w, const Instr& i, LaneMask lanes) {
    const auto& form = i.extra_as<BulkForm>();
    if (!in_cluster_launch(*w.cta))  // measured: works to the own CTA of a cluster launch, faults without one
        throw Fault(FindingKind::illegal_instruction,
                    "bulk copy from shared::cta to shared::cluster in a kernel launched without a cluster");
    each_bulk(w, i, lanes, form, [&](const Issuer& issuer, const BulkOperands& o) {
        issue_bulk_shared(issuer, own_offset(issuer, o.source), o.bytes, cp_async_bulk_target_of(issuer, o, false),
                          form.reduce);
    });
    return Step::next;
}

Step exec_cp_async_bulk_store(Warp& w, const Instr& i, LaneMask lanes) {
    const auto& form = i.extra_as<BulkForm>();
    each_bulk(w, i, lanes, form, [&](const Issuer& issuer, const BulkOperands& o) {
        issue_bulk_store(issuer, own_offset(issuer, o.source), o.destination, o.bytes,
                         form.byte_mask ? o.mask : kAllBytes, form.reduce);
    });
    return Step::next;
}

// A prefetch changes nothing that a program can see; the range must be there.
Step exec_cp_async_bulk_prefetch(Warp& w, const Instr& i, LaneMask lanes) {
    const auto& form = i.extra_as<BulkForm>();
    each_bulk(w, i, lanes, form, [&](const Issuer& issuer, const BulkOperands& o) {
        w.machine().place(issuer.cta(), StateSpace::global, o.source, o.bytes, kBulkAlign, &i);
    });
    return Step::next;
}

Step exec_cp_async_bulk_commit(Warp& w, const Instr&, LaneMask lanes) {
    each_lane(lanes, [&](uint32_t lane) { bulk_groups(w, lane).commit(); });
    return Step::next;
}

std::string describe_cp_async_bulk_wait(const Warp&) {
    return "cp.async.bulk.wait_group waits for the thread's bulk groups";
}

// All but the newest `keep` groups: read (then they stay, for a later full wait) or complete.
bool groups_ready(const BulkGroups& groups, size_t keep, bool read) {
    for (size_t g = 0; g + keep < groups.committed.size(); ++g)
        if (read ? groups.committed[g]->reading != 0 : groups.committed[g]->writing != 0) return false;
    return true;
}

Step exec_cp_async_bulk_wait(Warp& w, const Instr& i, LaneMask lanes) {
    const bool read = i.detail != 0;
    const auto keep = static_cast<size_t>(i.src[0].imm);
    const auto ready = [&w, lanes, keep, read] {
        bool all = true;
        each_lane(lanes, [&](uint32_t lane) { all = all && groups_ready(bulk_groups(w, lane), keep, read); });
        return all;
    };
    if (!ready()) {
        w.block(lanes, ready, describe_cp_async_bulk_wait);
        return Step::blocked;
    }
    Checker* checker = w.machine().checker();
    each_lane(lanes, [&](uint32_t lane) {
        auto& committed = bulk_groups(w, lane).committed;
        for (size_t g = 0; checker && g + keep < committed.size(); ++g)
            checker->acquire(w.first_actor + lane, read ? committed[g]->read_done : committed[g]->write_done);
        while (!read && committed.size() > keep) committed.pop_front();
    });
    return Step::next;
}

Instr decode_group(Decoder& d, Modifiers& m) {
    Instr i;
    if (m.take("commit_group")) {
        need_operands(d, 0);
        i.exec = exec_cp_async_bulk_commit;
    } else {
        m.need("wait_group");
        i.detail = m.take("read");
        need_operands(d, 1);
        i.src[0] = d.src(0, 32);
        if (i.src[0].kind != Src::Kind::imm) d.refuse("the number of groups must be an immediate");
        i.exec = exec_cp_async_bulk_wait;
    }
    m.done();
    return i;
}

BulkReduce decode_cp_async_bulk_reduce(Decoder& d, Modifiers& m, bool shared) {
    const std::optional<ReduceOp> op = reduce_op(m.next("the reduction"));
    if (!op) d.refuse("the reduction is not one of .add, .min, .max, .inc, .dec, .and, .or, .xor");
    const bool noftz = m.take("noftz");
    const std::optional<ReduceType> type = reduce_type(m.next("the type"));
    if (!type || !(shared ? reduces_shared(*op, *type) : reduces_global(*op, *type)))
        d.refuse(fmt::format("this reduction does not exist in {} memory", shared ? "shared" : "global"));
    const bool half = *type == ReduceType::f16 || *type == ReduceType::bf16;
    if (noftz != (half && *op == ReduceOp::add)) d.refuse(".noftz belongs to .add of f16 and bf16, and only there");
    return {*op, *type};
}

Instr decode_cp_async_bulk(Decoder& d) {
    if (d.sm() < 90) d.refuse("bulk copies need sm_90 or later");
    Modifiers m(d);
    const bool reduce = m.take("reduce");
    m.need("async");
    m.need("bulk");
    if (!reduce && (m.peek() == "commit_group" || m.peek() == "wait_group")) return decode_group(d, m);

    auto form = std::make_shared<BulkForm>();
    Instr i;
    if (!reduce && m.take("prefetch")) {
        m.need("L2");
        m.need("global");
        const bool hint = m.take("L2::cache_hint");
        m.done();
        need_operands(d, 2u + hint);
        form->source = d.addr(0);
        i.src[0] = d.src(1, 32);
        i.exec = exec_cp_async_bulk_prefetch;
        i.extra = form;
        return i;
    }
    const std::string_view to = m.need_any({"shared::cluster", "shared::cta", "global"});
    const std::string_view from = m.need_any({"global", "shared::cta"});
    form->own_shared = to == "shared::cta";
    i.addr = d.addr(0);
    form->source = d.addr(1);
    i.src[0] = d.src(2, 32);
    size_t next = 3;
    if (to == "global") {
        if (from != "shared::cta") d.refuse("a bulk copy to global memory comes from .shared::cta");
        m.need("bulk_group");
        next += m.take("L2::cache_hint");
        form->byte_mask = !reduce && m.take("cp_mask");
        if (form->byte_mask && d.sm() < 100) d.refuse(".cp_mask needs sm_100 or later");
        if (form->byte_mask) i.src[1] = d.src(next++, 16);
        i.exec = exec_cp_async_bulk_store;
    } else {
        m.need("mbarrier::complete_tx::bytes");
        form->barrier = d.addr(next++);
        const bool from_global = from == "global";
        if (reduce && from_global) d.refuse("a bulk reduction to shared memory comes from .shared::cta");
        if (!from_global && form->own_shared) d.refuse("a copy between shared memories goes to .shared::cluster");
        form->multicast = from_global && m.take("multicast::cluster");
        if (form->multicast) i.src[1] = d.src(next++, 16);
        next += m.take("L2::cache_hint");
        i.exec = from_global ? exec_cp_async_bulk_load : exec_shared;
    }
    if (reduce) form->reduce = decode_cp_async_bulk_reduce(d, m, to != "global");
    m.done();
    need_operands(d, next);
    i.extra = form;
    return i;
}

}  // namespace

const Family cp_async_bulk_family{"cp.async.bulk", {"cp.async.bulk", "cp.reduce.async.bulk"}, decode_cp_async_bulk};

}  // namespace nvfp4r::sim
