// Memory order of loads, stores and atomics (PTX ISA 8, memory consistency model), as edges for the checker.
//
// A release write leaves the writer's clock at the location, an acquire read that sees it takes it. The fence forms of
// both patterns work through two things each thread keeps: the clock of its last release fence, which its later strong
// writes publish, and the clocks that its strong reads have seen, which its next fence takes.
#pragma once

#include <cstdint>

#include "sim/instr/modifiers.hpp"
#include "sim/machine/machine.hpp"

namespace nvfp4r::sim {

enum class Scope : uint8_t { cta, cluster, gpu, sys };
enum class Semantics : uint8_t { weak, relaxed, acquire, release, acq_rel };

inline bool acquires(Semantics semantics) {
    return semantics == Semantics::acquire || semantics == Semantics::acq_rel;
}
inline bool releases(Semantics semantics) {
    return semantics == Semantics::release || semantics == Semantics::acq_rel;
}

/// How strong the checker holds such an access.
Order order_of(Semantics semantics, Scope scope);

/// Takes .cta, .cluster, .gpu or .sys; `otherwise` when none stands there.
Scope take_scope(Modifiers& modifiers, Scope otherwise);
/// As take_scope; refused when none stands there.
Scope need_scope(Decoder& decoder, Modifiers& modifiers);
/// Takes .shared, .shared::cta, .shared::cluster, .global, .local, .const or .param; generic when none stands there.
StateSpace take_space(Modifiers& modifiers);

/// A strong read of a location by one lane. Call only with a checker.
void note_read(Warp& warp, uint32_t lane, const Machine::Place& place, Semantics semantics, Scope scope);
/// A strong write; `keeps`: it is half of an atomic, which continues the release sequences it finds.
void note_write(Warp& warp, uint32_t lane, const Machine::Place& place, Semantics semantics, Scope scope, bool keeps);
/// What the lane's last release fence of at least this scope showed; empty when there was none.
SyncClock fenced_clock(Warp& warp, uint32_t lane, Scope scope);
/// fence / membar by lanes.
void note_fence(Warp& warp, LaneMask lanes, Semantics semantics, Scope scope);

}  // namespace nvfp4r::sim
