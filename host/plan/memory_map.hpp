// Where a plan puts what in shared and in tensor memory, for people to read. The kernels' own structs and formulas are
// in ptx/; here are the same parts in the same order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace nvfp4r {

struct Region {
    std::string what;
    uint32_t first = 0, size = 0;  // bytes of shared memory, columns of tensor memory
};

/// Dynamic shared memory. Regions follow each other; the last ends at plan.shared_bytes.
std::vector<Region> shared_memory_map(const Plan& plan);

/// Tensor memory; empty for kernels that use none. The last region ends at kernel.tmem_columns.
std::vector<Region> tensor_memory_map(const Plan& plan);

}  // namespace nvfp4r
