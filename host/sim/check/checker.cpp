#include "sim/check/checker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>
#include <tuple>
#include <vector>

#include "core/error.hpp"
#include "sim/check/clock.hpp"
#include "sim/check/shadow.hpp"
#include "sim/program/instr.hpp"

namespace nvfp4r::sim {

namespace {

/// Which view of the past an access is held against.
enum class View : uint8_t { generic, async, tcgen05 };

struct Actor {
    std::shared_ptr<const Clock> generic, async, tcgen05;
    uint32_t epoch = 1;         // of its accesses now
    uint32_t fenced = 0;        // its own epochs up to this one are visible to the async proxy
    ActorId issuer = kNoActor;  // asynchronous operations
    ActorId cta = kNoActor;     // first thread of its CTA
    uint64_t cluster = 0;
    bool touched = false;  // accessed, acquired or fenced since its last epoch began
};

const Clock& clock_of(const std::shared_ptr<const Clock>& clock) {
    static const Clock empty;
    return clock ? *clock : empty;
}

/// A clock that may be changed in place because nobody else holds it; a copy when somebody does.
Clock& mutable_clock(std::shared_ptr<const Clock>& clock) {
    if (!clock)
        clock = std::make_shared<const Clock>();
    else if (clock.use_count() > 1)
        clock = std::make_shared<const Clock>(*clock);
    return const_cast<Clock&>(*clock);  // sole owner
}

void join(std::shared_ptr<const Clock>& into, const std::shared_ptr<const Clock>& from) {
    if (!from || into == from) return;
    if (!into) {
        into = from;
        return;
    }
    if (into->same(*from)) return;
    mutable_clock(into).join(*from);
    if (into->same(*from)) into = from;  // share again
}

std::string where(const Instr* instr) {
    if (!instr || !instr->statement) return "by the host or an earlier launch";
    const Statement& s = *instr->statement;
    std::string text = fmt::format("PTX line {}: {}", s.loc.ptx_line, s.text);
    if (s.loc.file) text += fmt::format(" (source file {}, line {})", s.loc.file, s.loc.line);
    return text;
}

}  // namespace

struct Checker::State {
    explicit State(Sink& s) : sink(s) { restart(); }

    Sink& sink;
    uint32_t run = 0;
    std::vector<Actor> actors;
    std::set<std::tuple<FindingKind, const Instr*, const Instr*>> reported;

    void restart() {
        ++run;
        actors.clear();
        actors.emplace_back();  // kHost
        reported.clear();
    }
    Actor& actor(ActorId id) { return actors[id]; }

    ActorId add() {
        if (actors.size() >= Clock::kActors)
            fail(
                NVFP4R_UNSUPPORTED,
                "simulator: more than {} threads and asynchronous operations in one run; set NVFP4R_SIM_CHECK=0 to run "
                "it unchecked",
                Clock::kActors);
        actors.emplace_back();
        return static_cast<ActorId>(actors.size() - 1);
    }

    /// Do the scopes of two strong accesses include each other's thread? The narrower one decides.
    bool morally_strong(ActorId a, Order order_a, ActorId b, Order order_b) const {
        switch (std::min(order_a, order_b)) {
            case Order::weak: return false;
            case Order::relaxed_cta: return actors[a].cta == actors[b].cta;
            case Order::relaxed_cluster: return actors[a].cluster == actors[b].cluster;
            case Order::relaxed: break;
        }
        return true;
    }

    const Clock& view(const Actor& actor, View v) {
        switch (v) {
            case View::async: return clock_of(actor.async);
            case View::tcgen05: return clock_of(actor.tcgen05);
            default: return clock_of(actor.generic);
        }
    }

    std::string describe(ActorId id) {
        if (id == kHost) return "the host";
        const Actor& a = actor(id);
        if (a.issuer != kNoActor) return "an asynchronous operation of " + sink.describe(a.issuer);
        return sink.describe(id);
    }

    void report(FindingKind kind, const std::string& head, const Shadow& shadow, uint64_t offset, uint64_t bytes,
                ActorId now, const AccessInfo& info, ActorId before, const Instr* before_instr,
                const char* before_did) {
        if (!reported.emplace(kind, info.instr, before_instr).second) return;
        std::string text =
            fmt::format("{}: {} + {}..{}\n  {} {} ({})", head, shadow.name(), offset, offset + bytes - 1,
                        info.access == Access::write ? "write by" : "read by", describe(now), where(info.instr));
        if (before != kNoActor)
            text += fmt::format("\n  {} {} ({})", before_did, describe(before), where(before_instr));
        sink.finding(kind, text);
    }

