// What fits on the GPU: launch limits, places on SMs, clusters within a GPC.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/machine/gpu.hpp"

namespace nvfp4r::sim {

/// What one CTA takes of an SM.
struct CtaNeeds {
    uint32_t threads = 0;
    uint32_t registers = 0;
    uint64_t shared = 0;  // the system's reserved KiB included
};

CtaNeeds needs_of(const GpuConfig& config, const GridLaunch& launch);
/// Why the launch is refused; nothing when it is possible.
std::optional<std::string> launch_refusal(const GpuConfig& config, const GridLaunch& launch);
/// SMs of each GPC as far as clusters are concerned.
std::vector<uint32_t> gpc_sizes(const GpuConfig& config);

/// Places of all SMs.
class Residency {
  public:
    explicit Residency(const GpuConfig& config);
    /// SMs for the CTAs of one cluster, all within one GPC; empty when there is no place now. The places are taken.
    std::vector<uint32_t> take(const CtaNeeds& needs, uint32_t ctas);
    void give_back(uint32_t sm, const CtaNeeds& needs);

  private:
    struct Sm {
        uint32_t threads, registers, ctas;
        uint64_t shared;
        bool holds(const CtaNeeds& needs) const {
            return ctas >= 1 && threads >= needs.threads && registers >= needs.registers && shared >= needs.shared;
        }
        void take(const CtaNeeds& needs);
    };
    std::vector<Sm> sms_;
    std::vector<uint32_t> gpcs_;
};

/// Clusters that an empty GPU holds at once (cuOccupancyMaxActiveClusters); 0 when the launch is refused.
uint32_t max_active_clusters(const GpuConfig& config, const GridLaunch& launch);

}  // namespace nvfp4r::sim
