#include "sim/check/report.hpp"

namespace nvfp4r::sim {

std::string_view finding_name(FindingKind kind) {
    static constexpr std::string_view kNames[] = {
#define X(name, text) text,
        NVFP4R_SIM_FINDINGS(X)
#undef X
    };
    return kNames[static_cast<size_t>(kind)];
}

}  // namespace nvfp4r::sim
