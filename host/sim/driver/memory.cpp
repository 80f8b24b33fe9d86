// Allocation. A device address is a host address (see Gpu), so addresses of different devices never meet.
#include <cstdlib>

#include "sim/driver/capture.hpp"
#include "sim/driver/device_shape.hpp"
#include "sim/driver/entries.hpp"
#include "sim/driver/perform.hpp"
#include "sim/driver/queue.hpp"

namespace nvfp4r::sim::driver::cu {

namespace {

constexpr uint64_t kDeviceAlignment = 256;  // cuMemAlloc's promise: any type, and every TMA address rule
constexpr uint64_t kPitchAlignment = 512;
constexpr size_t kHostAlignment = 4096;  // pinned memory comes in pages

uint64_t allocate(Call& call, uint64_t bytes, MemoryKind kind, const char* what) {
    if (bytes == 0) refuse(CUDA_ERROR_INVALID_VALUE, "0 bytes");
    Device& device = call.device();
    const uint64_t total = device_shape(device.gpu->config()).memory_bytes;
    if (bytes > total - device.memory_used)
        refuse(CUDA_ERROR_OUT_OF_MEMORY, "{} bytes: {} of {} are in use", bytes, device.memory_used, total);
    const uint64_t id = state().next_id++;
    const std::string name = fmt::format("{} #{}", what, id);
    const uint64_t address = device.gpu->allocate(bytes, kDeviceAlignment, name);
    if (address == 0) refuse(CUDA_ERROR_OUT_OF_MEMORY, "{} bytes: the simulator's host has no room", bytes);
    device.memory_used += bytes;
    state().memory[address] = {address, bytes, kind, 0, id, call.context, name};
    return address;
}

void allocate_host(Call& call, void** pointer, size_t bytes, unsigned flags) {
    refuse_during_capture(call);
    require_pointer(pointer, "pp");
    if (bytes == 0) refuse(CUDA_ERROR_INVALID_VALUE, "0 bytes");
    void* memory = nullptr;
    if (posix_memalign(&memory, kHostAlignment, bytes) != 0)
        refuse(CUDA_ERROR_OUT_OF_MEMORY, "{} bytes of host memory", bytes);
    const uint64_t id = state().next_id++;
    const std::string name = fmt::format("pinned host memory #{}", id);
    for (const auto& device : state().devices) device->gpu->register_host(memory, bytes, name);
    const auto address = reinterpret_cast<uint64_t>(memory);
    state().memory[address] = {address, bytes, MemoryKind::pinned, flags, id, call.context, name};
    *pointer = memory;
}

/// The allocation that starts at `address`, of one of two kinds.
Allocation& allocation_at(uint64_t address, MemoryKind kind, MemoryKind other) {
    const auto found = state().memory.find(address);
    if (found == state().memory.end() || (found->second.kind != kind && found->second.kind != other))
        refuse(CUDA_ERROR_INVALID_VALUE, "{:#x} is not the start of such an allocation", address);
    return found->second;
}

/// Finishes what may still use the memory.
void drain_user(Call& call, const Allocation& allocation) {
    drain(call, allocation.context->device);
}

}  // namespace

CUresult cuMemAlloc(CUdeviceptr* address, size_t bytes) {
    return in_context("cuMemAlloc", [&](Call& call) {
        refuse_during_capture(call);
        require_pointer(address, "dptr");
        *address = allocate(call, bytes, MemoryKind::device, "cuMemAlloc");
    });
}

CUresult cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned flags) {
    return in_context("cuMemAllocManaged", [&](Call& call) {
        refuse_during_capture(call);
        require_pointer(address, "dptr");
        if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
            refuse(CUDA_ERROR_INVALID_VALUE, "attach flags {:#x}", flags);
        *address = allocate(call, bytes, MemoryKind::managed, "cuMemAllocManaged");
    });
}

CUresult cuMemAllocPitch(CUdeviceptr* address, size_t* pitch, size_t width, size_t height, unsigned element_bytes) {
    return in_context("cuMemAllocPitch", [&](Call& call) {
        refuse_during_capture(call);
        require_pointer(address, "dptr");
        require_pointer(pitch, "pPitch");
        if (element_bytes != 4 && element_bytes != 8 && element_bytes != 16)
            refuse(CUDA_ERROR_INVALID_VALUE, "element size {}: 4, 8 or 16 is expected", element_bytes);
        const size_t row = (width + kPitchAlignment - 1) / kPitchAlignment * kPitchAlignment;
        *address = allocate(call, row * height, MemoryKind::device, "cuMemAllocPitch");
        *pitch = row;
    });
}

CUresult cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream handle) {
    return in_context("cuMemAllocAsync", [&](Call& call) {
        require_pointer(address, "dptr");
        CUstream_st& stream = stream_of(call, handle);
        if (stream.capture) {
            stream.capture->invalid = true;
            refuse(CUDA_ERROR_NOT_SUPPORTED, "memory nodes of graphs are not simulated");
        }
        *address = allocate(call, bytes, MemoryKind::device, "cuMemAllocAsync");
    });
}

