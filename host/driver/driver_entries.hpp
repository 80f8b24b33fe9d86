// The CUDA driver API functions that the library, its benchmarks and its tests call. Adding one is adding a line here:
// both providers (libcuda.so.1 and the simulator) are bound from this list.
#pragma once

// clang-format off
#define NVFP4R_DRIVER_ENTRIES(X)                                                                                     \
    /* start and errors */                                                                                           \
    X(cuInit) X(cuDriverGetVersion) X(cuGetErrorName) X(cuGetErrorString)                                            \
    /* devices */                                                                                                    \
    X(cuDeviceGet) X(cuDeviceGetCount) X(cuDeviceGetName) X(cuDeviceGetUuid) X(cuDeviceTotalMem)                     \
    X(cuDeviceGetAttribute)                                                                                          \
    /* contexts */                                                                                                   \
    X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuDevicePrimaryCtxGetState)                           \
    X(cuDevicePrimaryCtxReset) X(cuCtxGetCurrent) X(cuCtxSetCurrent) X(cuCtxPushCurrent) X(cuCtxPopCurrent)          \
    X(cuCtxDestroy) X(cuCtxGetDevice) X(cuCtxSynchronize) X(cuCtxGetStreamPriorityRange)                                             \
    /* modules, libraries, functions */                                                                              \
    X(cuModuleLoadData) X(cuModuleLoadDataEx) X(cuModuleUnload) X(cuModuleGetFunction) X(cuModuleGetGlobal)          \
    X(cuLibraryLoadData) X(cuLibraryUnload) X(cuLibraryGetKernel) X(cuLibraryGetModule) X(cuLibraryGetGlobal)        \
    X(cuKernelGetFunction) X(cuFuncGetAttribute) X(cuFuncSetAttribute)                                               \
    /* occupancy */                                                                                                  \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor) X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)           \
    X(cuOccupancyMaxActiveClusters) X(cuOccupancyMaxPotentialClusterSize)                                            \
    X(cuOccupancyAvailableDynamicSMemPerBlock)                                                                       \
    /* memory */                                                                                                     \
    X(cuMemAlloc) X(cuMemFree) X(cuMemAllocAsync) X(cuMemFreeAsync) X(cuMemAllocManaged) X(cuMemAllocHost)           \
    X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemHostRegister) X(cuMemHostUnregister) X(cuMemHostGetDevicePointer)      \
    X(cuMemGetInfo) X(cuMemGetAddressRange) X(cuPointerGetAttribute) X(cuPointerGetAttributes)                       \
    X(cuMemcpy) X(cuMemcpyAsync) X(cuMemcpyHtoD) X(cuMemcpyDtoH) X(cuMemcpyDtoD)                                     \
    X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) X(cuMemcpyDtoDAsync) X(cuMemcpy2D) X(cuMemcpy2DAsync)                  \
    X(cuMemsetD8) X(cuMemsetD16) X(cuMemsetD32) X(cuMemsetD8Async) X(cuMemsetD16Async) X(cuMemsetD32Async)           \
    /* streams */                                                                                                    \
    X(cuStreamCreate) X(cuStreamCreateWithPriority) X(cuStreamDestroy) X(cuStreamSynchronize) X(cuStreamQuery)       \
    X(cuStreamWaitEvent) X(cuStreamGetPriority) X(cuStreamGetFlags) X(cuStreamGetCtx) X(cuStreamGetId)               \
    X(cuStreamBeginCapture) X(cuStreamEndCapture) X(cuStreamIsCapturing) X(cuThreadExchangeStreamCaptureMode)        \
    X(cuLaunchHostFunc)                                                                                              \
    /* events */                                                                                                     \
    X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) X(cuEventRecordWithFlags) X(cuEventQuery)                    \
    X(cuEventSynchronize) X(cuEventElapsedTime)                                                                      \
    /* graphs */                                                                                                     \
    X(cuGraphCreate) X(cuGraphDestroy) X(cuGraphClone) X(cuGraphAddKernelNode) X(cuGraphAddEmptyNode)                \
    X(cuGraphAddMemsetNode) X(cuGraphAddMemcpyNode) X(cuGraphGetNodes) X(cuGraphNodeGetType)                         \
    X(cuGraphKernelNodeGetParams) X(cuGraphKernelNodeSetParams) X(cuGraphExecKernelNodeSetParams) X(cuGraphInstantiateWithFlags)                   \
    X(cuGraphExecUpdate) X(cuGraphUpload) X(cuGraphLaunch) X(cuGraphExecDestroy)                                     \
    /* launches and tensor maps */                                                                                   \
    X(cuLaunchKernel) X(cuLaunchKernelEx) X(cuLaunchCooperativeKernel)                                               \
    X(cuTensorMapEncodeTiled) X(cuTensorMapEncodeIm2col) X(cuTensorMapReplaceAddress)
// clang-format on
