// Carries out copies, fills and frees, and checks their ranges when they are asked for.
#pragma once

#include "sim/driver/state.hpp"

namespace nvfp4r::sim::driver {

/// The allocation that holds `address`, or nullptr. Pinned and registered host memory counts.
const Allocation* find_allocation(uint64_t address);
/// True for memory of a device, variables of modules included (not pinned or registered host memory).
bool is_device_memory(uint64_t address);

/// Refuses with INVALID_VALUE a range that leaves its allocation, naming the allocation.
void require_range(uint64_t address, uint64_t bytes, const char* what);
/// The same, and refuses addresses that no device owns.
void require_device_range(uint64_t address, uint64_t bytes, const char* what);

/// Checks both sides of a copy.
void check_copy(const CopyWork& copy);
void check_fill(const FillWork& fill);

/// Copy, fill or release. The ranges have been checked.
void perform(Device& device, const Work& work);

}  // namespace nvfp4r::sim::driver
