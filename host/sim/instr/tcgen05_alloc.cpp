// tcgen05.alloc, .dealloc and .relinquish_alloc_permit (PTX ISA 9.7.16.7.1).
#include <algorithm>
#include <bit>
#include <cstring>

#include "sim/engine/tmem.hpp"
#include "sim/instr/decode_help.hpp"
#include "sim/instr/families.hpp"
#include "sim/instr/modifiers.hpp"

namespace nvfp4r::sim {
namespace {

constexpr uint32_t kPairPeriod = 2;  // CTAs of a pair

// What a CTA has done so far with its right to allocate.
struct AllocState {
    uint32_t last_columns = kTmemColumns;  // requests must not grow
    bool relinquished = false;
    bool watched = false;  // the exit check is in place
};

// A CTA's part of a collective alloc or dealloc of its pair.
struct PairRequest {
    bool waiting = false, granted = false;
    uint32_t base = 0, columns = 0;
};
struct PairState {
    PairRequest alloc[kPairPeriod], dealloc[kPairPeriod];
};
using PairStates = std::map<uint32_t, PairState>;  // by rank / 2

AllocState& alloc_state(Cta& cta) {
    std::shared_ptr<void>& slot = cta.family_state[kTmemAccessState];
    if (!slot) slot = std::make_shared<AllocState>();
    return *static_cast<AllocState*>(slot.get());
}

PairState& pair_state(Cta& cta) {
    std::shared_ptr<void>& slot = cta.cluster->family_state[kTmemPairState];
    if (!slot) slot = std::make_shared<PairStates>();
    return (*static_cast<PairStates*>(slot.get()))[cta.rank / kPairPeriod];
}

void free_columns(Tmem& tmem, const Cta& cta, uint32_t base, Checker* checker) {
    const auto at = std::find_if(tmem.allocations.begin(), tmem.allocations.end(),
                                 [&](const TmemAllocation& a) { return a.owner == &cta && a.base == base; });
    for (uint32_t lane = 0; checker && lane < kTmemLanes; ++lane)
        checker->forget(*tmem.shadow, uint64_t{lane * kTmemColumns + at->base} * sizeof(uint32_t),
                        uint64_t{at->columns} * sizeof(uint32_t));
    tmem.allocations.erase(at);
    const bool last = std::none_of(tmem.allocations.begin(), tmem.allocations.end(),
                                   [&](const TmemAllocation& a) { return a.owner == &cta; });
    if (last && tmem.permit == &cta) tmem.permit = nullptr;
}

// At CTA exit: every allocation must have been freed. The columns go back either way, so that others can run.
void check_leak(Cta& cta) {
    Tmem& tmem = tmem_of(cta);
    if (tmem.permit == &cta) tmem.permit = nullptr;
    std::string leaked;
    for (size_t i = tmem.allocations.size(); i-- > 0;) {
        const TmemAllocation a = tmem.allocations[i];
        if (a.owner != &cta) continue;
        leaked += fmt::format("{}columns {} to {}", leaked.empty() ? "" : ", ", a.base, a.base + a.columns - 1);
        free_columns(tmem, cta, a.base, cta.machine().checker());
    }
    if (!leaked.empty())
        cta.machine().report(
            FindingKind::tmem_leak,
            fmt::format("CTA ({},{},{}) exits without tcgen05.dealloc of {}", cta.id.x, cta.id.y, cta.id.z, leaked),
            nullptr, 0, nullptr);
}

// First free range that suits every CTA of `ctas`, lowest first: a pair's address is the same in both.
std::optional<uint32_t> find_columns(std::initializer_list<Cta*> ctas, uint32_t columns) {
    for (uint32_t base = 0; base + columns <= kTmemColumns; base += kTmemUnit)
        if (std::all_of(ctas.begin(), ctas.end(), [&](Cta* cta) { return tmem_of(*cta).free(base, columns); }))
            return base;
    return std::nullopt;
}

// Another CTA of the SM that has allocated and not relinquished holds the right to allocate.
bool has_permit(Cta& cta) {
    const Tmem& tmem = tmem_of(cta);
    return tmem.permit == nullptr || tmem.permit == &cta;
}

// `by`: a thread of the warp, after which everybody must be ordered who uses the columns (PTX ISA 9.7.16.7.1). A pair
// allocates together; whose part of it a thread must know of is not checked.
void allocate(Cta& cta, uint32_t base, uint32_t columns, ActorId by) {
    Tmem& tmem = tmem_of(cta);
    Checker* checker = cta.machine().checker();
    tmem.allocations.push_back({&cta, base, columns, by, checker && by != kNoActor ? checker->epoch_of(by) : 0});
    tmem.permit = &cta;
    AllocState& state = alloc_state(cta);
    state.last_columns = columns;
    if (!state.watched) cta.at_exit.push_back(check_leak);
    state.watched = true;
}

std::string describe_alloc(const Warp&) {
    return "tcgen05.alloc waits for free columns, for the right to allocate, or for the other CTA of its pair";
}
std::string describe_dealloc(const Warp&) {
    return "tcgen05.dealloc waits for the other CTA of its pair";
}

// nCols as hardware would take it; a wrong one is reported and rounded up so that a permissive run goes on.
uint32_t checked_columns(Warp& w, const Instr& i, LaneMask lanes) {
    uint32_t columns = uniform_value(w, i, i.src[0], lanes, "nCols");
    if (columns >= kTmemUnit && columns <= kTmemColumns && std::has_single_bit(columns)) return columns;
    w.cta->machine().report(FindingKind::tmem_alloc,
                            fmt::format("nCols is {}: a power of two from 32 to 512 is needed", columns), &w, lanes,
                            &i);
    return std::bit_ceil(std::clamp(columns, kTmemUnit, kTmemColumns));
}

void check_alloc_order(Warp& w, const Instr& i, LaneMask lanes, uint32_t columns) {
    const AllocState& state = alloc_state(*w.cta);
    Machine& machine = w.cta->machine();
    if (state.relinquished)
        machine.report(FindingKind::tmem_alloc_phase, "tcgen05.alloc after relinquish_alloc_permit of the CTA", &w,
                       lanes, &i);
    if (columns > state.last_columns)
        machine.report(FindingKind::tmem_alloc,
                       fmt::format("nCols {} after an allocation of {}: requests of a CTA must not grow", columns,
                                   state.last_columns),
                       &w, lanes, &i);
}

// The base address as a weak store to shared memory by the first lane.
void write_result_tcgen05_alloc(Warp& w, const Instr& i, LaneMask lanes, uint32_t base) {
    const uint32_t lane = first_lane(lanes);
    Lanes addresses;
    w.addresses(i.addr, addresses, lanes);
    const auto space = i.extra_as<StateSpace>();
    Machine& machine = w.cta->machine();
    const Machine::Place place = machine.place(w, lane, space, addresses[lane], sizeof(base), sizeof(base), &i);
    touch(machine, w.first_actor + lane, place, sizeof(base), writes(Proxy::generic, &i));
    std::memcpy(place.bytes, &base, sizeof(base));
    machine.progress();
}

Step exec_alloc_single(Warp& w, const Instr& i, LaneMask lanes) {
    const uint32_t columns = checked_columns(w, i, lanes);
    check_alloc_order(w, i, lanes, columns);
    Cta* cta = w.cta;
    const std::optional<uint32_t> base = has_permit(*cta) ? find_columns({cta}, columns) : std::nullopt;
    if (!base) {
        w.block(
            lanes, [cta, columns] { return has_permit(*cta) && find_columns({cta}, columns).has_value(); },
            describe_alloc);
        return Step::blocked;
    }
    require_cta_group(w, lanes, 1, &i);
    allocate(*cta, *base, columns, w.first_actor + first_lane(lanes));
    write_result_tcgen05_alloc(w, i, lanes, *base);
    return Step::next;
}

Step exec_alloc_pair(Warp& w, const Instr& i, LaneMask lanes) {
    Cta* cta = w.cta;
    Cta* peer = &pair_peer(*cta, "tcgen05.alloc");
    PairState& pair = pair_state(*cta);
    PairRequest* mine = &pair.alloc[cta->rank & 1u];
    PairRequest* other = &pair.alloc[peer->rank & 1u];
    if (mine->granted) {
        write_result_tcgen05_alloc(w, i, lanes, mine->base);
        *mine = {};
        return Step::next;
    }
    if (!mine->waiting) {
        require_cta_group(w, lanes, 2, &i);
        mine->columns = checked_columns(w, i, lanes);
        check_alloc_order(w, i, lanes, mine->columns);
        mine->waiting = true;
        if (other->waiting && other->columns != mine->columns)
            w.machine().report(
                FindingKind::tmem_alloc,
                fmt::format("nCols {} here, {} in the other CTA of the pair", mine->columns, other->columns), &w, lanes,
                &i);
    }
    const auto common = [cta, peer, mine]() -> std::optional<uint32_t> {
        if (!has_permit(*cta) || !has_permit(*peer)) return std::nullopt;
        return find_columns({cta, peer}, mine->columns);
    };
    if (other->waiting) {
        if (const std::optional<uint32_t> base = common()) {
            for (PairRequest* request : {mine, other}) *request = {false, true, *base, mine->columns};
            allocate(*cta, *base, mine->columns, kNoActor);
            allocate(*peer, *base, mine->columns, kNoActor);
            w.machine().progress();
        }
    }
    // Neither has its address before it runs again: a scheduler may hold either one back here.
    w.block(
        lanes, [mine, other, common] { return mine->granted || (other->waiting && common().has_value()); },
        describe_alloc);
    return Step::blocked;
}

// Traps 1 and 3 of every cubin that allocates: not what alloc returned, or not allocated at all.
bool dealloc_matches(Warp& w, const Instr& i, LaneMask lanes, TmemAddress at, uint32_t columns) {
    const TmemAllocation* held = tmem_of(*w.cta).find(at.column);
    Machine& machine = w.cta->machine();
    if (!held || held->owner != w.cta) {
        machine.report(FindingKind::tmem_dealloc_unallocated,
                       fmt::format("tcgen05.dealloc of columns {} to {}, which the CTA does not hold", at.column,
                                   at.column + columns - 1),
                       &w, lanes, &i);
        return false;
    }
    if (held->base == at.column && held->columns == columns && at.lane == 0) return true;
    machine.report(
        FindingKind::tmem_dealloc_foreign,
        fmt::format("tcgen05.dealloc of lane {} column {} with nCols {}: alloc returned column {} for nCols {}",
                    at.lane, at.column, columns, held->base, held->columns),
        &w, lanes, &i);
    return false;
}

// Freeing is a write to every cell: whoever still uses one and is not ordered before this races with it.
void release_columns(Warp& w, const Instr& i, LaneMask lanes, uint32_t base, uint32_t columns) {
    Machine& machine = w.cta->machine();
    Tmem& tmem = tmem_of(*w.cta);
    const ActorId actor = w.first_actor + first_lane(lanes);
    if (Checker* checker = machine.checker()) {
        checker->tcgen05_fence_after(actor);
        for (uint32_t lane = 0; lane < kTmemLanes; ++lane)
            touch_cells({w.cta, &i, actor}, lane, base, columns, Access::write);
    }
    free_columns(tmem, *w.cta, base, machine.checker());
    machine.progress();
}

Step exec_dealloc_single(Warp& w, const Instr& i, LaneMask lanes) {
    const TmemAddress at = TmemAddress::of(uniform_value(w, i, i.src[1], lanes, "taddr"));
    const uint32_t columns = checked_columns(w, i, lanes);
    require_cta_group(w, lanes, 1, &i);
    if (dealloc_matches(w, i, lanes, at, columns)) release_columns(w, i, lanes, at.column, columns);
    return Step::next;
}

Step exec_dealloc_pair(Warp& w, const Instr& i, LaneMask lanes) {
    Cta& peer = pair_peer(*w.cta, "tcgen05.dealloc");
    PairState& pair = pair_state(*w.cta);
    PairRequest* mine = &pair.dealloc[w.cta->rank & 1u];
    PairRequest* other = &pair.dealloc[peer.rank & 1u];
    if (!mine->granted && !mine->waiting) {
        const TmemAddress at = TmemAddress::of(uniform_value(w, i, i.src[1], lanes, "taddr"));
        const uint32_t columns = checked_columns(w, i, lanes);
        require_cta_group(w, lanes, 2, &i);
        const PairRequest& peer_alloc = pair.alloc[peer.rank & 1u];
        if (peer_alloc.granted || peer_alloc.waiting)
            w.cta->machine().report(
                FindingKind::tmem_alloc_phase,
                "tcgen05.dealloc while the other CTA of the pair is still in tcgen05.alloc: a cluster "
                "barrier must come between",
                &w, lanes, &i);
        if (!dealloc_matches(w, i, lanes, at, columns)) return Step::next;
        *mine = {true, false, at.column, columns};
        if (other->waiting) mine->granted = other->granted = true;
        w.cta->machine().progress();
    }
    if (!mine->granted) {
        w.block(
            lanes, [mine] { return mine->granted; }, describe_dealloc);
        return Step::blocked;
    }
    release_columns(w, i, lanes, mine->base, mine->columns);
    *mine = {};
    return Step::next;
}

Step exec_relinquish(Warp& w, const Instr& i, LaneMask lanes) {
    require_cta_group(w, lanes, static_cast<uint32_t>(i.detail), &i);
    alloc_state(*w.cta).relinquished = true;
    Tmem& tmem = tmem_of(*w.cta);
    if (tmem.permit == w.cta) tmem.permit = nullptr;
    w.cta->machine().progress();
    return Step::next;
}

Instr decode_tcgen05_alloc(Decoder& d) {
    if (!is_blackwell(d)) d.refuse("tcgen05 needs sm_100a, sm_103a or sm_110a");
    Modifiers m(d);
    const std::string_view what = m.need_any({"alloc", "dealloc", "relinquish_alloc_permit"});
    const bool pair = m.need_any({"cta_group::1", "cta_group::2"}) == "cta_group::2";
    m.need("sync");
    m.need("aligned");
    Instr i;
    i.flags = kAligned;
    i.detail = pair ? 2 : 1;
    if (what == "relinquish_alloc_permit") {
        m.done();
        need_operands(d, 0);
        i.exec = exec_relinquish;
        return i;
    }
    need_operands(d, 2);
    if (what == "alloc") {
        const bool own = !m.take_any({"shared::cta", "shared"}).empty();
        i.extra = std::make_shared<const StateSpace>(own ? StateSpace::shared : StateSpace::generic);
        i.addr = d.addr(0);
        i.exec = pair ? exec_alloc_pair : exec_alloc_single;
    } else {
        i.src[1] = d.src(0, 32);
        i.exec = pair ? exec_dealloc_pair : exec_dealloc_single;
    }
    m.need("b32");
    m.done();
    i.src[0] = d.src(1, 32);
    return i;
}

}  // namespace

const Family tcgen05_alloc_family{
    "tcgen05.alloc", {"tcgen05.alloc", "tcgen05.dealloc", "tcgen05.relinquish_alloc_permit"}, decode_tcgen05_alloc};

}  // namespace nvfp4r::sim