    /// The access against the cell's history; `at` and `width` for messages.
    void check_cell(Cell& cell, ActorId id, Shadow& shadow, uint64_t at, uint64_t width, const AccessInfo& info,
                    bool tmem) {
        if (cell.run != run) {  // history of an earlier run lies before everything
            if (cell.write.actor != kNoActor) cell.write = WriteRecord{kHost, 0, nullptr, Proxy::generic, Order::weak};
            cell.reads.clear();
            cell.run = run;
        }
        const Actor& me = actors[id];
        const WriteRecord& w = cell.write;
        if (w.actor == kNoActor) {
            if (info.access == Access::read)
                report(FindingKind::uninitialised, "read of unwritten memory", shadow, at, width, id, info, kNoActor,
                       nullptr, "");
        } else if (w.actor != kHost && w.actor != id && !morally_strong(w.actor, w.order, id, info.order)) {
            const bool known = clock_of(me.generic).get(w.actor) >= w.epoch;
            if (tmem) {
                if (clock_of(me.tcgen05).get(w.actor) < w.epoch) report_order(known, shadow, at, width, id, info, w);
            } else if (!known) {
                report(FindingKind::race, "data race", shadow, at, width, id, info, w.actor, w.instr,
                       "unordered after the write by");
            } else if (w.proxy == Proxy::generic && info.proxy == Proxy::async &&
                       clock_of(me.async).get(w.actor) < w.epoch) {
                report(FindingKind::proxy_race, "missing fence.proxy.async between a generic write and an async access",
                       shadow, at, width, id, info, w.actor, w.instr,
                       "ordered after, but without a proxy fence, the write by");
            }
        }
        if (info.access == Access::read) {
            cell.add_read(id, me.epoch, info);
            return;
        }
        const Clock& past = view(me, tmem ? View::tcgen05 : View::generic);
        for (const ReadRecord& r : cell.reads) {
            for (uint64_t left = r.actors; left; left &= left - 1) {
                const ActorId reader = r.block * Clock::kLeaf + static_cast<uint32_t>(std::countr_zero(left));
                if (reader == id || past.get(reader) >= r.epoch || morally_strong(reader, r.order, id, info.order))
                    continue;
                if (tmem && clock_of(me.generic).get(reader) >= r.epoch)
                    report(FindingKind::tcgen05_order, "missing tcgen05.fence::after_thread_sync", shadow, at, width,
                           id, info, reader, r.instr, "after the read by");
                else
                    report(FindingKind::race, "data race", shadow, at, width, id, info, reader, r.instr,
                           "unordered after the read by");
                break;
            }
        }
        cell.reads.clear();
        cell.write = WriteRecord{id, me.epoch, info.instr, info.proxy, info.order};
    }

    void report_order(bool known, const Shadow& shadow, uint64_t at, uint64_t width, ActorId id, const AccessInfo& info,
                      const WriteRecord& w) {
        if (known)
            report(FindingKind::tcgen05_order, "missing tcgen05.fence::after_thread_sync", shadow, at, width, id, info,
                   w.actor, w.instr, "after the write by");
        else
            report(FindingKind::race, "data race in tensor memory", shadow, at, width, id, info, w.actor, w.instr,
                   "unordered after the write by");
    }

    /// The part [from, to) of a cell that covers `width` bytes starting at shadow offset `base`.
    void walk(Cell& cell, uint64_t width, uint64_t from, uint64_t to, ActorId id, Shadow& shadow, uint64_t base,
              const AccessInfo& info, bool tmem) {
        const bool whole = from == 0 && to == width;
        if (!cell.parts) {
            if (whole) {
                check_cell(cell, id, shadow, base, width, info, tmem);
                return;
            }
            cell.split();
        }
        const uint64_t part = width / 4;
        for (uint64_t i = from / part; i * part < to; ++i) {
            const uint64_t lo = std::max(from, i * part) - i * part, hi = std::min(to, (i + 1) * part) - i * part;
            walk((*cell.parts)[i], part, lo, hi, id, shadow, base + i * part, info, tmem);
        }
        if (whole && info.access == Access::write) {  // one history again
            cell.write = (*cell.parts)[0].write;
            cell.run = run;
            cell.parts.reset();
        }
    }

