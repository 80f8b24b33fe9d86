// Waits that nothing can end because the phase they mean is over: for deadlock reports.
#pragma once

#include "sim/machine/machine.hpp"

namespace nvfp4r::sim {

/// A blocked lane waits by parity for the next phase after the last it knows of, but the mbarrier is already two phases
/// further, where the same parity means another phase (PTX ISA 9.7.13.15.16).
bool waits_for_stale_phase(const Warp& warp);

}  // namespace nvfp4r::sim
