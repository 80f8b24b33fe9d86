// Bulk copies without a tensor map (PTX ISA 9.7.9.25.4 and .5): plain ranges, global to shared, shared to global, and
// shared to a CTA of the cluster.
#pragma once

#include <optional>
#include <vector>

#include "sim/engine/reduce.hpp"
#include "sim/engine/tma.hpp"

namespace nvfp4r::sim {

struct BulkReduce {
    ReduceOp op;
    ReduceType type;
};

inline constexpr uint32_t kBulkAlign = 16;  // of addresses and sizes, bytes

/// Reports an address or size that is not a multiple of 16.
void check_bulk(const Issuer& issuer, const char* what, uint64_t value);

/// [source, source + bytes) of global memory into every target.
void issue_bulk_load(const Issuer& issuer, uint64_t source, uint32_t bytes, std::vector<LoadTarget> targets);

/// Own shared memory from window offset `from` to global `to`. `byte_mask` picks the bytes of each 16 (all: 0xffff).
/// Joins the issuer's open bulk group.
void issue_bulk_store(const Issuer& issuer, uint32_t from, uint64_t to, uint32_t bytes, uint32_t byte_mask,
                      const std::optional<BulkReduce>& reduce);

/// Own shared memory from window offset `from` into the target's; counted on the target's mbarrier.
void issue_bulk_shared(const Issuer& issuer, uint32_t from, uint32_t bytes, const LoadTarget& target,
                       const std::optional<BulkReduce>& reduce);

}  // namespace nvfp4r::sim
