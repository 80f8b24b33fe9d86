// Device memory: allocations in one reserved range of host addresses, and host memory that kernels may reach.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "sim/check/checker.hpp"

namespace nvfp4r::sim {

struct Allocation {
    uint64_t base = 0, size = 0;
    std::string name;
    bool host = false;   // pinned host memory, not ours
    bool freed = false;  // kept, so that a report can name what a stale pointer pointed to
    std::shared_ptr<Shadow> shadow;
};

/// A device address is the host address behind it. The range starts at a fixed address where the system allows it, and
/// addresses are handed out in order and never again, so that runs repeat and stale pointers are noticed.
class DeviceMemory {
  public:
    explicit DeviceMemory(Checker* checker);
    ~DeviceMemory();
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;

    /// 0 when there is no room.
    uint64_t allocate(uint64_t bytes, uint64_t align, std::string_view name);
    bool release(uint64_t address);
    void register_host(void* memory, uint64_t bytes, std::string_view name);
    bool unregister_host(void* memory);

    /// The live allocation that holds the first byte; nullptr when none does.
    const Allocation* at(uint64_t address) const;
    /// The live allocation that holds all of [address, address + bytes).
    const Allocation* holding(uint64_t address, uint64_t bytes) const;
    /// Where an address lies that no allocation holds: "24 bytes past the end of `logits` (0x..., 4096 bytes)".
    std::string describe(uint64_t address) const;

  private:
    void erase_range(uint64_t base, uint64_t bytes);

    Checker* checker_;
    uint64_t arena_ = 0, next_ = 0;
    std::map<uint64_t, Allocation> allocations_;  // by base
    mutable const Allocation* last_ = nullptr;    // the one asked for most recently
};

}  // namespace nvfp4r::sim
