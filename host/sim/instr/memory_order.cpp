#include "sim/instr/memory_order.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <unordered_map>

#include "sim/instr/state_keys.hpp"

namespace nvfp4r::sim {
namespace {

/// Where a thread runs, for scopes. Survives its CTA.
struct Home {
    uint32_t grid = 0;
    Dim3 cta, cluster;
};

Home home_of(const Warp& warp) {
    return {warp.cta->grid->index, warp.cta->id, warp.cta->cluster->id};
}

bool same(const Dim3& a, const Dim3& b) {
    return a.x == b.x && a.y == b.y && a.z == b.z;
}

bool includes(Scope scope, const Home& a, const Home& b) {
    switch (scope) {
        case Scope::cta: return a.grid == b.grid && same(a.cta, b.cta);
        case Scope::cluster: return a.grid == b.grid && same(a.cluster, b.cluster);
        case Scope::gpu:
        case Scope::sys: break;
    }
    return true;
}

/// What one thread released to a location.
struct Released {
    ActorId actor = kNoActor;
    SyncClock clock;
    Scope scope = Scope::sys;
    Home home;
};

/// Releases to each 4-byte word, by its host address.
using Words = std::unordered_map<uint64_t, std::vector<Released>>;

Words& words_at(Warp& warp, const Machine::Place& place) {
    auto& states = place.owner ? place.owner->family_state : warp.machine().family_state;
    auto& state = states[state_key::kMemoryOrder];
    if (!state) state = std::make_shared<Words>();
    return *static_cast<Words*>(state.get());
}

uint64_t word_of(const Machine::Place& place) {
    return reinterpret_cast<uint64_t>(place.bytes) >> 2;
}

struct ThreadOrder {
    SyncClock fenced;  // at the last release fence
    Scope fenced_scope = Scope::sys;
    std::vector<Released> seen;  // by strong reads since the last acquire fence
};
using WarpOrder = std::array<ThreadOrder, kLanes>;

}  // namespace

Order order_of(Semantics semantics, Scope scope) {
    if (semantics == Semantics::weak) return Order::weak;
    if (scope == Scope::cta) return Order::relaxed_cta;
    return scope == Scope::cluster ? Order::relaxed_cluster : Order::relaxed;
}

Scope take_scope(Modifiers& modifiers, Scope otherwise) {
    return modifiers.take_one<Scope>(
        {{"cta", Scope::cta}, {"cluster", Scope::cluster}, {"gpu", Scope::gpu}, {"sys", Scope::sys}}, otherwise);
}

Scope need_scope(Decoder& decoder, Modifiers& modifiers) {
    std::string_view name = modifiers.peek();
    if (name != "cta" && name != "cluster" && name != "gpu" && name != "sys")
        decoder.refuse("a scope (.cta, .cluster, .gpu or .sys) is missing");
    return take_scope(modifiers, Scope::sys);
}

StateSpace take_space(Modifiers& modifiers) {
    return modifiers.take_one<StateSpace>({{"shared", StateSpace::shared},
                                           {"shared::cta", StateSpace::shared},
                                           {"shared::cluster", StateSpace::shared_cluster},
                                           {"global", StateSpace::global},
                                           {"local", StateSpace::local},
                                           {"const", StateSpace::constant},
                                           {"param", StateSpace::param},
                                           {"param::entry", StateSpace::param},
                                           {"param::func", StateSpace::param}},
                                          StateSpace::generic);
}

void note_read(Warp& warp, uint32_t lane, const Machine::Place& place, Semantics semantics, Scope scope) {
    Words& words = words_at(warp, place);
    auto found = words.find(word_of(place));
    if (found == words.end()) return;
    const Home home = home_of(warp);
    ThreadOrder& thread = warp.state<WarpOrder>(state_key::kMemoryOrder)[lane];
    for (const Released& released : found->second) {
        if (!includes(released.scope, released.home, home) || !includes(scope, home, released.home)) continue;
        if (acquires(semantics)) {
            warp.machine().checker()->acquire(warp.first_actor + lane, released.clock);
            continue;
        }
        bool known = std::any_of(thread.seen.begin(), thread.seen.end(),
                                 [&](const Released& seen) { return seen.clock.generic == released.clock.generic; });
        if (!known) thread.seen.push_back(released);
    }
}

void note_write(Warp& warp, uint32_t lane, const Machine::Place& place, Semantics semantics, Scope scope, bool keeps) {
    Words& words = words_at(warp, place);
    const ActorId actor = warp.first_actor + lane;
    Released released{actor, {}, scope, home_of(warp)};
    if (releases(semantics)) {
        warp.machine().checker()->release(actor, released.clock);
    } else {
        const ThreadOrder& thread = warp.state<WarpOrder>(state_key::kMemoryOrder)[lane];
        released.clock = thread.fenced;
        released.scope = std::min(scope, thread.fenced_scope);
    }
    if (released.clock.empty()) {
        if (!keeps) words.erase(word_of(place));
        return;
    }
    std::vector<Released>& list = words[word_of(place)];
    if (keeps)
        std::erase_if(list, [&](const Released& old) { return old.actor == actor; });
    else
        list.clear();
    list.push_back(std::move(released));
}

SyncClock fenced_clock(Warp& warp, uint32_t lane, Scope scope) {
    const ThreadOrder& thread = warp.state<WarpOrder>(state_key::kMemoryOrder)[lane];
    return thread.fenced_scope >= scope ? thread.fenced : SyncClock{};
}

void note_fence(Warp& warp, LaneMask lanes, Semantics semantics, Scope scope) {
    Checker& checker = *warp.machine().checker();
    WarpOrder& order = warp.state<WarpOrder>(state_key::kMemoryOrder);
    const Home home = home_of(warp);
    for (LaneMask left = lanes; left; left &= left - 1) {
        const uint32_t lane = static_cast<uint32_t>(std::countr_zero(left));
        ThreadOrder& thread = order[lane];
        if (acquires(semantics)) {
            for (const Released& seen : thread.seen)
                if (includes(scope, home, seen.home)) checker.acquire(warp.first_actor + lane, seen.clock);
            thread.seen.clear();
        }
        if (releases(semantics)) {
            thread.fenced = {};
            checker.release(warp.first_actor + lane, thread.fenced);
            thread.fenced_scope = scope;
        }
    }
}

}  // namespace nvfp4r::sim
