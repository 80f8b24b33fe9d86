// Special registers (PTX ISA 10): the predefined, read-only registers that start with %.
#pragma once

#include <cstdint>
#include <string_view>

namespace nvfp4r::sim {

// name as in PTX (components with their .x), enumerator, bits
#define NVFP4R_SIM_SPECIAL_REGISTERS(X)                              \
    X("%tid.x", tid_x, 32)                                           \
    X("%tid.y", tid_y, 32)                                           \
    X("%tid.z", tid_z, 32)                                           \
    X("%ntid.x", ntid_x, 32)                                         \
    X("%ntid.y", ntid_y, 32)                                         \
    X("%ntid.z", ntid_z, 32)                                         \
    X("%ctaid.x", ctaid_x, 32)                                       \
    X("%ctaid.y", ctaid_y, 32)                                       \
    X("%ctaid.z", ctaid_z, 32)                                       \
    X("%nctaid.x", nctaid_x, 32)                                     \
    X("%nctaid.y", nctaid_y, 32)                                     \
    X("%nctaid.z", nctaid_z, 32)                                     \
    X("%laneid", laneid, 32)                                         \
    X("%warpid", warpid, 32)                                         \
    X("%nwarpid", nwarpid, 32)                                       \
    X("%smid", smid, 32)                                             \
    X("%nsmid", nsmid, 32)                                           \
    X("%gridid", gridid, 64)                                         \
    X("%lanemask_eq", lanemask_eq, 32)                               \
    X("%lanemask_le", lanemask_le, 32)                               \
    X("%lanemask_lt", lanemask_lt, 32)                               \
    X("%lanemask_ge", lanemask_ge, 32)                               \
    X("%lanemask_gt", lanemask_gt, 32)                               \
    X("%clock", clock, 32)                                           \
    X("%clock_hi", clock_hi, 32)                                     \
    X("%clock64", clock64, 64)                                       \
    X("%globaltimer", globaltimer, 64)                               \
    X("%globaltimer_lo", globaltimer_lo, 32)                         \
    X("%globaltimer_hi", globaltimer_hi, 32)                         \
    X("%cluster_ctaid.x", cluster_ctaid_x, 32)                       \
    X("%cluster_ctaid.y", cluster_ctaid_y, 32)                       \
    X("%cluster_ctaid.z", cluster_ctaid_z, 32)                       \
    X("%cluster_nctaid.x", cluster_nctaid_x, 32)                     \
    X("%cluster_nctaid.y", cluster_nctaid_y, 32)                     \
    X("%cluster_nctaid.z", cluster_nctaid_z, 32)                     \
    X("%cluster_ctarank", cluster_ctarank, 32)                       \
    X("%cluster_nctarank", cluster_nctarank, 32)                     \
    X("%clusterid.x", clusterid_x, 32)                               \
    X("%clusterid.y", clusterid_y, 32)                               \
    X("%clusterid.z", clusterid_z, 32)                               \
    X("%nclusterid.x", nclusterid_x, 32)                             \
    X("%nclusterid.y", nclusterid_y, 32)                             \
    X("%nclusterid.z", nclusterid_z, 32)                             \
    X("%is_explicit_cluster", is_explicit_cluster, 1)                \
    X("%dynamic_smem_size", dynamic_smem_size, 32)                   \
    X("%total_smem_size", total_smem_size, 32)                       \
    X("%aggr_smem_size", aggr_smem_size, 32)                         \
    X("%reserved_smem_offset_begin", reserved_smem_offset_begin, 32) \
    X("%reserved_smem_offset_end", reserved_smem_offset_end, 32)     \
    X("%reserved_smem_offset_cap", reserved_smem_offset_cap, 32)

enum class SpecialRegister : uint32_t {
#define X(text, name, bits) name,
    NVFP4R_SIM_SPECIAL_REGISTERS(X)
#undef X
};

/// False when there is no such register here (%envreg, %pm and the like are not modelled).
bool find_special_register(std::string_view text, SpecialRegister& found);
std::string_view special_register_name(SpecialRegister which);
uint32_t special_register_bits(SpecialRegister which);

}  // namespace nvfp4r::sim
