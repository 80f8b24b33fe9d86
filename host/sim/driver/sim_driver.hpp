// Beyond the driver API: which GPUs the simulator plays, and what it last reported.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "driver/driver_api.hpp"
#include "sim/check/report.hpp"
#include "sim/machine/config.hpp"

namespace nvfp4r::sim::driver {

/// Ends the simulated driver and lets it play `gpus` from the next cuInit on. Every handle and address becomes invalid.
/// For tests and tools; without it cuInit reads NVFP4R_SIM_ARCH and its companions, and NVFP4R_SIM_DEVICES.
void restart_driver(std::vector<GpuConfig> gpus);

/// What has run since the process started.
struct RunTotals {
    uint64_t grids = 0, instructions = 0;  // warp instructions
    uint64_t cycles = 0;                   // each batch of grids from its first start to its last end
    std::map<std::string, uint64_t> counters;
};
RunTotals run_totals();

/// Text of the last fault or refusal of any thread; "" when there was none.
std::string last_report();

/// The result that a kernel's fault becomes, as the driver reports the same fault on hardware.
CUresult fault_result(FindingKind kind);

}  // namespace nvfp4r::sim::driver
