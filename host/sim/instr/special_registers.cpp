// Reading special registers (PTX ISA 10).
#include "sim/instr/lanes.hpp"
#include "sim/machine/machine.hpp"
#include "sim/ptx/special_register.hpp"

namespace nvfp4r::sim {

namespace {

constexpr uint64_t kCyclesPerNanosecond = 2;  // of the simulated clock, about what an SM runs at

uint64_t block_value(const Warp& warp, SpecialRegister which) {
    const Cta& cta = *warp.cta;
    const GridLaunch& launch = *cta.grid->launch;
    const Dim3 &block = launch.block, &grid = launch.grid, &cluster = launch.cluster;
    Machine& machine = cta.machine();
    switch (which) {
        case SpecialRegister::ntid_x: return block.x;
        case SpecialRegister::ntid_y: return block.y;
        case SpecialRegister::ntid_z: return block.z;
        case SpecialRegister::ctaid_x: return cta.id.x;
        case SpecialRegister::ctaid_y: return cta.id.y;
        case SpecialRegister::ctaid_z: return cta.id.z;
        case SpecialRegister::nctaid_x: return grid.x;
        case SpecialRegister::nctaid_y: return grid.y;
        case SpecialRegister::nctaid_z: return grid.z;
        case SpecialRegister::warpid: return warp.index;
        case SpecialRegister::nwarpid: return machine.config().threads_per_sm / kLanes;
        case SpecialRegister::smid: return cta.sm;
        case SpecialRegister::nsmid: return machine.config().sms;
        case SpecialRegister::gridid: return cta.grid->index;
        case SpecialRegister::clock: return static_cast<uint32_t>(warp.time);
        case SpecialRegister::clock_hi: return warp.time >> 32;
        case SpecialRegister::clock64: return warp.time;
        case SpecialRegister::globaltimer: return warp.time / kCyclesPerNanosecond;
        case SpecialRegister::globaltimer_lo: return static_cast<uint32_t>(warp.time / kCyclesPerNanosecond);
        case SpecialRegister::globaltimer_hi: return warp.time / kCyclesPerNanosecond >> 32;
        // Position in the cluster and of the cluster in the grid; without clusters each CTA is one of its own.
        case SpecialRegister::cluster_ctaid_x: return cta.id.x % cluster.x;
        case SpecialRegister::cluster_ctaid_y: return cta.id.y % cluster.y;
        case SpecialRegister::cluster_ctaid_z: return cta.id.z % cluster.z;
        case SpecialRegister::cluster_nctaid_x: return cluster.x;
        case SpecialRegister::cluster_nctaid_y: return cluster.y;
        case SpecialRegister::cluster_nctaid_z: return cluster.z;
        case SpecialRegister::cluster_ctarank: return cta.rank;
        case SpecialRegister::cluster_nctarank: return cluster.count();
        case SpecialRegister::clusterid_x: return cta.id.x / cluster.x;
        case SpecialRegister::clusterid_y: return cta.id.y / cluster.y;
        case SpecialRegister::clusterid_z: return cta.id.z / cluster.z;
        case SpecialRegister::nclusterid_x: return grid.x / cluster.x;
        case SpecialRegister::nclusterid_y: return grid.y / cluster.y;
        case SpecialRegister::nclusterid_z: return grid.z / cluster.z;
        case SpecialRegister::is_explicit_cluster: return launch.explicit_cluster;
        case SpecialRegister::dynamic_smem_size: return launch.dynamic_shared;
        case SpecialRegister::total_smem_size: return cta.grid->shared_bytes - kSharedReserved;
        case SpecialRegister::aggr_smem_size: return cta.grid->shared_bytes;
        case SpecialRegister::reserved_smem_offset_begin: return 0;  // the system has the first KiB of the window
        case SpecialRegister::reserved_smem_offset_end:
        case SpecialRegister::reserved_smem_offset_cap: return kSharedReserved;
        default: return 0;
    }
}

uint64_t lane_value(const Warp& warp, SpecialRegister which, uint32_t lane) {
    switch (which) {
        case SpecialRegister::tid_x: return warp.thread(lane).x;
        case SpecialRegister::tid_y: return warp.thread(lane).y;
        case SpecialRegister::tid_z: return warp.thread(lane).z;
        case SpecialRegister::laneid: return lane;
        case SpecialRegister::lanemask_eq: return 1u << lane;
        case SpecialRegister::lanemask_le: return (uint64_t{2} << lane) - 1;
        case SpecialRegister::lanemask_lt: return (uint64_t{1} << lane) - 1;
        case SpecialRegister::lanemask_ge: return static_cast<uint32_t>(~uint64_t{0} << lane);
        default: return static_cast<uint32_t>(~uint64_t{1} << lane);
    }
}

bool differs_by_lane(SpecialRegister which) {
    switch (which) {
        case SpecialRegister::tid_x:
        case SpecialRegister::tid_y:
        case SpecialRegister::tid_z:
        case SpecialRegister::laneid:
        case SpecialRegister::lanemask_eq:
        case SpecialRegister::lanemask_le:
        case SpecialRegister::lanemask_lt:
        case SpecialRegister::lanemask_ge:
        case SpecialRegister::lanemask_gt: return true;
        default: return false;
    }
}

}  // namespace

void read_special(const Warp& warp, uint32_t which, Lanes& out, LaneMask lanes) {
    const auto special = static_cast<SpecialRegister>(which);
    if (differs_by_lane(special)) {
        for_lanes(lanes, [&](uint32_t lane) { out[lane] = lane_value(warp, special, lane); });
    } else {
        out.fill(block_value(warp, special));
    }
}

}  // namespace nvfp4r::sim
