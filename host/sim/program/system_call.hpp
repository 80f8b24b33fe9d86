// vprintf and __assertfail: device functions that a kernel only declares and the driver provides (CUDA C++ Programming
// Guide, "Formatted Output" and "Assertion").
#pragma once

#include "sim/program/link.hpp"

namespace nvfp4r::sim {

bool is_system_call(const Function& prototype);

/// The one instruction that such a function consists of. Its arguments lie in the function's frame.
Instr decode_system_call(const LinkedFunction& linked);

}  // namespace nvfp4r::sim
