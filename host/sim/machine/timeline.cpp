// What the trace and the counters get from the running machine.
#include <fmt/format.h>

#include "sim/machine/simulation.hpp"

namespace nvfp4r::sim {
namespace {

constexpr uint64_t kEngineTracks = 1000;  // thread numbers of the engines' tracks, behind those of the warps

std::string name_of(const Instr& instr) {
    std::string name = instr.statement->opcode;
    for (const std::string& modifier : instr.statement->modifiers) name += "." + modifier;
    return name;
}

}  // namespace

uint64_t Simulation::trace_process(const Cta& cta) {
    auto [it, fresh] = trace_processes_.try_emplace(&cta, 0);
    if (fresh) {
        it->second = trace_->process(
            fmt::format("{} CTA ({},{},{}) SM {}", cta.grid->launch->name, cta.id.x, cta.id.y, cta.id.z, cta.sm));
        for (const auto& warp : cta.warps)
            trace_->thread_name(it->second, warp->index, fmt::format("warp {}", warp->index));
    }
    return it->second;
}

void Simulation::trace_instruction(const Warp& warp, const Instr& instr) {
    trace_->span(trace_process(*warp.cta), warp.index, name_of(instr), now_, warp.time, instr.statement->text);
}

void Simulation::trace_wait(const Warp& warp, const Instr& instr) {
    trace_->span(trace_process(*warp.cta), warp.index, "wait: " + name_of(instr), now_, now_ + 1,
                 instr.statement->text);
}

void Simulation::trace_operation(const AsyncOp& op) {
    uint64_t process = trace_process(*op.cta);
    // One track for each kind of operation, numbered by its first appearance in the name table.
    auto [it, fresh] = trace_tracks_.try_emplace(op.what, kEngineTracks + trace_tracks_.size());
    if (fresh || !trace_named_.contains({process, it->second})) {
        trace_->thread_name(process, it->second, op.what);
        trace_named_.insert({process, it->second});
    }
    trace_->span(process, it->second, op.what, op.issued, std::max(now_, op.issued + 1),
                 op.instr ? op.instr->statement->text : "");
    trace_->flow(process, op.warp, op.issued, it->second, std::max(now_, op.issued + 1));
}

}  // namespace nvfp4r::sim
