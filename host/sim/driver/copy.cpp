// Copies and fills. Blocking forms run in the legacy stream and wait for it.
#include "sim/driver/copy.hpp"

#include "sim/driver/capture.hpp"
#include "sim/driver/entries.hpp"
#include "sim/driver/perform.hpp"
#include "sim/driver/queue.hpp"

namespace nvfp4r::sim::driver {

namespace {

uint64_t side_address(CUmemorytype type, const void* host, CUdeviceptr device) {
    switch (type) {
        case CU_MEMORYTYPE_HOST: return reinterpret_cast<uint64_t>(host);
        case CU_MEMORYTYPE_DEVICE:
        case CU_MEMORYTYPE_UNIFIED: return device;
        case CU_MEMORYTYPE_ARRAY: refuse(CUDA_ERROR_NOT_SUPPORTED, "arrays are not simulated");
        default: refuse(CUDA_ERROR_INVALID_VALUE, "memory type {}", static_cast<int>(type));
    }
}

}  // namespace

CopyWork copy_work(const CUDA_MEMCPY3D* p) {
    require_pointer(p, "pCopy");
    CopyWork copy;
    copy.width = p->WidthInBytes;
    copy.height = p->Height;
    copy.depth = p->Depth;
    copy.to_pitch = p->dstPitch != 0 ? p->dstPitch : p->WidthInBytes;
    copy.from_pitch = p->srcPitch != 0 ? p->srcPitch : p->WidthInBytes;
    if (copy.to_pitch < copy.width || copy.from_pitch < copy.width)
        refuse(CUDA_ERROR_INVALID_VALUE, "rows of {} bytes do not fit pitches {} and {}", copy.width, copy.from_pitch,
               copy.to_pitch);
    copy.to_slice = copy.to_pitch * (p->dstHeight != 0 ? p->dstHeight : p->Height);
    copy.from_slice = copy.from_pitch * (p->srcHeight != 0 ? p->srcHeight : p->Height);
    copy.to = side_address(p->dstMemoryType, p->dstHost, p->dstDevice) + p->dstZ * copy.to_slice +
              p->dstY * copy.to_pitch + p->dstXInBytes;
    copy.from = side_address(p->srcMemoryType, p->srcHost, p->srcDevice) + p->srcZ * copy.from_slice +
                p->srcY * copy.from_pitch + p->srcXInBytes;
    return copy;
}

}  // namespace nvfp4r::sim::driver

