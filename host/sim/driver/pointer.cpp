// What the driver knows about a pointer.
#include <cstring>

#include "sim/driver/entries.hpp"
#include "sim/driver/perform.hpp"

namespace nvfp4r::sim::driver::cu {

namespace {

template <class T>
void store(void* data, T value) {
    std::memcpy(data, &value, sizeof value);
}

/// Writes one attribute; an address that the driver does not know has `allocation` nullptr. False: no such attribute.
bool store_attribute(void* data, CUpointer_attribute attribute, CUdeviceptr address, const Allocation* allocation) {
    const bool on_device = allocation != nullptr && is_device_memory(address);
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_CONTEXT:
            store(data, allocation != nullptr ? allocation->context : nullptr);
            return true;
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            store(data, static_cast<unsigned>(allocation == nullptr ? 0
                                              : on_device           ? CU_MEMORYTYPE_DEVICE
                                                                    : CU_MEMORYTYPE_HOST));
            return true;
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
            store(data, allocation != nullptr ? address : CUdeviceptr{0});
            return true;
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
            store(data, allocation != nullptr && (!on_device || allocation->kind == MemoryKind::managed)
                            ? reinterpret_cast<void*>(address)
                            : nullptr);
            return true;
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: store(data, 0u); return true;
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
            store(data, static_cast<unsigned long long>(allocation != nullptr ? allocation->id : 0));
            return true;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
            store(data, static_cast<unsigned>(allocation != nullptr && allocation->kind == MemoryKind::managed));
            return true;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            store(data, allocation != nullptr ? allocation->context->device : CU_DEVICE_INVALID);
            return true;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
            store(data, allocation != nullptr ? allocation->address : CUdeviceptr{0});
            return true;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
            store(data, static_cast<size_t>(allocation != nullptr ? allocation->bytes : 0));
            return true;
        case CU_POINTER_ATTRIBUTE_MAPPED: store(data, static_cast<unsigned>(allocation != nullptr)); return true;
        default: return false;
    }
}

}  // namespace

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
    return in_driver("cuPointerGetAttribute", [&](Call&) {
        require_pointer(data, "data");
        const Allocation* allocation = find_allocation(address);
        if (allocation == nullptr) refuse(CUDA_ERROR_INVALID_VALUE, "{:#x} lies in no allocation", address);
        if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER && is_device_memory(address) &&
            allocation->kind != MemoryKind::managed)
            refuse(CUDA_ERROR_INVALID_VALUE, "{:#x} is device memory: the host cannot reach it", address);
        if (!store_attribute(data, attribute, address, allocation))
            refuse(CUDA_ERROR_NOT_SUPPORTED, "pointer attribute {} is not simulated", static_cast<int>(attribute));
    });
}

// Unlike the single form this one answers for unknown pointers too, with zeros.
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data, CUdeviceptr address) {
    return in_driver("cuPointerGetAttributes", [&](Call&) {
        require_pointer(attributes, "attributes");
        require_pointer(data, "data");
        const Allocation* allocation = find_allocation(address);
        for (unsigned i = 0; i < count; ++i) {
            if (!store_attribute(data[i], attributes[i], address, allocation))
                refuse(CUDA_ERROR_NOT_SUPPORTED, "pointer attribute {} is not simulated",
                       static_cast<int>(attributes[i]));
        }
    });
}

}  // namespace nvfp4r::sim::driver::cu
