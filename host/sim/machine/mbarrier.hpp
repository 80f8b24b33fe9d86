// One mbarrier object (PTX ISA 9.7.13.15). Its bytes in shared memory are opaque; the state lives here.
#pragma once

#include <cstdint>

#include "sim/check/checker.hpp"

namespace nvfp4r::sim {

inline constexpr int64_t kMbarrierMax = (1 << 20) - 1;  // counts and |tx-count|

/// The rules are those measured on Hopper: a phase ends when pending == 0 and tx == 0, tested after every operation;
/// arriving beyond pending, arriving while pending is 0 and |tx| beyond the limit are faults.
struct Mbarrier {
    uint32_t expected = 0;  // arrivals of the next phase
    uint32_t pending = 0;
    int64_t tx = 0;                         // bytes still expected; may be negative
    uint64_t phase = 0;                     // completed phases; parity = phase & 1
    SyncClock arriving;                     // what the arrivals and completed copies of the current phase released
    SyncClock completed;                    // of the last completed phase
    SyncClock arriving_far, completed_far;  // the same of arrivals by threads of other CTAs
    uint32_t init_warp = 0, init_lane = 0;  // who initialised it
    // The initialising thread executed fence.mbarrier_init or fence.proxy.async since: before that, other CTAs and the
    // async proxy may still see the memory as it was (PTX ISA 9.7.13.15.9).
    bool shown = false;

    /// Each throws Fault on misuse. `clock` (may be null) joins what the arriver released. True when the phase
    /// completed.
    bool arrive(uint32_t count);
    bool arrive_drop(uint32_t count);
    bool expect_tx(int64_t bytes);
    bool complete_tx(int64_t bytes);
    /// Has the phase of this parity completed (the current phase has the other parity)?
    bool test(uint32_t parity) const { return (phase & 1) != (parity & 1); }

  private:
    bool try_complete();
};

}  // namespace nvfp4r::sim
