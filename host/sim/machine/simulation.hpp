// One batch of grids running: places CTAs, takes turns among warps and engines, collects findings.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "sim/machine/machine.hpp"
#include "sim/machine/memory.hpp"
#include "sim/machine/random.hpp"
#include "sim/machine/residency.hpp"
#include "sim/trace/trace.hpp"

namespace nvfp4r::sim {

class Simulation final : public Machine, public Checker::Sink {
  public:
    Simulation(const GpuConfig& config, DeviceMemory& memory, Checker* checker, Trace* trace, uint64_t start_cycle);
    ~Simulation() override;
    std::vector<GridResult> run(std::span<const GridLaunch> launches);

    // --- Machine ---
    const GpuConfig& config() const override { return config_; }
    Checker* checker() override { return checker_; }
    uint64_t cycle() const override { return now_; }
    uint64_t random() override { return random_.next(); }
    void progress() override;
    void report(FindingKind kind, const std::string& text, const Warp* warp, LaneMask lanes,
                const Instr* instr) override;
    Place place(const Warp& warp, uint32_t lane, StateSpace space, uint64_t address, uint64_t bytes, uint32_t align,
                const Instr* instr) override;
    Place place(Cta& cta, StateSpace space, uint64_t address, uint64_t bytes, uint32_t align,
                const Instr* instr) override;
    Cta& shared_owner(Cta& cta, uint32_t address, bool cluster_form, uint32_t& offset, const Instr* instr) override;
    Mbarrier& mbarrier(Cta& owner, uint32_t offset, const Instr* instr) override;
    AsyncQueue& queue(Cta& cta, uint64_t key, const char* name) override;
    void issue(AsyncQueue& queue, AsyncOp op) override;
    void issue_free(Cta& cta, AsyncOp op) override;
    std::shared_ptr<void>& sm_state(uint32_t sm) override { return sm_state_[sm]; }
    void count(const char* counter, uint64_t amount) override { counters_[counter] += amount; }

    // --- Checker::Sink ---
    void finding(FindingKind kind, const std::string& text) override;
    std::string describe(ActorId actor) override;

  private:
    /// Names a warp after its CTA is gone.
    struct WarpName {
        uint32_t grid = 0;
        Dim3 cta;
        uint32_t warp = 0;
    };
    /// The instruction that runs now, for findings of the checker and the engines.
    struct Current {
        const Warp* warp = nullptr;
        const Instr* instr = nullptr;
        LaneMask lanes = 0;
        const AsyncOp* op = nullptr;
    };

    // launch.cpp: grids, clusters and CTAs come and go
    void prepare(std::span<const GridLaunch> launches);
    bool may_start(const GridRun& grid) const;
    bool start_clusters();
    void start_grid(GridRun& grid);
    void start_cluster(GridRun& grid, uint64_t index, const std::vector<uint32_t>& sms);
    void start_cta(Cta& cta, const Program& program);
    void exit_cta(Cta& cta);
    void settle();
    SyncClock join(const std::vector<const SyncClock*>& clocks);

    // step.cpp: one instruction of one warp
    bool step(Warp& warp);
    LaneMask choose(Warp& warp);
    LaneMask lowest_group(const Warp& warp, LaneMask among) const;
    void wake(Warp& warp);
    void retire(Warp& warp, LaneMask lanes);
    void watch_fairness(Warp& warp, LaneMask group, const Instr& instr);

    // schedule.cpp: who is next
    void loop();
    bool pass_in_turn();
    bool pass_random();
    bool run_burst(Warp& warp, uint32_t instructions);
    bool all_spinning() const;
    bool held_back(const Warp& warp) const;
    bool fire(AsyncQueue& queue);
    bool fire_due(uint64_t horizon);
    bool fire_earliest();
    bool fire_any();
    bool fire_all();

    // deadlock.cpp
    [[noreturn]] void deadlock(const char* why);
    std::string standing(const Warp& warp) const;

    // timeline.cpp
    void trace_instruction(const Warp& warp, const Instr& instr);
    void trace_wait(const Warp& warp, const Instr& instr);
    void trace_operation(const AsyncOp& op);
    uint64_t trace_process(const Cta& cta);

    // report.cpp
    std::string where(const Warp* warp, LaneMask lanes, const Instr* instr) const;
    void record(FindingKind kind, const std::string& text);
    std::vector<GridResult> results() const;

    Place place_in_window(Cta& cta, StateSpace space, uint64_t address, uint64_t bytes, uint32_t align,
                          const Instr* instr);
    Place place_in_global(uint64_t address, uint64_t bytes, uint32_t align);
    Place place_in_shared(Cta& owner, uint32_t offset, uint64_t bytes, uint32_t align);

    const GpuConfig& config_;
    DeviceMemory& memory_;
    Checker* checker_;
    Random random_;
    Residency residency_;
    Trace* trace_;  // nullptr: none
    std::span<const GridLaunch> launches_;
    std::vector<std::unique_ptr<GridRun>> grids_;
    std::vector<std::vector<uint64_t>> waiting_;  // of each grid: clusters not yet started, last first
    std::vector<std::unique_ptr<Cluster>> clusters_;
    std::vector<Warp*> warps_;  // with live lanes, in order of start
    std::vector<std::shared_ptr<AsyncQueue>> busy_;
    std::vector<uint64_t> sm_issue_;  // issue slots used, four a cycle
    std::map<uint32_t, std::shared_ptr<void>> sm_state_;
    std::map<std::string, uint64_t> counters_;
    std::map<ActorId, WarpName> warp_of_actor_;  // by the actor of lane 0
    struct OperationName {
        const char* what = "";
        const Instr* instr = nullptr;
        ActorId issuer = kNoActor;
        uint32_t grid = 0;
    };
    std::map<ActorId, OperationName> operation_of_actor_;
    std::vector<Finding> findings_;
    std::vector<uint32_t> finding_grid_;
    std::set<std::pair<FindingKind, const Instr*>> reported_;
    std::set<uint32_t> described_grids_;  // grids of the actors that the checker asked about for the next finding
    Current current_;
    uint64_t now_ = 0;
    uint64_t last_event_ = 0;  // cycle of the last change of state
    uint64_t mark_ = 1;        // changes of state so far
    uint64_t idle_steps_ = 0;  // instructions since the last change
    uint64_t idle_fires_ = 0;  // parts of operations since the last change
    uint64_t held_ = 0;        // hold_warp, hold_cta: which
    bool ctas_left_ = false;   // some CTA exited: settle() has work
    bool stopped_ = false;
    bool placed_ = false;  // the fault on its way already says where
    uint32_t stopped_grid_ = 0;
    std::map<const Cta*, uint64_t> trace_processes_;
    std::map<std::string, uint64_t> trace_tracks_;
    std::set<std::pair<uint64_t, uint64_t>> trace_named_;
};

}  // namespace nvfp4r::sim
