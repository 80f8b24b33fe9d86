// Which kernels and which NVRTC target a GPU takes.
#pragma once

#include <string>

namespace nvfp4r {

/// The tensor-core family a kernel is written for.
enum class KernelFamily { kWgmma, kTcgen05 };

struct Target {
    std::string arch;     // NVRTC's name: "sm_90a"
    KernelFamily family;  // which source: router_sm90.cu or router_sm100.cu
};

/// The target for compute capability major.minor: 9.0, 10.0, 10.3 and 11.0. The architecture-specific ("a") targets are
/// used because wgmma and the block-scaled tcgen05.mma exist only there, and such code runs on exactly that capability.
/// Throws UNSUPPORTED for every other one, with the reason.
Target target_for(int major, int minor);

/// The same by name: "90a", "sm_90a" (and 100a, 103a, 110a). Throws INVALID_ARGUMENT for other names.
Target target_named(const std::string& name);

}  // namespace nvfp4r
