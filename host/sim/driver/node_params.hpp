// Kernel nodes from the driver's description of them.
#pragma once

#include "sim/driver/state.hpp"

namespace nvfp4r::sim::driver {

CUfunc_st& node_function(Call& call, const CUDA_KERNEL_NODE_PARAMS& params);
KernelWork kernel_node_work(Call& call, const CUDA_KERNEL_NODE_PARAMS& params);

/// `old` with new parameters. They carry no attributes: a cluster given when the node was captured stays.
KernelWork with_parameters(Call& call, const KernelWork& old, const CUDA_KERNEL_NODE_PARAMS& params);
/// The node of any live graph, or INVALID_VALUE.
CUgraphNode_st& existing_node(CUgraphNode handle);

}  // namespace nvfp4r::sim::driver
