#include "jit/cache_key.hpp"

#include "jit/sha256.hpp"

namespace nvfp4r {

std::string request_key(const CompileRequest& request) {
    Sha256 digest;
    digest.field(std::to_string(kCacheFormat)).field(request.source.name).field(request.source.text);
    digest.field(std::to_string(request.headers.size()));
    for (const SourceFile& header : request.headers) digest.field(header.name).field(header.text);
    for (const std::string& option : compile_options(request)) digest.field(option);  // the architecture is one of them
    return digest.hex();
}

std::string cache_key(const CompileRequest& request, const std::string& nvrtc_version) {
    return Sha256().field(request_key(request)).field(nvrtc_version).hex();
}

}  // namespace nvfp4r
