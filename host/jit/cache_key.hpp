// What names a compiled kernel: a digest of everything that can change its bytes.
#pragma once

#include <string>

#include "jit/compile.hpp"

namespace nvfp4r {

/// Raised when the form of cache entries or of keys changes, so that entries of older libraries are never read.
inline constexpr int kCacheFormat = 1;

/// Digest of source, headers, options and architecture: names kernels built into the library, which belong to no NVRTC
/// at hand.
std::string request_key(const CompileRequest& request);

/// The same with the compiler's version ("13.0"): names entries of the disk cache.
std::string cache_key(const CompileRequest& request, const std::string& nvrtc_version);

}  // namespace nvfp4r
