// Beyond the driver API: which GPUs the simulator plays, and what it last reported.
#pragma once

#include <string>
#include <vector>

#include "driver/driver_api.hpp"
#include "sim/check/report.hpp"
#include "sim/machine/config.hpp"

namespace nvfp4r::sim::driver {

/// Ends the simulated driver and lets it play `gpus` from the next cuInit on. Every handle and address becomes invalid.
/// For tests and tools; without it cuInit reads NVFP4R_SIM_ARCH and its companions, and NVFP4R_SIM_DEVICES.
void restart_driver(std::vector<GpuConfig> gpus);

/// Text of the last fault or refusal of any thread; "" when there was none.
std::string last_report();

/// The result that a kernel's fault becomes, as the driver reports the same fault on hardware.
CUresult fault_result(FindingKind kind);

}  // namespace nvfp4r::sim::driver
