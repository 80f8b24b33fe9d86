#include "launch/context.hpp"

#include <utility>

namespace nvfp4r {
namespace {

uint32_t attribute(const DriverApi& api, CUdevice device, CUdevice_attribute which, const char* name) {
    int value = 0;
    check(api, api.cuDeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute", "{}", name);
    return static_cast<uint32_t>(value);
}

/// The calling thread's current context if it is on the device and not its primary one, else nullptr.
CUcontext callers_own_context(const DriverApi& api, CUdevice device) {
    CUcontext current = nullptr, primary = nullptr;
    CUdevice on = 0;
    if (api.cuCtxGetCurrent(&current) != CUDA_SUCCESS || current == nullptr) return nullptr;
    if (api.cuCtxGetDevice(&on) != CUDA_SUCCESS || on != device) return nullptr;
    unsigned flags = 0;
    int active = 0;
    check(api, api.cuDevicePrimaryCtxGetState(device, &flags, &active), "cuDevicePrimaryCtxGetState");
    if (active == 0) return current;
    // The handle of a primary context is known only while it is retained.
    check(api, api.cuDevicePrimaryCtxRetain(&primary, device), "cuDevicePrimaryCtxRetain");
    check(api, api.cuDevicePrimaryCtxRelease(device), "cuDevicePrimaryCtxRelease");
    return current == primary ? nullptr : current;
}

}  // namespace

GpuContext::GpuContext(const DriverApi& api, int ordinal) : api_(api) {
    int count = 0;
    check(api, api.cuDeviceGetCount(&count), "cuDeviceGetCount");
    if (ordinal < 0 || ordinal >= count)
        fail(NVFP4R_NO_DEVICE, "options.ordinal {}: {} has {} device{}", ordinal, api.origin, count,
             count == 1 ? "" : "s");
    check(api, api.cuDeviceGet(&device_, ordinal), "cuDeviceGet", "device {}", ordinal);
    char name[256] = {};
    check(api, api.cuDeviceGetName(name, sizeof(name) - 1, device_), "cuDeviceGetName", "device {}", ordinal);
    limits_.name = name;
    limits_.major = static_cast<int>(attribute(api, device_, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, "major"));
    limits_.minor = static_cast<int>(attribute(api, device_, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, "minor"));
    limits_.multiprocessors = attribute(api, device_, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, "multiprocessors");
    limits_.shared_bytes_cta =
        attribute(api, device_, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, "shared memory");
    limits_.shared_bytes_sm =
        attribute(api, device_, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, "shared memory");
    context_ = callers_own_context(api, device_);
    primary_ = context_ == nullptr;
    if (primary_)
        check(api, api.cuDevicePrimaryCtxRetain(&context_, device_), "cuDevicePrimaryCtxRetain", "device {}", ordinal);
}

GpuContext::~GpuContext() {
    if (primary_) api_.cuDevicePrimaryCtxRelease(device_);
}

ContextScope::ContextScope(const GpuContext& context) : context_(context) {
    check(context.api(), context.api().cuCtxPushCurrent(context.handle()), "cuCtxPushCurrent");
}

ContextScope::~ContextScope() {
    CUcontext popped = nullptr;
    context_.api().cuCtxPopCurrent(&popped);
}

RelaxedCapture::RelaxedCapture(const DriverApi& api) : api_(api) {
    check(api_, api_.cuThreadExchangeStreamCaptureMode(&mode_), "cuThreadExchangeStreamCaptureMode");
}

RelaxedCapture::~RelaxedCapture() {
    api_.cuThreadExchangeStreamCaptureMode(&mode_);
}

DeviceBuffer::DeviceBuffer(std::shared_ptr<const GpuContext> context, uint64_t bytes)
    : context_(std::move(context)), bytes_(bytes) {
    if (bytes == 0) return;
    const ContextScope scope(*context_);
    check(context_->api(), context_->api().cuMemAlloc(&address_, bytes), "cuMemAlloc", "{} bytes", bytes);
}

DeviceBuffer::~DeviceBuffer() {
    if (address_ == 0) return;
    // A destructor reports nothing: after a device fault the context refuses every call anyway.
    const DriverApi& api = context_->api();
    if (api.cuCtxPushCurrent(context_->handle()) != CUDA_SUCCESS) return;
    api.cuMemFree(address_);
    CUcontext popped = nullptr;
    api.cuCtxPopCurrent(&popped);
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : context_(std::move(other.context_)),
      address_(std::exchange(other.address_, 0)),
      bytes_(std::exchange(other.bytes_, 0)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    return *this;
}

}  // namespace nvfp4r
