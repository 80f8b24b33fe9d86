// Tensor memory (PTX ISA 9.7.16.1): 128 lanes x 512 columns of 32 bits for each SM, shared by its resident CTAs.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "sim/engine/async.hpp"

namespace nvfp4r::sim {

inline constexpr uint32_t kTmemLanes = 128;
inline constexpr uint32_t kTmemColumns = 512;
inline constexpr uint32_t kTmemUnit = 32;     // columns; allocations are powers of two from here to all
inline constexpr uint32_t kTmemQuarter = 32;  // lanes that one warp of four may load and store

/// Bits 31-16 lane, 15-0 column.
struct TmemAddress {
    uint32_t lane = 0, column = 0;
    static TmemAddress of(uint32_t bits) { return {bits >> 16, bits & 0xffffu}; }
};

struct TmemAllocation {
    const Cta* owner = nullptr;
    uint32_t base = 0, columns = 0;
    ActorId by = kNoActor;  // a thread of the warp that allocated, and its epoch then; none: a pair's
    uint32_t epoch = 0;
};

struct Tmem {
    std::vector<uint32_t> cells = std::vector<uint32_t>(kTmemLanes * kTmemColumns);
    std::shared_ptr<Shadow> shadow;
    std::vector<TmemAllocation> allocations;
    const Cta* permit = nullptr;  // who may allocate until it relinquishes or has freed everything

    uint32_t& cell(uint32_t lane, uint32_t column) { return cells[lane * kTmemColumns + column]; }
    bool free(uint32_t base, uint32_t columns) const;
    /// The allocation that holds a column; nullptr when none does.
    const TmemAllocation* find(uint32_t column) const;
};

/// The tensor memory of the CTA's SM.
Tmem& tmem_of(Cta& cta);

/// The CTA pair of cta_group::2: ranks that differ in bit 0. Throws Fault when the CTA has no peer.
Cta& pair_peer(Cta& cta, const char* what);
/// Member 0 (even rank) or 1 of the CTA's pair.
Cta& pair_member(Cta& cta, uint32_t member);

/// Cells that an instruction is about to access on the CTA's SM: bounds (Fault) and ownership (reported).
struct TmemAccess {
    Cta* cta = nullptr;
    const Instr* instr = nullptr;
    ActorId actor = kNoActor;
};
void check_cells(const TmemAccess& access, TmemAddress at, uint32_t lanes, uint32_t columns);
/// Tells the checker of columns [column, column + columns) of one lane.
void touch_cells(const TmemAccess& access, uint32_t lane, uint32_t column, uint32_t columns, Access kind);

/// One cta_group for a kernel: reports an instruction whose group differs from the CTA's earlier ones.
void require_cta_group(const Warp& warp, LaneMask lanes, uint32_t group, const Instr* instr);

}  // namespace nvfp4r::sim
