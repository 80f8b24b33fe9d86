// Findings: where they happened, whose grid they belong to, what the run hands back.
#include <fmt/format.h>

#include <bit>

#include "sim/machine/simulation.hpp"

namespace nvfp4r::sim {
namespace {

std::string triple(const Dim3& d) {
    return fmt::format("({},{},{})", d.x, d.y, d.z);
}

std::string instruction_text(const Module& module, const Instr& instr) {
    const SourceLoc& loc = instr.statement->loc;
    std::string text = fmt::format("PTX line {}: `{}`", loc.ptx_line, instr.statement->text);
    if (loc.file != 0) {
        auto file = module.files.find(loc.file);
        text += fmt::format(" ({}:{})", file == module.files.end() ? "?" : file->second, loc.line);
    }
    return text;
}

/// The text with the finding's name in front.
std::string named(FindingKind kind, const std::string& text) {
    return text.starts_with(finding_name(kind)) ? text : fmt::format("{}: {}", finding_name(kind), text);
}

}  // namespace

std::string Simulation::where(const Warp* warp, LaneMask lanes, const Instr* instr) const {
    std::string text;
    const Module* module = grids_.empty() ? nullptr : grids_[0]->launch->program->module;
    if (warp) module = warp->cta->grid->launch->program->module;
    if (instr && module) text += "\n  at " + instruction_text(*module, *instr);
    if (warp) {
        uint32_t lane = lanes ? static_cast<uint32_t>(std::countr_zero(lanes)) : 0;
        text += fmt::format("\n  warp {} (lanes {:#010x}, first thread {}) of CTA {}, rank {}, grid {} `{}`",
                            warp->index, lanes, triple(warp->thread(lane)), triple(warp->cta->id), warp->cta->rank,
                            warp->cta->grid->index, warp->cta->grid->launch->name);
    }
    return text;
}

void Simulation::report(FindingKind kind, const std::string& text, const Warp* warp, LaneMask lanes,
                        const Instr* instr) {
    if (!warp) warp = current_.warp;
    if (!instr) instr = current_.instr;
    std::string whole = named(kind, text) + where(warp, lanes, instr);
    if (config_.strict) {
        placed_ = true;
        throw Fault(kind, whole);
    }
    if (!reported_.insert({kind, instr}).second) return;
    findings_.push_back({kind, std::move(whole)});
    finding_grid_.push_back(warp ? warp->cta->grid->index : 0);
}

/// The finding that stopped the run.
void Simulation::record(FindingKind kind, const std::string& text) {
    stopped_grid_ = current_.warp ? current_.warp->cta->grid->index : 0;
    std::string whole = placed_ ? text : named(kind, text) + where(current_.warp, current_.lanes, current_.instr);
    findings_.push_back({kind, std::move(whole)});
    finding_grid_.push_back(stopped_grid_);
}

void Simulation::finding(FindingKind kind, const std::string& text) {
    // A race between a programmatic grid and a grid that it depends on is a read before griddepcontrol.wait.
    if (kind == FindingKind::race || kind == FindingKind::proxy_race)
        for (uint32_t later : described_grids_)
            for (const GridRun* before : grids_[later]->prerequisites)
                if (grids_[later]->launch->programmatic && described_grids_.contains(before->index))
                    kind = FindingKind::pdl_order;
    described_grids_.clear();
    report(kind, text, current_.warp, current_.lanes, current_.instr);
}

std::string Simulation::describe(ActorId actor) {
    if (auto operation = operation_of_actor_.find(actor); operation != operation_of_actor_.end()) {
        const OperationName& name = operation->second;
        described_grids_.insert(name.grid);
        std::string text = name.what;
        if (name.instr)
            text += " issued at " + instruction_text(*grids_[name.grid]->launch->program->module, *name.instr);
        return text + " by " + describe(name.issuer);
    }
    auto after = warp_of_actor_.upper_bound(actor);
    if (after == warp_of_actor_.begin()) return "an asynchronous operation";
    const auto& [first, name] = *std::prev(after);
    if (actor - first >= kLanes) return "an asynchronous operation";
    described_grids_.insert(name.grid);
    const Dim3& block = grids_[name.grid]->launch->block;
    uint32_t linear = name.warp * kLanes + (actor - first);
    Dim3 thread{linear % block.x, linear / block.x % block.y, linear / block.x / block.y};
    return fmt::format("thread {} of CTA {}, grid {}", triple(thread), triple(name.cta), name.grid);
}

std::vector<GridResult> Simulation::results() const {
    std::vector<GridResult> results(grids_.size());
    for (size_t i = 0; i < grids_.size(); ++i) {
        const GridRun& grid = *grids_[i];
        GridResult& result = results[i];
        result.start_cycle = grid.start_cycle;
        result.end_cycle = grid.ended ? grid.end_cycle : last_event_;
        result.instructions = grid.instructions;
        result.counters = counters_;
        for (size_t k = 0; k < findings_.size(); ++k)
            if (finding_grid_[k] == i) result.findings.push_back(findings_[k]);
        if (stopped_ && !grid.ended) {
            result.ok = false;
            result.finding = findings_.back();
            if (i != stopped_grid_) result.finding.text = "stopped with the batch: " + result.finding.text;
        }
    }
    return results;
}

}  // namespace nvfp4r::sim
