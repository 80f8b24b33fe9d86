// Every instruction family, one line each. A family defines `extern const Family <name>_family` in a file of its own.
#pragma once

#include "sim/program/instr.hpp"

// clang-format off
#define NVFP4R_SIM_FAMILIES(X) \
    X(control) \
    X(load_store)
// clang-format on

namespace nvfp4r::sim {

#define X(name) extern const Family name##_family;
NVFP4R_SIM_FAMILIES(X)
#undef X

}  // namespace nvfp4r::sim