    void access(ActorId id, Shadow& shadow, uint64_t offset, uint64_t bytes, const AccessInfo& info, bool tmem) {
        actors[id].touched = true;
        const uint64_t end = offset + bytes;
        while (offset < end) {
            const uint64_t base = offset / Shadow::kCellBytes * Shadow::kCellBytes;
            const uint64_t stop = std::min(end, base + Shadow::kCellBytes);
            walk(shadow.cell(offset), Shadow::kCellBytes, offset - base, stop - base, id, shadow, base, info, tmem);
            offset = stop;
        }
    }
};

Checker::Checker(Sink& sink) : state_(std::make_unique<State>(sink)) {}
Checker::~Checker() = default;

void Checker::new_run() {
    state_->restart();
}

ActorId Checker::new_threads(uint32_t count, const SyncClock& from, uint64_t cluster) {
    ActorId first = kNoActor;
    // A warp's lanes share one block of the clocks: start at a multiple of 32.
    while (state_->actors.size() % kLanes != 0) state_->add();
    for (uint32_t i = 0; i < count; ++i) {
        const ActorId id = state_->add();
        if (i == 0) first = id;
        Actor& a = state_->actor(id);
        a.generic = from.generic;
        a.async = from.async;
        a.tcgen05 = from.generic;
        a.cta = first;
        a.cluster = cluster;
    }
    return first;
}

ActorId Checker::begin_async(ActorId issuer, bool tcgen05) {
    const ActorId id = state_->add();
    Actor& from = state_->actor(issuer);
    Actor& op = state_->actor(id);
    op.issuer = from.issuer == kNoActor ? issuer : from.issuer;
    op.cta = from.cta;
    op.cluster = from.cluster;
    op.generic = from.generic;
    mutable_clock(op.generic).raise(issuer, from.epoch);
    op.async = from.async;
    if (from.fenced) mutable_clock(op.async).raise(issuer, from.fenced);
    if (tcgen05) op.tcgen05 = from.tcgen05;
    ++from.epoch;  // what the issuer does from here on is not before the operation
    from.touched = true;
    return id;
}

void Checker::order(ActorId earlier, ActorId later) {
    const Actor& a = state_->actor(earlier);
    Actor& b = state_->actor(later);
    join(b.generic, a.generic);
    mutable_clock(b.generic).raise(earlier, a.epoch);
    join(b.async, a.async);
    join(b.tcgen05, a.tcgen05);
    mutable_clock(b.tcgen05).raise(earlier, a.epoch);
}

void Checker::end_async(ActorId op) {
    Actor& a = state_->actor(op);
    a.generic.reset();
    a.async.reset();
    a.tcgen05.reset();
}

void Checker::end_threads(ActorId first, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) end_async(first + i);
}

void Checker::release(ActorId id, SyncClock& into) {
    Actor& a = state_->actor(id);
    join(into.generic, a.generic);
    mutable_clock(into.generic).raise(id, a.epoch);
    join(into.async, a.async);
    if (a.fenced) mutable_clock(into.async).raise(id, a.fenced);
    ++a.epoch;
    a.touched = false;
}

void Checker::acquire(ActorId id, const SyncClock& from) {
    Actor& a = state_->actor(id);
    join(a.generic, from.generic);
    join(a.async, from.async);
    a.touched = true;
}

void Checker::warp_sync(ActorId first, uint32_t lanes) {
    const ActorId lead = first + static_cast<uint32_t>(std::countr_zero(lanes));
    bool idle = true;
    for (uint32_t left = lanes; left && idle; left &= left - 1) {
        const Actor& a = state_->actor(first + static_cast<uint32_t>(std::countr_zero(left)));
        const Actor& b = state_->actor(lead);
        idle = !a.touched && a.generic == b.generic && a.async == b.async;
    }
    if (idle) return;  // nobody did anything that another lane could have to know
    SyncClock all;
    // Lanes that met before share one clock: it joins once. A clock of `all` is never one of theirs to change.
    const Clock *generic = nullptr, *async = nullptr;
    for (uint32_t left = lanes; left; left &= left - 1) {
        const Actor& a = state_->actor(first + static_cast<uint32_t>(std::countr_zero(left)));
        if (a.generic.get() != generic) join(all.generic, a.generic);
        if (a.async.get() != async) join(all.async, a.async);
        generic = a.generic.get();
        async = a.async.get();
    }
    for (uint32_t left = lanes; left; left &= left - 1) {
        const ActorId id = first + static_cast<uint32_t>(std::countr_zero(left));
        Actor& a = state_->actor(id);
        mutable_clock(all.generic).raise(id, a.epoch);
        if (a.fenced) mutable_clock(all.async).raise(id, a.fenced);
        ++a.epoch;
        a.touched = false;
    }
    for (uint32_t left = lanes; left; left &= left - 1) {
        Actor& a = state_->actor(first + static_cast<uint32_t>(std::countr_zero(left)));
        a.generic = all.generic;
        a.async = all.async;
    }
}

