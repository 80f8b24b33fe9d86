// Negative controls: a kernel that is right, one line of it changed, and the diagnosis that must follow.
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "sim/machine/gpu.hpp"
#include "sim/ptx_file.hpp"

namespace nvfp4r::sim::test {

/// One change of the PTX text. `from` occurs exactly once. Without `expected` the mutant is silent on hardware as well:
/// it must run clean and give a wrong result.
struct Mutation {
    const char* name;
    std::string from, to;
    std::vector<FindingKind> expected;
};

/// What a run came to.
struct Outcome {
    bool ok = true;
    Finding finding;
    bool right = false;  // the result is what an independent computation gives
};

/// Runs a PTX text on the simulated GPU.
using Trial = std::function<Outcome(const std::string& ptx, const GpuConfig& config)>;

inline std::string mutated(const std::string& ptx, const Mutation& mutation) {
    const size_t at = ptx.find(mutation.from);
    REQUIRE(at != std::string::npos);
    REQUIRE(ptx.find(mutation.from, at + 1) == std::string::npos);
    return std::string(ptx).replace(at, mutation.from.size(), mutation.to);
}

/// Every policy with every seed; a mutant has all of them to show itself.
inline std::vector<GpuConfig> schedules(uint32_t sm) {
    constexpr uint64_t kSeeds = 3, kSpinLimit = 200'000;
    std::vector<GpuConfig> out;
    for (uint64_t seed = 1; seed <= kSeeds; ++seed)
        for (const Policy policy :
             {Policy::round_robin, Policy::late, Policy::eager, Policy::random, Policy::hold_warp, Policy::hold_cta}) {
            GpuConfig config = GpuConfig::for_sm(sm);
            config.sms = 8;
            config.policy = policy;
            config.seed = seed;
            config.spin_limit = kSpinLimit;
            out.push_back(config);
        }
    return out;
}

inline void check_clean(const std::string& ptx, uint32_t sm, const Trial& trial) {
    for (const GpuConfig& config : schedules(sm)) {
        const Outcome outcome = trial(ptx, config);
        CAPTURE(static_cast<int>(config.policy), config.seed);
        INFO(outcome.finding.text);
        REQUIRE(outcome.ok);
        REQUIRE(outcome.right);
    }
}

/// Each mutant is told by one of its names within the schedules, and by no other name before.
inline void check_mutants(const std::string& ptx, uint32_t sm, const Trial& trial,
                          const std::vector<Mutation>& mutations) {
    for (const Mutation& mutation : mutations) {
        DYNAMIC_SECTION(mutation.name) {
            const std::string mutant = mutated(ptx, mutation);
            bool told = false;
            for (const GpuConfig& config : schedules(sm)) {
                const Outcome outcome = trial(mutant, config);
                INFO(finding_name(outcome.finding.kind) << ": " << outcome.finding.text);
                if (mutation.expected.empty()) {
                    REQUIRE(outcome.ok);
                    told = !outcome.right;
                } else if (!outcome.ok) {
                    const auto& names = mutation.expected;
                    REQUIRE(std::find(names.begin(), names.end(), outcome.finding.kind) != names.end());
                    REQUIRE_FALSE(outcome.finding.text.empty());
                    told = true;
                }
                if (told) break;
            }
            REQUIRE(told);
        }
    }
}

}  // namespace nvfp4r::sim::test
