#include "plan/kernel_request.hpp"

namespace nvfp4r {

CompileRequest kernel_request(const Plan& plan, const std::string& arch) {
    return embedded_request(plan.source, arch, {}, {{"kernel_plan.h", kernel_plan_header(plan.kernel)}});
}

}  // namespace nvfp4r
