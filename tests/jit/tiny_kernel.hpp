// A small kernel with one header, as the compiler's and the cache's tests need it.
#pragma once

#include "jit/compile.hpp"

namespace nvfp4r::test {

inline CompileRequest tiny_request(const std::string& arch = "sm_90a") {
    CompileRequest request;
    request.source = {"tiny.cu",
                      "#include \"tiny.cuh\"\n"
                      "extern \"C\" __global__ void tiny(float* x) { x[threadIdx.x] *= kFactor; }\n"};
    request.headers = {{"tiny.cuh", "constexpr float kFactor = FACTOR;\n"}};
    request.options = {"-DFACTOR=3.0f"};
    request.arch = arch;
    return request;
}

}  // namespace nvfp4r::test
