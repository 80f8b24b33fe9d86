// A plan as a request to the run-time compiler.
#pragma once

#include <string>

#include "jit/compile.hpp"
#include "plan/plan.hpp"

namespace nvfp4r {

/// The entry of every kernel source.
inline constexpr const char* kKernelEntry = "nvfp4_router";

/// `arch`: "sm_90a".
CompileRequest kernel_request(const Plan& plan, const std::string& arch);

}  // namespace nvfp4r
