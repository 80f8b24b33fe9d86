// A context of a GPU, and device memory in it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "driver/driver_api.hpp"
#include "plan/plan.hpp"

namespace nvfp4r {

/// The context that the caller works in: the one current to the calling thread where that is on the GPU asked for, so that
/// the caller's pointers and streams are valid in it, else the GPU's primary context, which the CUDA runtime and frameworks
/// use. A primary context is retained while this lives; another one is the caller's, who destroys it later.
class GpuContext {
  public:
    /// Throws NO_DEVICE for an ordinal that is not there, DRIVER_ERROR with the driver's own words otherwise.
    GpuContext(const DriverApi& api, int ordinal);
    ~GpuContext();
    GpuContext(const GpuContext&) = delete;
    GpuContext& operator=(const GpuContext&) = delete;

    const DriverApi& api() const { return api_; }
    CUcontext handle() const { return context_; }
    const DeviceLimits& limits() const { return limits_; }

  private:
    const DriverApi& api_;
    CUdevice device_ = 0;
    CUcontext context_ = nullptr;
    bool primary_ = true;
    DeviceLimits limits_;
};

/// Makes the context current for a scope. The caller's own current context is what it was, afterwards.
class ContextScope {
  public:
    explicit ContextScope(const GpuContext& context);
    ~ContextScope();
    ContextScope(const ContextScope&) = delete;
    ContextScope& operator=(const ContextScope&) = delete;

  private:
    const GpuContext& context_;
};

/// Allocating and loading are refused while any stream of the process captures in the global mode, unless the thread
/// opts out, as it does while this lives. It is harmless where nothing of it enters a stream that captures.
class RelaxedCapture {
  public:
    explicit RelaxedCapture(const DriverApi& api);
    ~RelaxedCapture();
    RelaxedCapture(const RelaxedCapture&) = delete;
    RelaxedCapture& operator=(const RelaxedCapture&) = delete;

  private:
    const DriverApi& api_;
    CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

/// Device memory. The owner keeps the context alive; freeing enters it.
class DeviceBuffer {
  public:
    DeviceBuffer() = default;
    /// `bytes` may be 0: then nothing is allocated and the address is 0. Enters the context itself.
    DeviceBuffer(std::shared_ptr<const GpuContext> context, uint64_t bytes);
    ~DeviceBuffer();
    DeviceBuffer(DeviceBuffer&& other) noexcept;
    DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;

    CUdeviceptr address() const { return address_; }
    uint64_t bytes() const { return bytes_; }
    template <class T>
    T* as() const {
        return reinterpret_cast<T*>(address_);
    }

  private:
    std::shared_ptr<const GpuContext> context_;
    CUdeviceptr address_ = 0;
    uint64_t bytes_ = 0;
};

/// A buffer that holds a copy of host memory, whichever stream uses it.
template <class T>
DeviceBuffer upload(const std::shared_ptr<const GpuContext>& context, std::span<const T> values) {
    DeviceBuffer buffer(context, values.size_bytes());
    if (values.empty()) return buffer;
    const ContextScope scope(*context);
    check(context->api(), context->api().cuMemcpyHtoD(buffer.address(), values.data(), values.size_bytes()),
          "cuMemcpyHtoD", "{} bytes", values.size_bytes());
    // cuMemcpyHtoD returns while the copy may still be under way in the default stream, and other streams do not wait for
    // that one (CUDA driver API, API synchronization behavior).
    check(context->api(), context->api().cuStreamSynchronize(CU_STREAM_LEGACY), "cuStreamSynchronize", "after a copy");
    return buffer;
}

}  // namespace nvfp4r
