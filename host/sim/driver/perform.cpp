#include "sim/driver/perform.hpp"

#include <cstring>

namespace nvfp4r::sim::driver {

namespace {

/// The device whose memory holds `address`.
Gpu& gpu_of(const Allocation& allocation) {
    return *device_of(allocation.context->device).gpu;
}

void write_bytes(uint64_t to, const void* from, uint64_t bytes) {
    const Allocation* target = find_allocation(to);
    if (target != nullptr && is_device_memory(to)) {
        if (!gpu_of(*target).write(to, from, bytes))
            throw Error(NVFP4R_INTERNAL, "a checked device range could not be written");
    } else {
        std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    }
}

void read_bytes(uint64_t from, void* to, uint64_t bytes) {
    const Allocation* source = find_allocation(from);
    if (source != nullptr && is_device_memory(from)) {
        if (!gpu_of(*source).read(from, to, bytes))
            throw Error(NVFP4R_INTERNAL, "a checked device range could not be read");
    } else {
        std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    }
}

void copy(const CopyWork& work) {
    std::vector<uint8_t> row(work.width);
    for (uint64_t z = 0; z < work.depth; ++z) {
        for (uint64_t y = 0; y < work.height; ++y) {
            const uint64_t from = z * work.from_slice + y * work.from_pitch;
            const uint64_t to = work.to + z * work.to_slice + y * work.to_pitch;
            if (work.staged) {
                write_bytes(to, work.staged->data() + from, work.width);
            } else {
                read_bytes(work.from + from, row.data(), work.width);
                write_bytes(to, row.data(), work.width);
            }
        }
    }
}

void fill(const FillWork& work) {
    std::vector<uint8_t> row(work.width * work.element_bytes);
    for (uint64_t i = 0; i < work.width; ++i)
        std::memcpy(row.data() + i * work.element_bytes, &work.value, work.element_bytes);
    for (uint64_t y = 0; y < work.height; ++y) write_bytes(work.to + y * work.pitch, row.data(), row.size());
}

uint64_t extent(uint64_t width, uint64_t height, uint64_t depth, uint64_t pitch, uint64_t slice) {
    return (depth - 1) * slice + (height - 1) * pitch + width;
}

}  // namespace

const Allocation* find_allocation(uint64_t address) {
    auto next = state().memory.upper_bound(address);
    if (next == state().memory.begin()) return nullptr;
    const Allocation& allocation = std::prev(next)->second;
    return address - allocation.address < allocation.bytes ? &allocation : nullptr;
}

bool is_device_memory(uint64_t address) {
    const Allocation* allocation = find_allocation(address);
    return allocation != nullptr && allocation->kind <= MemoryKind::variable;
}

void require_range(uint64_t address, uint64_t bytes, const char* what) {
    if (address == 0) refuse(CUDA_ERROR_INVALID_VALUE, "{} is NULL", what);
    const Allocation* allocation = find_allocation(address);
    if (allocation == nullptr) return;  // ordinary host memory: its bounds are unknown
    const uint64_t room = allocation->bytes - (address - allocation->address);
    if (bytes > room) {
        refuse(CUDA_ERROR_INVALID_VALUE, "{} {:#x}: {} bytes run out of {} ({} bytes left of {})", what, address, bytes,
               allocation->name, room, allocation->bytes);
    }
}

void require_device_range(uint64_t address, uint64_t bytes, const char* what) {
    if (address == 0 || find_allocation(address) == nullptr)
        refuse(CUDA_ERROR_INVALID_VALUE, "{} {:#x} lies in no allocation", what, address);
    require_range(address, bytes, what);
}

void check_copy(const CopyWork& work) {
    if (work.width == 0 || work.height == 0 || work.depth == 0) return;
    require_range(work.to, extent(work.width, work.height, work.depth, work.to_pitch, work.to_slice),
                  "the destination");
    if (!work.staged)
        require_range(work.from, extent(work.width, work.height, work.depth, work.from_pitch, work.from_slice),
                      "the source");
}

void check_fill(const FillWork& work) {
    if (work.to % work.element_bytes != 0)
        refuse(CUDA_ERROR_INVALID_VALUE, "{:#x} is not a multiple of the element's {} bytes", work.to,
               work.element_bytes);
    if (work.width == 0 || work.height == 0) return;
    require_device_range(work.to, extent(work.width * work.element_bytes, work.height, 1, work.pitch, 0),
                         "the destination");
}

void perform(Device& device, const Work& work) {
    if (const auto* copying = std::get_if<CopyWork>(&work)) {
        if (copying->width != 0) copy(*copying);
    } else if (const auto* filling = std::get_if<FillWork>(&work)) {
        fill(*filling);
    } else if (const auto* release = std::get_if<ReleaseWork>(&work)) {
        const auto allocation = state().memory.find(release->address);
        if (allocation == state().memory.end()) return;
        device.memory_used -= allocation->second.bytes;
        device.gpu->release(release->address);
        state().memory.erase(allocation);
    }
}

}  // namespace nvfp4r::sim::driver
