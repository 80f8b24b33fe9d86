// The simulator's functions, declared from the driver's own types: nvfp4r::sim::driver::cu::cuMemAlloc_v2 and so on. The first
// list is the table of host/driver; the second has what other programs also call, for libcuda_sim.so.
#pragma once

#include <cuda.h>

#include "driver/driver_entries.hpp"

// clang-format off
#define NVFP4R_SIM_MORE_ENTRIES(X)                                                                                   \
    X(cuDeviceGetPCIBusId) X(cuDeviceCanAccessPeer) X(cuDevicePrimaryCtxSetFlags)                                    \
    X(cuCtxGetFlags) X(cuCtxGetApiVersion) X(cuCtxGetLimit) X(cuCtxSetLimit)                         \
    X(cuCtxSetCacheConfig) X(cuCtxGetCacheConfig)                                                                    \
    X(cuModuleLoad) X(cuModuleGetLoadingMode) X(cuLibraryLoadFromFile)                                               \
    X(cuKernelGetName) X(cuKernelGetAttribute) X(cuKernelSetAttribute)                                               \
    X(cuFuncGetName) X(cuFuncGetModule) X(cuFuncSetCacheConfig) X(cuFuncGetParamInfo) X(cuFuncLoad)                  \
    X(cuOccupancyMaxPotentialBlockSize)                                                                              \
    X(cuMemAllocPitch) X(cuMemHostGetFlags) X(cuMemcpy3D) X(cuMemcpy3DAsync)                                         \
    X(cuGraphAddHostNode) X(cuGraphGetRootNodes) X(cuGraphInstantiateWithParams)
// clang-format on

namespace nvfp4r::sim::driver::cu {

#define NVFP4R_DECLARE(name) extern "C++" decltype(::name) name;
NVFP4R_DRIVER_ENTRIES(NVFP4R_DECLARE)
NVFP4R_SIM_MORE_ENTRIES(NVFP4R_DECLARE)
#undef NVFP4R_DECLARE

/// cuCtxCreate, whose versions differ in parameters that mean nothing here.
CUresult create_context(CUcontext* context, unsigned flags, CUdevice device);
/// The version of CUDA 12.5 and on; refuses what only real GPUs have.
CUresult create_context_v4(CUcontext* context, CUctxCreateParams* params, unsigned flags, CUdevice device);

}  // namespace nvfp4r::sim::driver::cu
