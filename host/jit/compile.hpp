// One compilation by NVRTC, without any cache.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jit/nvrtc.hpp"

namespace nvfp4r {

struct SourceFile {
    std::string name;  // as #include spells it, below ptx/: "isa/mbarrier.cuh"
    std::string text;
};

struct CompileRequest {
    SourceFile source;
    std::vector<SourceFile> headers;   // everything `source` includes, directly or not
    std::vector<std::string> options;  // "-DTOKENS=8", "--maxrregcount=128" ...; the target and the dialect are added
    std::string arch;                  // "sm_90a"
};

struct CompiledKernel {
    std::string cubin;   // for the driver
    std::string ptx;     // for the simulator and for reading
    std::string log;     // NVRTC's and ptxas's remarks; empty when there were none
    std::string origin;  // "compiled", "cache" or "built in"
};

/// A request for a file of ptx/ (`name` as in "router_sm90.cu") with the headers that it reaches. `more_headers` are
/// texts made at run time (a plan as constants) and win over embedded files. Throws INTERNAL when a source or header is
/// missing.
CompileRequest embedded_request(std::string_view name, const std::string& arch, std::vector<std::string> options,
                                std::vector<SourceFile> more_headers = {});

/// The options NVRTC is given for `request`, in order.
std::vector<std::string> compile_options(const CompileRequest& request);

/// Throws COMPILE_ERROR with NVRTC's whole log, and UNSUPPORTED when this NVRTC does not know the target.
CompiledKernel compile(const NvrtcApi& api, const CompileRequest& request);

}  // namespace nvfp4r
