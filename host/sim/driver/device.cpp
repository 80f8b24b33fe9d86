// Start, version and devices.
#include <cstdlib>
#include <cstring>

#include "sim/driver/device_shape.hpp"
#include "sim/driver/entries.hpp"
#include "sim/driver/state.hpp"

namespace nvfp4r::sim::driver::cu {

CUresult cuInit(unsigned flags) {
    try {
        const std::lock_guard lock(state().mutex);
        try {
            if (flags != 0) refuse(CUDA_ERROR_INVALID_VALUE, "flags {}: must be 0", flags);
            initialise_devices();
            return CUDA_SUCCESS;
        } catch (...) {
            return result_of_exception("cuInit");
        }
    } catch (...) {
        return CUDA_ERROR_UNKNOWN;
    }
}

// Works before cuInit, as the driver's does.
CUresult cuDriverGetVersion(int* version) {
    if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const char* chosen = std::getenv("NVFP4R_SIM_DRIVER_VERSION");
    *version = chosen != nullptr ? std::atoi(chosen) : kSimDriverVersion;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    return in_driver("cuDeviceGet", [&](Call&) {
        require_pointer(device, "device");
        *device = device_of(ordinal).ordinal;
    });
}

CUresult cuDeviceGetCount(int* count) {
    return in_driver("cuDeviceGetCount", [&](Call&) {
        require_pointer(count, "count");
        *count = static_cast<int>(state().devices.size());
    });
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
    return in_driver("cuDeviceGetName", [&](Call&) {
        require_pointer(name, "name");
        if (length <= 0) refuse(CUDA_ERROR_INVALID_VALUE, "len {}: must be positive", length);
        std::snprintf(name, static_cast<size_t>(length), "%s", device_shape(device_of(device).gpu->config()).name);
    });
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
    return in_driver("cuDeviceGetUuid", [&](Call&) {
        require_pointer(uuid, "uuid");
        const int ordinal = device_of(device).ordinal;
        static constexpr char kPattern[] = "NVFP4-SIMULATOR";
        static_assert(sizeof kPattern == sizeof uuid->bytes, "a UUID has 16 bytes");
        std::memcpy(uuid->bytes, kPattern, sizeof uuid->bytes);
        uuid->bytes[sizeof uuid->bytes - 1] = static_cast<char>(ordinal);
    });
}

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
    return in_driver("cuDeviceTotalMem", [&](Call&) {
        require_pointer(bytes, "bytes");
        *bytes = device_shape(device_of(device).gpu->config()).memory_bytes;
    });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
    return in_driver("cuDeviceGetAttribute", [&](Call&) {
        require_pointer(value, "pi");
        const Device& d = device_of(device);
        const auto found = device_attribute(d.gpu->config(), d.ordinal, attribute);
        if (!found) refuse(CUDA_ERROR_INVALID_VALUE, "device attribute {} does not exist", static_cast<int>(attribute));
        *value = *found;
    });
}

CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
    return in_driver("cuDeviceGetPCIBusId", [&](Call&) {
        require_pointer(text, "pciBusId");
        const std::string id = fmt::format("0000:00:{:02x}.0", device_of(device).ordinal);
        if (length <= static_cast<int>(id.size()))
            refuse(CUDA_ERROR_INVALID_VALUE, "len {}: {} are needed", length, id.size() + 1);
        std::memcpy(text, id.c_str(), id.size() + 1);
    });
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
    return in_driver("cuDeviceCanAccessPeer", [&](Call&) {
        require_pointer(can, "canAccessPeer");
        device_of(device);
        device_of(peer);
        *can = 0;
    });
}

}  // namespace nvfp4r::sim::driver::cu
