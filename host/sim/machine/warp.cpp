// A warp's registers, and its blocked lanes.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "sim/machine/machine.hpp"

namespace nvfp4r::sim {
namespace {

constexpr uint32_t kSink = ~0u;

/// `slot` belongs to an asynchronous load that no wait has ended: its value is undefined (PTX ISA 9.7.16.8).
void check_pending(const Warp& warp, uint32_t slot, LaneMask lanes) {
    for (const Warp::Pending& pending : warp.pending)
        if (pending.slot == slot && (pending.lanes & lanes) != 0) {
            const auto& names = warp.cta->grid->launch->program->entry->register_names;
            std::string name = slot < names.size() ? names[slot] : fmt::format("slot {}", slot);
            warp.machine().report(FindingKind::pending_register,
                                  fmt::format("register {} still belongs to {}", name, pending.what), &warp, lanes,
                                  nullptr);
            return;
        }
}

}  // namespace

Machine& Warp::machine() const {
    return *cta->grid->machine;
}
Machine& Cta::machine() const {
    return *grid->machine;
}

uint32_t Cta::shared_address(uint32_t offset) const {
    return grid->launch->explicit_cluster ? rank << kSharedRankShift | offset : offset;
}

bool GridRun::complete() const {
    if (!ended) return false;
    return std::all_of(prerequisites.begin(), prerequisites.end(),
                       [](const GridRun* grid) { return grid->complete(); });
}

Dim3 Warp::thread(uint32_t lane) const {
    const Dim3& block = cta->grid->launch->block;
    uint32_t linear = index * kLanes + lane;
    return {linear % block.x, linear / block.x % block.y, linear / block.x / block.y};
}

const uint64_t* Warp::read(const Src& src, Lanes& scratch, LaneMask lanes) {
    switch (src.kind) {
        case Src::Kind::reg:
            if (!pending.empty()) check_pending(*this, src.slot, lanes);
            return reg(src.slot);
        case Src::Kind::special: read_special(*this, src.slot, scratch, lanes); return scratch.data();
        case Src::Kind::pred: {
            LaneMask mask = read_pred(src, lanes);
            for (uint32_t lane = 0; lane < kLanes; ++lane) scratch[lane] = mask >> lane & 1;
            return scratch.data();
        }
        case Src::Kind::shared:
            scratch.fill(cta->shared_address(static_cast<uint32_t>(src.imm)));
            return scratch.data();
        case Src::Kind::imm:
        case Src::Kind::none: break;
    }
    scratch.fill(src.imm);
    return scratch.data();
}

LaneMask Warp::read_pred(const Src& src, LaneMask lanes) const {
    LaneMask mask = src.kind == Src::Kind::pred ? predicates[src.slot] : src.imm != 0 ? ~0u : 0u;
    return (src.negated ? ~mask : mask) & lanes;
}

uint64_t* Warp::write(uint32_t slot, Lanes& scratch, LaneMask lanes) {
    if (slot == kSink) return scratch.data();
    if (!pending.empty()) check_pending(*this, slot, lanes);
    return reg(slot);
}

void Warp::addresses(const Addr& addr, Lanes& out, LaneMask lanes) {
    Lanes scratch;
    const uint64_t offset = static_cast<uint64_t>(addr.offset);
    if (addr.base.kind == Src::Kind::none) {
        out.fill(offset);
        return;
    }
    const uint64_t* base = read(addr.base, scratch, lanes);
    for (uint32_t lane = 0; lane < kLanes; ++lane) out[lane] = base[lane] + offset;
}

void Warp::set_pending(uint32_t slot, LaneMask lanes, const char* what) {
    pending.push_back({slot, lanes, what});
}

void Warp::clear_pending(const char* what) {
    std::erase_if(pending, [&](const Pending& entry) { return what == nullptr || entry.what == what; });
}

void Warp::block(LaneMask lanes, std::function<bool()> ready, std::string (*describe)(const Warp&)) {
    blocked.push_back({lanes, {std::move(ready), describe}});
    blocked_lanes |= lanes;
}

}  // namespace nvfp4r::sim
