// Memory by address: windows of the generic space, bounds, alignment, whose shared memory it is.
#include <fmt/format.h>

#include "sim/machine/simulation.hpp"

namespace nvfp4r::sim {
namespace {

constexpr uint64_t kSharedWindowBytes = uint64_t{1} << 32;
constexpr uint64_t kMbarrierBytes = 8;

bool in_shared_window(uint64_t address) {
    return address - kSharedWindow < kSharedWindowBytes;
}
bool in_local_window(uint64_t address) {
    return address >= kLocalWindow && address < kParamWindow;
}
bool in_param_window(uint64_t address) {
    return address - kParamWindow < kSharedWindowBytes;
}

void check_alignment(uint64_t address, uint64_t bytes, uint32_t align) {
    if (address % align != 0)
        throw Fault(FindingKind::misaligned,
                    fmt::format("access of {} bytes at {:#x}: a multiple of {} is needed", bytes, address, align));
}

}  // namespace

Cta& Simulation::shared_owner(Cta& cta, uint32_t address, bool cluster_form, uint32_t& offset, const Instr* instr) {
    const uint32_t rank = address >> kSharedRankShift;
    offset = address & kSharedOffsetMask;
    const uint32_t own = cta.grid->launch->explicit_cluster ? cta.rank : 0;
    if (!cluster_form) {
        if (rank != own)
            throw Fault(FindingKind::out_of_bounds,
                        fmt::format(".shared::cta address {:#x} has rank bits {}, those of this CTA are {}: use "
                                    ".shared::cluster for another CTA's memory",
                                    address, rank, own));
        return cta;
    }
    if (rank >= cta.cluster->ctas.size())
        throw Fault(FindingKind::out_of_bounds,
                    fmt::format(".shared::cluster address {:#x} names rank {} of a cluster of {}", address, rank,
                                cta.cluster->ctas.size()));
    Cta& owner = *cta.cluster->ctas[rank];
    if (owner.exited)
        report(FindingKind::exited_cta,
               fmt::format(".shared::cluster address {:#x} lies in CTA ({},{},{}), rank {}, which has exited", address,
                           owner.id.x, owner.id.y, owner.id.z, rank),
               current_.warp, current_.lanes, instr);
    return owner;
}

Machine::Place Simulation::place_in_shared(Cta& owner, uint32_t offset, uint64_t bytes, uint32_t align) {
    check_alignment(offset, bytes, align);
    if (offset < kSharedReserved || offset + bytes > owner.shared.size())
        throw Fault(
            FindingKind::out_of_bounds,
            fmt::format("access of {} bytes at offset {:#x} of the shared memory of CTA ({},{},{}): it has "
                        "[{:#x}, {:#x})",
                        bytes, offset, owner.id.x, owner.id.y, owner.id.z, kSharedReserved, owner.shared.size()));
    if (!owner.mbarriers.empty()) {
        // Few barriers, short accesses: asking for each 8-byte word is cheaper than a sorted map.
        auto live = [&](uint64_t at) { return owner.mbarriers.contains(static_cast<uint32_t>(at)); };
        bool hit = false;
        uint64_t first = offset / kMbarrierBytes * kMbarrierBytes;
        if (bytes / kMbarrierBytes > owner.mbarriers.size()) {
            for (const auto& entry : owner.mbarriers)
                hit |= entry.first + kMbarrierBytes > offset && entry.first < offset + bytes;
        } else {
            for (uint64_t at = first; at < offset + bytes; at += kMbarrierBytes) hit |= live(at);
        }
        if (hit)
            report(FindingKind::mbarrier_misuse,
                   fmt::format("ordinary access of {} bytes at shared offset {:#x} touches a live mbarrier: its bytes "
                               "are opaque until mbarrier.inval",
                               bytes, offset),
                   current_.warp, current_.lanes, current_.instr);
    }
    return {owner.shared.data() + offset, owner.shared_shadow.get(), offset, &owner, owner.shared.size() - offset};
}

Machine::Place Simulation::place_in_global(uint64_t address, uint64_t bytes, uint32_t align) {
    check_alignment(address, bytes, align);
    const Allocation* allocation = memory_.holding(address, bytes);
    if (!allocation)
        throw Fault(FindingKind::out_of_bounds,
                    fmt::format("access of {} bytes at {:#x}: {}", bytes, address, memory_.describe(address)));
    return {reinterpret_cast<uint8_t*>(address), allocation->shadow.get(), address - allocation->base, nullptr,
            allocation->base + allocation->size - address};
}

Machine::Place Simulation::place_in_window(Cta& cta, StateSpace space, uint64_t address, uint64_t bytes, uint32_t align,
                                           const Instr* instr) {
    uint32_t offset = 0;
    switch (space) {
        case StateSpace::shared: {
            Cta& owner = shared_owner(cta, static_cast<uint32_t>(address), false, offset, instr);
            return place_in_shared(owner, offset, bytes, align);
        }
        case StateSpace::shared_cluster: {
            Cta& owner = shared_owner(cta, static_cast<uint32_t>(address), true, offset, instr);
            return place_in_shared(owner, offset, bytes, align);
        }
        case StateSpace::generic:
            if (in_shared_window(address))
                return place_in_window(cta, StateSpace::shared_cluster, address - kSharedWindow, bytes, align, instr);
            if (in_param_window(address))
                return place_in_window(cta, StateSpace::param, address - kParamWindow, bytes, align, instr);
            return place_in_global(address, bytes, align);
        case StateSpace::param: {
            check_alignment(address, bytes, align);
            const std::vector<uint8_t>& params = cta.grid->launch->params;
            if (address > params.size() || bytes > params.size() - address)
                throw Fault(FindingKind::out_of_bounds, fmt::format("access of {} bytes at offset {} of a parameter "
                                                                    "block of {} bytes",
                                                                    bytes, address, params.size()));
            // Parameters are read only; decode refuses stores to them.
            return {const_cast<uint8_t*>(params.data()) + address, nullptr, 0, nullptr, params.size() - address};
        }
        case StateSpace::global:
        case StateSpace::constant:
            if (in_shared_window(address) || in_local_window(address) || in_param_window(address))
                throw Fault(FindingKind::out_of_bounds,
                            fmt::format("address {:#x} lies in the shared, local or parameter window, not in global "
                                        "memory",
                                        address));
            return place_in_global(address, bytes, align);
        default: break;
    }
    throw Fault(FindingKind::illegal_instruction, "access in a state space without addresses");
}

Machine::Place Simulation::place(Cta& cta, StateSpace space, uint64_t address, uint64_t bytes, uint32_t align,
                                 const Instr* instr) {
    return place_in_window(cta, space, address, bytes, align, instr);
}

Machine::Place Simulation::place(const Warp& warp, uint32_t lane, StateSpace space, uint64_t address, uint64_t bytes,
                                 uint32_t align, const Instr* instr) {
    if (space == StateSpace::generic && in_local_window(address)) {
        space = StateSpace::local;
        address -= kLocalWindow;
    }
    if (space != StateSpace::local) return place_in_window(*warp.cta, space, address, bytes, align, instr);
    check_alignment(address, bytes, align);
    const uint64_t local_bytes = warp.local.size() / kLanes;
    if (address > local_bytes || bytes > local_bytes - address)
        throw Fault(FindingKind::out_of_bounds, fmt::format("access of {} bytes at offset {} of {} bytes of local "
                                                            "memory",
                                                            bytes, address, local_bytes));
    uint8_t* base = const_cast<uint8_t*>(warp.local.data()) + lane * local_bytes;
    return {base + address, nullptr, 0, nullptr, local_bytes - address};
}

Mbarrier& Simulation::mbarrier(Cta& owner, uint32_t offset, const Instr* instr) {
    if (offset % kMbarrierBytes != 0)
        throw Fault(FindingKind::misaligned,
                    fmt::format("mbarrier at shared offset {:#x}: a multiple of 8 is needed", offset));
    auto it = owner.mbarriers.find(offset);
    if (it == owner.mbarriers.end())
        throw Fault(FindingKind::mbarrier_misuse,
                    fmt::format("no mbarrier is initialised at shared offset {:#x} of CTA ({},{},{}), rank {}{}",
                                offset, owner.id.x, owner.id.y, owner.id.z, owner.rank,
                                instr == nullptr ? " (asynchronous operation)" : ""));
    return it->second;
}

}  // namespace nvfp4r::sim
