// From a compile request to a loadable kernel by the shortest way: built into the library, on disk, or compiled now.
#pragma once

#include "jit/compile.hpp"
#include "jit/disk_cache.hpp"

namespace nvfp4r {

/// The kernel of `request`; `origin` says which way it came. NVRTC is opened only when the library has no such kernel
/// built in. Throws NO_DEVICE without NVRTC, COMPILE_ERROR, UNSUPPORTED; never because of the cache. Thread safe.
CompiledKernel get_kernel(const CompileRequest& request, const DiskCache& cache);

/// The same with the default cache folder.
CompiledKernel get_kernel(const CompileRequest& request);

}  // namespace nvfp4r
