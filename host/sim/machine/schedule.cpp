// Who goes next: the six policies of config.hpp over warps and asynchronous operations.
#include <algorithm>

#include "sim/machine/simulation.hpp"

namespace nvfp4r::sim {
namespace {

constexpr uint32_t kSpinsSeen = 4;         // polls without news after which a warp counts as spinning
constexpr uint32_t kBurst = 8;             // most instructions that the random policies run of one warp at a time
constexpr uint32_t kPicks = 16;            // random picks between looks at what ended
constexpr uint32_t kHeldBurst = 64;        // most instructions of a held warp at a time
constexpr uint64_t kStuckFires = 100'000;  // parts of operations without a change after which nothing will come
constexpr uint64_t kBusyLimit = 256;       // times the spin limit: a loop that changes nothing and polls nothing

}  // namespace

void Simulation::progress() {
    ++mark_;
    idle_steps_ = 0;
    idle_fires_ = 0;
    last_event_ = std::max(last_event_, now_);
}

bool Simulation::all_spinning() const {
    return std::all_of(warps_.begin(), warps_.end(), [&](const Warp* warp) {
        return (warp->asleep && warp->polled == mark_) || (warp->spin_mark == mark_ && warp->spins >= kSpinsSeen) ||
               held_back(*warp) || warp->live == 0;
    });
}

bool Simulation::held_back(const Warp& warp) const {
    if (config_.policy != Policy::hold_cta && config_.policy != Policy::hold_warp) return false;
    const Dim3& size = warp.cta->grid->launch->grid;
    const Dim3& id = warp.cta->id;
    const uint64_t linear = id.x + uint64_t{size.x} * (id.y + uint64_t{size.y} * id.z);
    if (linear != (held_ >> 32) % warp.cta->grid->ctas) return false;
    return config_.policy == Policy::hold_cta || warp.index == (held_ & 0xffffffffu) % warp.cta->warps.size();
}

bool Simulation::run_burst(Warp& warp, uint32_t instructions) {
    if (warp.live == 0 || (warp.asleep && warp.polled == mark_)) return false;
    bool ran = false;
    for (uint32_t i = 0; i < instructions && warp.live != 0; ++i) {
        if (!step(warp)) break;
        ran = true;
    }
    return ran;
}

/// Every warp one instruction.
bool Simulation::pass_in_turn() {
    bool any = false;
    const bool eager = config_.policy == Policy::eager;
    for (size_t i = 0; i < warps_.size(); ++i) {
        any |= run_burst(*warps_[i], 1);
        if (eager && !busy_.empty()) any |= fire_all();
    }
    return any;
}

bool Simulation::pass_random() {
    bool any = false;
    const bool holding = config_.policy != Policy::random;
    for (uint32_t pick = 0; pick < kPicks && !warps_.empty(); ++pick) {
        if (!busy_.empty() && random_.below(4) == 0) any |= fire_any();
        const size_t start = random_.below(warps_.size());
        const uint32_t burst = 1 + static_cast<uint32_t>(random_.below(kBurst));
        for (size_t i = 0; i < warps_.size(); ++i) {
            Warp& warp = *warps_[(start + i) % warps_.size()];
            if (holding && held_back(warp)) continue;
            if (run_burst(warp, burst)) {
                any = true;
                break;
            }
        }
    }
    return any;
}

void Simulation::loop() {
    const Policy policy = config_.policy;
    const bool holding = policy == Policy::hold_warp || policy == Policy::hold_cta;
    while (true) {
        if (ctas_left_) settle();
        if (std::all_of(grids_.begin(), grids_.end(), [](const auto& grid) { return grid->ended; })) return;
        start_clusters();
        bool ran = policy >= Policy::random ? pass_random() : pass_in_turn();
        if (policy == Policy::round_robin && !busy_.empty()) {
            uint64_t horizon = ~0ull;
            for (const Warp* warp : warps_)
                if (!warp->asleep && warp->live) horizon = std::min(horizon, warp->time);
            ran |= fire_due(horizon);
        }
        if (ctas_left_) continue;
        const bool spinning = ran && idle_steps_ > warps_.size() && all_spinning();
        if (ran && !spinning) {
            if (idle_steps_ > config_.spin_limit * kBusyLimit) deadlock("an endless loop changes nothing");
            continue;
        }
        // Nothing goes on by itself: what the policy kept back comes now.
        if (!busy_.empty() && (!spinning || policy != Policy::round_robin)) {
            bool fired = policy == Policy::round_robin ? fire_earliest() : fire_any();
            if (fired || idle_fires_ < kStuckFires) continue;
        }
        if (holding) {
            // One instruction while others poll; where all others are blocked, up to the next change of state.
            const uint64_t mark = mark_;
            bool released = false;
            for (size_t i = 0; i < warps_.size(); ++i)
                if (held_back(*warps_[i]))
                    for (uint32_t n = 0; n < (spinning ? 1 : kHeldBurst) && mark == mark_; ++n)
                        released |= run_burst(*warps_[i], 1);
            if (released) {
                if (idle_steps_ > config_.spin_limit * 2) deadlock("every thread that runs only polls");
                continue;
            }
        }
        if (ctas_left_ || start_clusters()) continue;
        if (!spinning) deadlock("nothing can run and nothing is in flight");
        if ((busy_.empty() || idle_fires_ > kStuckFires) && idle_steps_ > config_.spin_limit)
            deadlock("every thread that runs only polls");
    }
}

}  // namespace nvfp4r::sim
