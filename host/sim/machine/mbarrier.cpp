#include "sim/machine/mbarrier.hpp"

#include <fmt/format.h>

namespace nvfp4r::sim {

bool Mbarrier::try_complete() {
    if (pending != 0 || tx != 0) return false;
    ++phase;
    pending = expected;
    completed = arriving;
    arriving = {};
    completed_far = arriving_far;
    arriving_far = {};
    return true;
}

bool Mbarrier::arrive(uint32_t count) {
    if (count == 0) return false;
    if (pending == 0 && expected == 0)
        throw Fault(FindingKind::mbarrier_misuse, "arrive on an mbarrier whose expected count has dropped to 0");
    if (pending == 0)
        throw Fault(FindingKind::mbarrier_misuse,
                    fmt::format("arrive while no arrival is pending: phase {} waits for {} bytes only", phase, tx));
    if (count > pending)
        throw Fault(FindingKind::mbarrier_overflow,
                    fmt::format("arrive of {} with {} pending in phase {}", count, pending, phase));
    pending -= count;
    return try_complete();
}

bool Mbarrier::arrive_drop(uint32_t count) {
    if (count > expected)
        throw Fault(FindingKind::mbarrier_overflow,
                    fmt::format("arrive_drop of {} with an expected count of {}", count, expected));
    // The drop counts from the next phase on, so it must be in place when this arrival completes the phase.
    expected -= count;
    try {
        return arrive(count);
    } catch (...) {
        expected += count;
        throw;
    }
}

bool Mbarrier::expect_tx(int64_t bytes) {
    if (tx + bytes > kMbarrierMax)
        throw Fault(FindingKind::mbarrier_overflow,
                    fmt::format("expect_tx of {} bytes on top of {}: at most {} fit a phase", bytes, tx, kMbarrierMax));
    if (bytes == 0) return false;
    tx += bytes;
    return try_complete();
}

bool Mbarrier::complete_tx(int64_t bytes) {
    if (tx - bytes < -kMbarrierMax)
        throw Fault(FindingKind::mbarrier_overflow,
                    fmt::format("complete_tx of {} bytes at a tx-count of {}: below -{}", bytes, tx, kMbarrierMax));
    if (bytes == 0) return false;
    tx -= bytes;
    return try_complete();
}

}  // namespace nvfp4r::sim
