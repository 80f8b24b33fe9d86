// Grids, clusters and CTAs come and go: what may start, where it is placed, what its threads know, what leaving needs.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "sim/machine/cost.hpp"
#include "sim/machine/simulation.hpp"

namespace nvfp4r::sim {

Simulation::Simulation(const GpuConfig& config, DeviceMemory& memory, Checker* checker, Trace* trace,
                       uint64_t start_cycle)
    : config_(config),
      memory_(memory),
      checker_(checker),
      random_(config.seed),
      residency_(config),
      trace_(trace),
      sm_issue_(config.sms, start_cycle * cost::kIssuesPerCycle),
      now_(start_cycle),
      last_event_(start_cycle) {}

Simulation::~Simulation() = default;

void Simulation::prepare(std::span<const GridLaunch> launches) {
    launches_ = launches;
    const bool shuffled = config_.policy >= Policy::random;
    for (const GridLaunch& launch : launches) {
        auto grid = std::make_unique<GridRun>();
        grid->machine = this;
        grid->launch = &launch;
        grid->index = static_cast<uint32_t>(grids_.size());
        grid->ctas = launch.grid.count();
        for (size_t before : launch.after) grid->prerequisites.push_back(grids_.at(before).get());
        // Bytes of window that a CTA owns: what its declaration asks for, not rounded, so that overruns are seen.
        grid->shared_bytes = launch.dynamic_shared ? launch.program->dynamic_shared + launch.dynamic_shared
                                                   : kSharedReserved + launch.program->static_shared;
        std::vector<uint64_t> order(grid->ctas / launch.cluster.count());
        for (size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
        // The order in which CTAs start is not promised; the random policies use that.
        if (shuffled)
            for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_.below(i)]);
        waiting_.push_back(std::move(order));
        grids_.push_back(std::move(grid));
    }
    held_ = random_.next();
}

SyncClock Simulation::join(const std::vector<const SyncClock*>& clocks) {
    SyncClock joined;
    if (clocks.empty()) return joined;
    ActorId helper = checker_->new_threads(1, *clocks[0]);
    for (size_t i = 1; i < clocks.size(); ++i) checker_->acquire(helper, *clocks[i]);
    checker_->release(helper, joined);
    checker_->end_threads(helper, 1);
    return joined;
}

bool Simulation::may_start(const GridRun& grid) const {
    return std::all_of(grid.prerequisites.begin(), grid.prerequisites.end(), [&](const GridRun* before) {
        return grid.launch->programmatic ? before->triggered_ctas == before->ctas : before->complete();
    });
}

void Simulation::start_grid(GridRun& grid) {
    grid.start_cycle = now_;
    if (!checker_ || grid.prerequisites.empty()) return;
    // A programmatic launch makes nothing of the prerequisite grids visible before griddepcontrol.wait (PTX ISA
    // 9.7.13.14): its threads know what the prerequisites knew when they started.
    std::vector<const SyncClock*> clocks;
    for (const GridRun* before : grid.prerequisites) {
        const SyncClock& clock = grid.launch->programmatic ? before->start_clock : before->end_clock;
        if (!clock.empty()) clocks.push_back(&clock);
    }
    grid.start_clock = join(clocks);
}

bool Simulation::start_clusters() {
    bool any = false;
    for (size_t i = 0; i < grids_.size(); ++i) {
        GridRun& grid = *grids_[i];
        if (waiting_[i].empty() || !may_start(grid)) continue;
        CtaNeeds needs = needs_of(config_, *grid.launch);
        const uint32_t ctas = static_cast<uint32_t>(grid.launch->cluster.count());
        while (!waiting_[i].empty()) {
            std::vector<uint32_t> sms = residency_.take(needs, ctas);
            if (sms.empty()) break;
            if (grid.started_ctas == 0) start_grid(grid);
            uint64_t index = waiting_[i].back();
            waiting_[i].pop_back();
            start_cluster(grid, index, sms);
            any = true;
        }
    }
    if (any) progress();
    return any;
}

void Simulation::start_cluster(GridRun& grid, uint64_t index, const std::vector<uint32_t>& sms) {
    const GridLaunch& launch = *grid.launch;
    const Dim3& shape = launch.cluster;
    Dim3 clusters{launch.grid.x / shape.x, launch.grid.y / shape.y, launch.grid.z / shape.z};
    auto cluster = std::make_unique<Cluster>();
    cluster->grid = &grid;
    cluster->id = {static_cast<uint32_t>(index % clusters.x), static_cast<uint32_t>(index / clusters.x % clusters.y),
                   static_cast<uint32_t>(index / clusters.x / clusters.y)};
    for (uint32_t rank = 0; rank < sms.size(); ++rank) {
        auto cta = std::make_unique<Cta>();
        cta->cluster = cluster.get();
        cta->grid = &grid;
        cta->rank = rank;
        cta->sm = sms[rank];
        cta->id = {cluster->id.x * shape.x + rank % shape.x, cluster->id.y * shape.y + rank / shape.x % shape.y,
                   cluster->id.z * shape.z + rank / shape.x / shape.y};
        start_cta(*cta, *launch.program);
        cluster->ctas.push_back(std::move(cta));
    }
    clusters_.push_back(std::move(cluster));
    grid.started_ctas += sms.size();
}

