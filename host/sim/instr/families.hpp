// Every instruction family, one line each. A family defines `extern const Family <name>_family` in a file of its own.
#pragma once

#include "sim/program/instr.hpp"

// clang-format off
#define NVFP4R_SIM_FAMILIES(X) \
    X(control) \
    X(load_store) \
    X(tcgen05_alloc) \
    X(tcgen05_cp) \
    X(tcgen05_ld_st) \
    X(tcgen05_mma) \
    X(tcgen05_sync) \
    X(cp_async) \
    X(cp_async_bulk) \
    X(cp_async_bulk_tensor) \
    X(st_async) \
    X(st_bulk) \
    X(ldmatrix) \
    X(mma_sync) \
    X(wgmma)
// clang-format on

namespace nvfp4r::sim {

#define X(name) extern const Family name##_family;
NVFP4R_SIM_FAMILIES(X)
#undef X

}  // namespace nvfp4r::sim
