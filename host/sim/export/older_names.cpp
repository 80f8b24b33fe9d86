// Names that programs built with other toolkits use for the same functions. Weak: where the header in use has one of them as
// its current name, that one is exported already.
#include "sim/driver/entries.hpp"

namespace {

constexpr auto elapsed_time = &nvfp4r::sim::driver::cu::cuEventElapsedTime;
constexpr auto device_uuid = &nvfp4r::sim::driver::cu::cuDeviceGetUuid;
constexpr auto create_context = &nvfp4r::sim::driver::cu::create_context;
constexpr auto create_context_v4 = &nvfp4r::sim::driver::cu::create_context_v4;

}  // namespace

// cuda.h turns the plain names into its current versions.
#undef cuEventElapsedTime
#undef cuDeviceGetUuid

extern "C" {

__attribute__((weak)) CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
    return elapsed_time(milliseconds, start, end);
}
__attribute__((weak)) CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
    return device_uuid(uuid, device);
}
__attribute__((weak)) CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
    return device_uuid(uuid, device);
}

// The versions of cuCtxCreate differ in what only real GPUs have.
__attribute__((weak)) CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device) {
    return create_context(context, flags, device);
}
__attribute__((weak)) CUresult cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam*, int, unsigned flags,
                                              CUdevice device) {
    return create_context(context, flags, device);
}
__attribute__((weak)) CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams* params, unsigned flags,
                                              CUdevice device) {
    return create_context_v4(context, params, flags, device);
}

}  // extern "C"