void Simulation::start_cta(Cta& cta, const Program& program) {
    const GridLaunch& launch = *cta.grid->launch;
    const uint32_t threads = static_cast<uint32_t>(launch.block.count());
    const uint32_t warps = (threads + kLanes - 1) / kLanes;
    cta.shared.assign(cta.grid->shared_bytes, 0);
    cta.live_threads = threads;
    ActorId first = kNoActor;
    if (checker_) {
        // How many CTAs of the grid started before its cluster did: a number that no other cluster has.
        const uint64_t cluster = uint64_t{cta.grid->index} << 32 | cta.grid->started_ctas;
        first = checker_->new_threads(warps * kLanes, cta.grid->start_clock, cluster);
        cta.shared_shadow = checker_->new_shadow(
            fmt::format("shared memory of CTA ({},{},{})", cta.id.x, cta.id.y, cta.id.z), cta.shared.size(), false);
    }
    sm_issue_[cta.sm] = std::max(sm_issue_[cta.sm], last_event_ * cost::kIssuesPerCycle);
    for (uint32_t index = 0; index < warps; ++index) {
        auto warp = std::make_unique<Warp>();
        uint32_t lanes = std::min(threads - index * kLanes, kLanes);
        warp->cta = &cta;
        warp->index = index;
        warp->present = warp->live = lanes == kLanes ? ~0u : (1u << lanes) - 1;
        warp->time = last_event_;
        warp->registers.assign(uint64_t{program.registers} * kLanes, 0);
        warp->predicates.assign(program.predicates, 0);
        warp->call_stack.resize(kLanes);
        warp->local.assign(program.local_bytes * kLanes, 0);
        if (checker_) {
            warp->first_actor = first + index * kLanes;
            warp_of_actor_[warp->first_actor] = {cta.grid->index, cta.id, index};
        }
        warps_.push_back(warp.get());
        cta.warps.push_back(std::move(warp));
    }
}

void Simulation::exit_cta(Cta& cta) {
    for (auto& check : cta.at_exit) check(cta);
    if (cta.in_flight != 0) {
        std::string list;
        for (const auto& queue : busy_)
            for (const AsyncOp& op : queue->ops)
                if (op.cta == &cta)
                    list += fmt::format("\n  {} issued at line {}: `{}`", op.what,
                                        op.instr ? op.instr->statement->loc.ptx_line : 0,
                                        op.instr ? op.instr->statement->text : "");
        report(FindingKind::in_flight_exit,
               fmt::format("CTA ({},{},{}) exits with {} operations in flight that use its shared memory{}", cta.id.x,
                           cta.id.y, cta.id.z, cta.in_flight, list),
               current_.warp, current_.lanes, current_.instr);
    }
    cta.exited = true;
    ctas_left_ = true;
    GridRun& grid = *cta.grid;
    ++grid.exited_ctas;
    if (!cta.launched_dependents) ++grid.triggered_ctas;
    residency_.give_back(cta.sm, needs_of(config_, *grid.launch));
    progress();
}

/// Takes away what is over: warps without threads, clusters that nothing refers to, grids.
void Simulation::settle() {
    ctas_left_ = false;
    std::erase_if(warps_, [](const Warp* warp) { return warp->cta->exited; });
    std::erase_if(clusters_, [&](const std::unique_ptr<Cluster>& cluster) {
        for (const auto& cta : cluster->ctas)
            if (!cta->exited || cta->operations != 0) return false;
        for (const auto& cta : cluster->ctas) trace_processes_.erase(cta.get());
        if (checker_)
            for (const auto& cta : cluster->ctas)
                checker_->end_threads(cta->warps[0]->first_actor, static_cast<uint32_t>(cta->warps.size()) * kLanes);
        return true;
    });
    for (auto& grid : grids_) {
        if (grid->ended || grid->exited_ctas != grid->ctas || grid->operations != 0) continue;
        grid->ended = true;
        grid->end_cycle = last_event_;
        progress();
    }
}

std::vector<GridResult> Simulation::run(std::span<const GridLaunch> launches) {
    std::vector<GridResult> refused(launches.size());
    bool possible = true;
    for (size_t i = 0; i < launches.size(); ++i)
        if (auto why = launch_refusal(config_, launches[i])) {
            refused[i].ok = possible = false;
            refused[i].finding = {FindingKind::launch, fmt::format("{}: {}", launches[i].name, *why)};
        }
    if (!possible) {
        for (GridResult& result : refused)
            if (result.ok) {
                result.ok = false;
                result.finding = {FindingKind::launch, "not run: another grid of the batch cannot be launched"};
            }
        return refused;
    }
    prepare(launches);
    try {
        loop();
    } catch (const Fault& fault) {
        stopped_ = true;
        record(fault.kind(), fault.what());
    }
    return results();
}

}  // namespace nvfp4r::sim