CUresult cuMemFree(CUdeviceptr address) {
    return in_context("cuMemFree", [&](Call& call) {
        if (address == 0) return;
        refuse_during_capture(call);
        const int device = allocation_at(address, MemoryKind::device, MemoryKind::managed).context->device;
        drain(call, device);  // work in flight may still use it
        allocation_at(address, MemoryKind::device, MemoryKind::managed);
        perform(device_of(device), ReleaseWork{address});
    });
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
    return in_context("cuMemFreeAsync", [&](Call& call) {
        if (address == 0) refuse(CUDA_ERROR_INVALID_VALUE, "dptr is 0");
        allocation_at(address, MemoryKind::device, MemoryKind::managed);
        enqueue(call, stream_of(call, handle), ReleaseWork{address});
    });
}

CUresult cuMemAllocHost(void** pointer, size_t bytes) {
    return in_context("cuMemAllocHost", [&](Call& call) { allocate_host(call, pointer, bytes, 0); });
}

CUresult cuMemHostAlloc(void** pointer, size_t bytes, unsigned flags) {
    return in_context("cuMemHostAlloc", [&](Call& call) {
        constexpr unsigned kKnown =
            CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
        if ((flags & ~kKnown) != 0) refuse(CUDA_ERROR_INVALID_VALUE, "flags {:#x}", flags);
        allocate_host(call, pointer, bytes, flags);
    });
}

CUresult cuMemFreeHost(void* pointer) {
    return in_context("cuMemFreeHost", [&](Call& call) {
        if (pointer == nullptr) return;
        const auto address = reinterpret_cast<uint64_t>(pointer);
        drain_user(call, allocation_at(address, MemoryKind::pinned, MemoryKind::pinned));
        for (const auto& device : state().devices) device->gpu->unregister_host(pointer);
        state().memory.erase(address);
        std::free(pointer);
    });
}

CUresult cuMemHostRegister(void* pointer, size_t bytes, unsigned flags) {
    return in_context("cuMemHostRegister", [&](Call& call) {
        require_pointer(pointer, "p");
        if (bytes == 0) refuse(CUDA_ERROR_INVALID_VALUE, "0 bytes");
        const auto address = reinterpret_cast<uint64_t>(pointer);
        if (find_allocation(address) != nullptr || find_allocation(address + bytes - 1) != nullptr)
            refuse(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "{:#x} is registered already", address);
        const uint64_t id = state().next_id++;
        const std::string name = fmt::format("registered host memory #{}", id);
        for (const auto& device : state().devices) device->gpu->register_host(pointer, bytes, name);
        state().memory[address] = {address, bytes, MemoryKind::registered, flags, id, call.context, name};
    });
}

CUresult cuMemHostUnregister(void* pointer) {
    return in_context("cuMemHostUnregister", [&](Call& call) {
        const auto found = state().memory.find(reinterpret_cast<uint64_t>(pointer));
        if (found == state().memory.end() || found->second.kind != MemoryKind::registered)
            refuse(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "{} is not registered", pointer);
        drain_user(call, found->second);
        for (const auto& device : state().devices) device->gpu->unregister_host(pointer);
        state().memory.erase(reinterpret_cast<uint64_t>(pointer));
    });
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr* address, void* pointer, unsigned flags) {
    return in_context("cuMemHostGetDevicePointer", [&](Call&) {
        require_pointer(address, "pdptr");
        if (flags != 0) refuse(CUDA_ERROR_INVALID_VALUE, "flags {}: must be 0", flags);
        const Allocation* allocation = find_allocation(reinterpret_cast<uint64_t>(pointer));
        if (allocation == nullptr || is_device_memory(reinterpret_cast<uint64_t>(pointer)))
            refuse(CUDA_ERROR_INVALID_VALUE, "{} is not pinned host memory", pointer);
        *address = reinterpret_cast<CUdeviceptr>(pointer);
    });
}

CUresult cuMemHostGetFlags(unsigned* flags, void* pointer) {
    return in_context("cuMemHostGetFlags", [&](Call&) {
        require_pointer(flags, "pFlags");
        *flags = allocation_at(reinterpret_cast<uint64_t>(pointer), MemoryKind::pinned, MemoryKind::registered).flags;
    });
}

CUresult cuMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
    return in_context("cuMemGetInfo", [&](Call& call) {
        require_pointer(free_bytes, "free");
        require_pointer(total_bytes, "total");
        *total_bytes = device_shape(call.device().gpu->config()).memory_bytes;
        *free_bytes = *total_bytes - call.device().memory_used;
    });
}

CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
    return in_context("cuMemGetAddressRange", [&](Call&) {
        const Allocation* allocation = find_allocation(address);
        if (allocation == nullptr) refuse(CUDA_ERROR_NOT_FOUND, "{:#x} lies in no allocation", address);
        if (base != nullptr) *base = allocation->address;
        if (bytes != nullptr) *bytes = allocation->bytes;
    });
}

}  // namespace nvfp4r::sim::driver::cu