void Checker::fence_proxy_async(ActorId id) {
    Actor& a = state_->actor(id);
    join(a.async, a.generic);
    a.fenced = a.epoch;
    ++a.epoch;  // later writes are not behind the fence
    a.touched = true;
}

void Checker::tcgen05_fence_before(ActorId id) {
    Actor& a = state_->actor(id);
    join(a.generic, a.tcgen05);
    a.touched = true;
}

void Checker::tcgen05_fence_after(ActorId id) {
    Actor& a = state_->actor(id);
    join(a.tcgen05, a.generic);
}

void Checker::tcgen05_wait(ActorId id, ActorId op) {
    const Actor& done = state_->actor(op);
    Actor& a = state_->actor(id);
    join(a.tcgen05, done.tcgen05);
    mutable_clock(a.tcgen05).raise(op, done.epoch);
}

uint32_t Checker::epoch_of(ActorId id) {
    Actor& a = state_->actor(id);
    a.touched = true;
    return a.epoch;
}

bool Checker::is_before(ActorId earlier, uint32_t epoch, ActorId later) const {
    const Actor& a = state_->actor(later);
    const ActorId thread = a.issuer == kNoActor ? later : a.issuer;
    return earlier / kLanes == thread / kLanes || clock_of(a.generic).get(earlier) >= epoch;
}

std::shared_ptr<Shadow> Checker::new_shadow(std::string name, uint64_t bytes, bool written) {
    return std::make_shared<Shadow>(std::move(name), bytes, written);
}

void Checker::access(ActorId actor, Shadow& shadow, uint64_t offset, uint64_t bytes, const AccessInfo& info) {
    state_->access(actor, shadow, offset, bytes, info, false);
}

void Checker::access_run(ActorId first, uint32_t count, Shadow& shadow, uint64_t offset, uint64_t bytes,
                         const AccessInfo& info) {
    for (uint32_t i = 0; i < count; ++i) state_->access(first + i, shadow, offset + i * bytes, bytes, info, false);
}

void Checker::tmem_access(ActorId actor, Shadow& shadow, uint32_t lane, uint32_t column, uint32_t columns,
                          const AccessInfo& info) {
    constexpr uint64_t kColumns = 512, kCell = 4;
    state_->access(actor, shadow, (lane * kColumns + column) * kCell, columns * kCell, info, true);
}

void Checker::host_write(Shadow& shadow, uint64_t offset, uint64_t bytes) {
    shadow.reset(offset, bytes, true);
}

void Checker::forget(Shadow& shadow, uint64_t offset, uint64_t bytes) {
    shadow.reset(offset, bytes, false);
}

namespace {
bool part_written(const Cell& cell, uint64_t width, uint64_t from, uint64_t to) {
    if (!cell.parts) return cell.write.actor != kNoActor;
    const uint64_t part = width / 4;
    for (uint64_t i = from / part; i * part < to; ++i) {
        const uint64_t lo = std::max(from, i * part) - i * part, hi = std::min(to, (i + 1) * part) - i * part;
        if (!part_written((*cell.parts)[i], part, lo, hi)) return false;
    }
    return true;
}
}  // namespace

bool Checker::written(const Shadow& shadow, uint64_t offset, uint64_t bytes) const {
    auto& s = const_cast<Shadow&>(shadow);  // find does not change it
    const uint64_t end = offset + bytes;
    while (offset < end) {
        const uint64_t base = offset / Shadow::kCellBytes * Shadow::kCellBytes;
        const uint64_t stop = std::min(end, base + Shadow::kCellBytes);
        const Cell* cell = s.find(offset);
        if (cell ? !part_written(*cell, Shadow::kCellBytes, offset - base, stop - base) : !s.untouched_written(offset))
            return false;
        offset = stop;
    }
    return true;
}

}  // namespace nvfp4r::sim
