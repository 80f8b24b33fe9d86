// Every instruction family, one line each. A family defines `extern const Family <name>_family` in a file of its own.
#pragma once

#include "sim/program/instr.hpp"

// clang-format off
#define NVFP4R_SIM_FAMILIES(X) \
    X(activemask) \
    X(applypriority) \
    X(atomic) \
    X(barrier) \
    X(bit_field) \
    X(cluster_barrier) \
    X(control) \
    X(convert) \
    X(convert_pack) \
    X(convert_packed) \
    X(cp_async) \
    X(cp_async_bulk) \
    X(cp_async_bulk_tensor) \
    X(createpolicy) \
    X(cvta) \
    X(discard) \
    X(elect) \
    X(extended_precision) \
    X(fence) \
    X(float_arithmetic) \
    X(float_min_max) \
    X(griddepcontrol) \
    X(half) \
    X(integer) \
    X(isspacep) \
    X(ldmatrix) \
    X(load_store) \
    X(logic) \
    X(mapa) \
    X(match) \
    X(mbarrier) \
    X(mma_sync) \
    X(move) \
    X(nanosleep) \
    X(predicate) \
    X(prefetch) \
    X(redux) \
    X(setmaxnreg) \
    X(shuffle) \
    X(st_async) \
    X(st_bulk) \
    X(tcgen05_alloc) \
    X(tcgen05_cp) \
    X(tcgen05_ld_st) \
    X(tcgen05_mma) \
    X(tcgen05_sync) \
    X(transcendental) \
    X(vote) \
    X(warp_sync) \
    X(wgmma)
// clang-format on

namespace nvfp4r::sim {

#define X(name) extern const Family name##_family;
NVFP4R_SIM_FAMILIES(X)
#undef X

}  // namespace nvfp4r::sim
