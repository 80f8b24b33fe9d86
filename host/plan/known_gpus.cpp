#include "plan/known_gpus.hpp"

#include <algorithm>
#include <vector>

#include "core/error.hpp"

namespace nvfp4r {
namespace {

// Shared memory of compute capabilities 9.0 to 11.0 (CUDA C++ Programming Guide, "Technical Specifications per Compute
// Capability"): 228 KiB a multiprocessor, 1 KiB of it reserved for each CTA.
constexpr uint32_t kSharedSm = 228 << 10, kSharedCta = 227 << 10;

// Rates a multiprocessor and clock. Hopper: 989 TFLOPS of bf16 are 132 x 4096 at 1.83 GHz (H100 white paper). Blackwell:
// 4.87 PFLOPS of NVFP4 were measured by others at 1005 MHz on 148 multiprocessors, which is 32768; bf16 is a quarter.
constexpr double kHopperBf16 = 4096, kBlackwellNvfp4 = 32768, kBlackwellBf16 = kBlackwellNvfp4 / 4;

// Hopper: measured on an H200, 128 CTAs. Blackwell: a B300, by others; Thor is taken to be no faster.
constexpr double kHopperLaunchNs = 600, kBlackwellLaunchNs = 540;

}  // namespace

std::span<const KnownGpu> known_gpus() {
    // Bandwidths are those of the data sheets.
    static const std::vector<KnownGpu> list = {
        {"h200", "90a", {"H200", 9, 0, 132, kSharedCta, kSharedSm}, 1.83, 4800, kHopperBf16, 0, kHopperLaunchNs},
        {"b200",
         "100a",
         {"B200", 10, 0, 148, kSharedCta, kSharedSm},
         1.85,
         8000,
         kBlackwellBf16,
         kBlackwellNvfp4,
         kBlackwellLaunchNs},
        {"b300",
         "103a",
         {"B300", 10, 3, 148, kSharedCta, kSharedSm},
         1.85,
         8000,
         kBlackwellBf16,
         kBlackwellNvfp4,
         kBlackwellLaunchNs},
        {"thor",
         "110a",
         {"Thor", 11, 0, 20, kSharedCta, kSharedSm},
         1.57,
         273,
         kBlackwellBf16,
         kBlackwellNvfp4,
         kBlackwellLaunchNs},
    };
    return list;
}

const KnownGpu& known_gpu(std::string_view name_or_arch) {
    const auto list = known_gpus();
    const auto gpu = std::find_if(list.begin(), list.end(),
                                  [&](const KnownGpu& g) { return g.name == name_or_arch || g.arch == name_or_arch; });
    if (gpu == list.end())
        fail(NVFP4R_INVALID_ARGUMENT, "GPU {}: known are h200 (90a), b200 (100a), b300 (103a) and thor (110a)",
             name_or_arch);
    return *gpu;
}

}  // namespace nvfp4r
