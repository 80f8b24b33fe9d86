#include "jit/target.hpp"

#include <array>

#include "core/error.hpp"

namespace nvfp4r {

namespace {

struct KnownTarget {
    int major, minor;
    const char* arch;
    KernelFamily family;
};

constexpr std::array kTargets = {
    KnownTarget{9, 0, "sm_90a", KernelFamily::kWgmma},      // H100, H200, GH200
    KnownTarget{10, 0, "sm_100a", KernelFamily::kTcgen05},  // B200, GB200
    KnownTarget{10, 3, "sm_103a", KernelFamily::kTcgen05},  // B300, GB300
    KnownTarget{11, 0, "sm_110a", KernelFamily::kTcgen05},  // Thor; named sm_101a before CUDA 13
};

}  // namespace

Target target_for(int major, int minor) {
    for (const KnownTarget& known : kTargets) {
        if (known.major == major && known.minor == minor) return {known.arch, known.family};
    }
    // sm_120 and sm_121 have neither wgmma nor tensor memory (PTX ISA, target notes of tcgen05), whatever their number
    // says.
    const char* reason = major == 12 ? "it has no tcgen05 and no wgmma"
                         : major < 9 ? "it has no FP4, wgmma or tcgen05 path"
                                     : "no kernel here was written for it";
    fail(NVFP4R_UNSUPPORTED,
         "compute capability {}.{}: {}; supported are 9.0, 10.0, 10.3 and 11.0, or use the cpu or sim device", major,
         minor, reason);
}

Target target_named(const std::string& name) {
    for (const KnownTarget& known : kTargets) {
        if (name == known.arch || "sm_" + name == known.arch) return {known.arch, known.family};
    }
    fail(NVFP4R_INVALID_ARGUMENT, "architecture {}: known are 90a, 100a, 103a and 110a", name);
}

}  // namespace nvfp4r
