// Every argument of the C API is checked here once, for all devices.
#pragma once

#include "format/gate.hpp"
#include "nvfp4router.h"

namespace nvfp4r {

/// Settings by themselves, then against the gate. Throws INVALID_ARGUMENT.
void validate_settings(const nvfp4r_settings& settings, const Gate& gate);
void validate_options(const nvfp4r_router_options& options);

/// The gate's own precision where it is UNSET. Refuses what the gate cannot give.
nvfp4r_precision resolve_precision(const nvfp4r_settings& settings, const Gate& gate);

/// Checks a call with at least one token and fills in its defaults: no stride is 0 afterwards. What lies in device
/// memory is not looked at; replica maps and global scales in host memory are.
void complete_call(nvfp4r_call& call, const nvfp4r_settings& settings, const Gate& gate);

}  // namespace nvfp4r