namespace nvfp4r::sim::driver::cu {

namespace {

bool is_pageable(uint64_t address) {
    return find_allocation(address) == nullptr;
}

uint64_t extent(const CopyWork& copy) {
    return (copy.depth - 1) * copy.from_slice + (copy.height - 1) * copy.from_pitch + copy.width;
}

/// The driver takes pageable sources away before an asynchronous call returns and waits for copies into pageable memory
/// ("API synchronization behavior" of the driver manual); pinned memory is read and written when the stream gets there.
void copy_async(Call& call, CUstream handle, CopyWork copy) {
    CUstream_st& stream = stream_of(call, handle);
    check_copy(copy);
    if (copy.width == 0 || copy.height == 0 || copy.depth == 0) return;
    if (stream.capture) {
        enqueue(call, stream, std::move(copy));  // a graph copies from where the memory is when it runs
        return;
    }
    if (is_pageable(copy.from)) {
        const auto* bytes = reinterpret_cast<const uint8_t*>(copy.from);
        copy.staged = std::make_shared<std::vector<uint8_t>>(bytes, bytes + extent(copy));
    }
    const bool wait = is_pageable(copy.to);
    enqueue(call, stream, std::move(copy));
    if (wait) synchronise(call);
}

void copy_now(Call& call, CopyWork copy) {
    refuse_during_capture(call);
    check_copy(copy);
    if (copy.width == 0 || copy.height == 0 || copy.depth == 0) return;
    enqueue(call, stream_of(call, nullptr), std::move(copy));
    synchronise(call);
}

CopyWork linear(uint64_t to, uint64_t from, size_t bytes) {
    CopyWork copy;
    copy.to = to;
    copy.from = from;
    copy.width = bytes;
    return copy;
}

uint64_t address_of(const void* pointer) {
    return reinterpret_cast<uint64_t>(pointer);
}

/// Device sides of the typed copies must be device memory; with unified addresses pinned memory has one too.
CopyWork to_device(CUdeviceptr to, const void* from, size_t bytes) {
    require_device_range(to, bytes, "dstDevice");
    return linear(to, address_of(from), bytes);
}
CopyWork to_host(void* to, CUdeviceptr from, size_t bytes) {
    require_device_range(from, bytes, "srcDevice");
    return linear(address_of(to), from, bytes);
}
CopyWork within_device(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    require_device_range(to, bytes, "dstDevice");
    require_device_range(from, bytes, "srcDevice");
    return linear(to, from, bytes);
}

/// A plane is one slice.
CopyWork plane_work(const CUDA_MEMCPY2D* p) {
    require_pointer(p, "pCopy");
    CUDA_MEMCPY3D whole = {};
    whole.srcXInBytes = p->srcXInBytes;
    whole.srcY = p->srcY;
    whole.srcMemoryType = p->srcMemoryType;
    whole.srcHost = p->srcHost;
    whole.srcDevice = p->srcDevice;
    whole.srcPitch = p->srcPitch;
    whole.dstXInBytes = p->dstXInBytes;
    whole.dstY = p->dstY;
    whole.dstMemoryType = p->dstMemoryType;
    whole.dstHost = p->dstHost;
    whole.dstDevice = p->dstDevice;
    whole.dstPitch = p->dstPitch;
    whole.WidthInBytes = p->WidthInBytes;
    whole.Height = p->Height;
    whole.Depth = 1;
    return copy_work(&whole);
}

void fill_async(Call& call, CUstream stream, FillWork fill) {
    check_fill(fill);
    if (fill.width == 0 || fill.height == 0) return;
    enqueue(call, stream_of(call, stream), fill);
}

FillWork linear_fill(CUdeviceptr to, uint32_t value, uint32_t element_bytes, size_t count) {
    FillWork fill;
    fill.to = to;
    fill.value = value;
    fill.element_bytes = element_bytes;
    fill.width = count;
    return fill;
}

}  // namespace

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return in_context("cuMemcpy", [&](Call& call) { copy_now(call, linear(to, from, bytes)); });
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return in_context("cuMemcpyAsync", [&](Call& call) { copy_async(call, stream, linear(to, from, bytes)); });
}
CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
    return in_context("cuMemcpyHtoD", [&](Call& call) { copy_now(call, to_device(to, from, bytes)); });
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
    return in_context("cuMemcpyHtoDAsync", [&](Call& call) { copy_async(call, stream, to_device(to, from, bytes)); });
}
CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
    return in_context("cuMemcpyDtoH", [&](Call& call) { copy_now(call, to_host(to, from, bytes)); });
}
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return in_context("cuMemcpyDtoHAsync", [&](Call& call) { copy_async(call, stream, to_host(to, from, bytes)); });
}
CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    return in_context("cuMemcpyDtoD", [&](Call& call) { copy_now(call, within_device(to, from, bytes)); });
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return in_context("cuMemcpyDtoDAsync",
                      [&](Call& call) { copy_async(call, stream, within_device(to, from, bytes)); });
}
CUresult cuMemcpy2D(const CUDA_MEMCPY2D* parameters) {
    return in_context("cuMemcpy2D", [&](Call& call) { copy_now(call, plane_work(parameters)); });
}
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* parameters, CUstream stream) {
    return in_context("cuMemcpy2DAsync", [&](Call& call) { copy_async(call, stream, plane_work(parameters)); });
}
CUresult cuMemcpy3D(const CUDA_MEMCPY3D* parameters) {
    return in_context("cuMemcpy3D", [&](Call& call) { copy_now(call, copy_work(parameters)); });
}
CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D* parameters, CUstream stream) {
    return in_context("cuMemcpy3DAsync", [&](Call& call) { copy_async(call, stream, copy_work(parameters)); });
}

// Fills of device memory do not wait, in the blocking forms neither.
CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count) {
    return cu::cuMemsetD8Async(to, value, count, nullptr);
}
CUresult cuMemsetD16(CUdeviceptr to, unsigned short value, size_t count) {
    return cu::cuMemsetD16Async(to, value, count, nullptr);
}
CUresult cuMemsetD32(CUdeviceptr to, unsigned value, size_t count) {
    return cu::cuMemsetD32Async(to, value, count, nullptr);
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
    return in_context("cuMemsetD8", [&](Call& call) { fill_async(call, stream, linear_fill(to, value, 1, count)); });
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
    return in_context("cuMemsetD16", [&](Call& call) { fill_async(call, stream, linear_fill(to, value, 2, count)); });
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
    return in_context("cuMemsetD32", [&](Call& call) { fill_async(call, stream, linear_fill(to, value, 4, count)); });
}

}  // namespace nvfp4r::sim::driver::cu
