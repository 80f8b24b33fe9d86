// The machine while grids run: CTAs, warps, shared memory, barriers, asynchronous work. Instructions and engines act on
// this.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/check/checker.hpp"
#include "sim/machine/gpu.hpp"
#include "sim/machine/mbarrier.hpp"
#include "sim/program/instr.hpp"

namespace nvfp4r::sim {

class Cta;
class Cluster;
class GridRun;
class Machine;

// Shared-memory windows (hopper-measured): a shared::cluster address is rank << 24 | offset, a CTA's own .shared
// addresses carry its rank in a cluster launch, and the first 1 KiB is reserved by the system.
inline constexpr uint32_t kSharedRankShift = 24;
inline constexpr uint32_t kSharedOffsetMask = (1u << kSharedRankShift) - 1;
inline constexpr uint32_t kSharedReserved = 0x400;
// Generic addresses: window base + the same 32 bits.
inline constexpr uint64_t kSharedWindow = 0x7e00'0000'0000ull;
inline constexpr uint64_t kLocalWindow = 0x7e80'0000'0000ull;  // + per-thread offset
inline constexpr uint64_t kParamWindow = 0x7ec0'0000'0000ull;  // entry parameter block

/// 32 lane values of one operand.
using Lanes = std::array<uint64_t, kLanes>;

/// Lane values of a special register, by the parser's number for it (host/sim/instr defines it).
void read_special(const Warp& warp, uint32_t which, Lanes& out, LaneMask lanes);

/// Why a warp's lanes do not run, for deadlock reports, and when to try them again.
struct Wait {
    std::function<bool()> ready;  // empty: runnable
    std::string (*describe)(const Warp& warp) = nullptr;
};

class Warp {
  public:
    Cta* cta = nullptr;
    uint32_t index = 0;    // within the CTA
    LaneMask present = 0;  // lanes that have a thread
    LaneMask live = 0;     // not yet exited
    std::array<uint32_t, kLanes> pc{};
    ActorId first_actor = kNoActor;  // actor of lane 0; lane l is first_actor + l

    /// 32 values of a register slot.
    uint64_t* reg(uint32_t slot) { return registers.data() + uint64_t{slot} * kLanes; }
    const uint64_t* reg(uint32_t slot) const { return registers.data() + uint64_t{slot} * kLanes; }
    LaneMask& pred(uint32_t slot) { return predicates[slot]; }

    /// Lane values of a source: the register file itself, or `scratch` filled with the immediate or special register.
    /// Reports reads of registers that an unfinished asynchronous load (tcgen05.ld, wgmma) still owns.
    const uint64_t* read(const Src& src, Lanes& scratch, LaneMask lanes);
    LaneMask read_pred(const Src& src, LaneMask lanes) const;
    /// Destination register for writing; ~0u (sink) gives `scratch`. Same report for pending registers.
    uint64_t* write(uint32_t slot, Lanes& scratch, LaneMask lanes);
    /// Byte addresses [base + offset] of the lanes.
    void addresses(const Addr& addr, Lanes& out, LaneMask lanes);

    /// Registers that asynchronous operations own until a wait; see read/write.
    void set_pending(uint32_t slot, LaneMask lanes, const char* what);
    void clear_pending(const char* what);  // nullptr: all

    /// Blocks `lanes` at their current instruction until `ready`; the instruction then runs again.
    void block(LaneMask lanes, std::function<bool()> ready, std::string (*describe)(const Warp&));

    /// %tid of a lane.
    Dim3 thread(uint32_t lane) const;
    Machine& machine() const;

    std::vector<uint64_t> registers;
    std::vector<LaneMask> predicates;
    std::vector<std::vector<uint32_t>> call_stack;  // per lane, return addresses
    std::vector<uint8_t> local;                     // local_bytes * 32, lane after lane
    struct Blocked {
        LaneMask lanes;
        Wait wait;
    };
    std::vector<Blocked> blocked;
    struct Pending {
        uint32_t slot;
        LaneMask lanes;
        const char* what;
    };
    std::vector<Pending> pending;
    uint64_t instructions = 0;

    // Scheduling.
    uint64_t time = 0;           // simulated cycle at which the warp can issue again
    bool asleep = false;         // no lane group could run when last tried
    uint64_t polled = 0;         // progress mark at which the blocked lanes were last asked
    uint64_t spin_mark = 0;      // progress mark of `spins`
    uint32_t spins = 0;          // polls executed since that mark
    uint32_t group_steps = 0;    // how long one lane group has run while others could
    LaneMask favoured = 0;       // lanes that go first for a while, so that a spinning group starves nobody
    LaneMask blocked_lanes = 0;  // union of `blocked`

    // State that one instruction family keeps for a warp or its lanes, by the family's own key (bulk groups, wgmma
    // groups ...).
    std::map<uint32_t, std::shared_ptr<void>> family_state;
    template <class T>
    T& state(uint32_t family_key) {
        auto& slot = family_state[family_key];
        if (!slot) slot = std::make_shared<T>();
        return *static_cast<T*>(slot.get());
    }
};

/// One unit of asynchronous work.
struct AsyncOp {
    const char* what = "";     // "TMA load", "tcgen05.mma" ... track name of the trace
    ActorId actor = kNoActor;  // for the trace and reports; the engine begins it and ends it in its last part
    Cta* cta = nullptr;        // issuer
    uint32_t warp = 0, lane = 0;
    const Instr* instr = nullptr;
    uint64_t issued = 0;   // cycle
    uint32_t latency = 1;  // simulated cycles for the clock and the trace (an estimate)
    uint64_t bytes = 0;    // counters
    /// The issuer may not exit yet: the operation still uses its shared memory. Operations that have read their source
    /// set it to false.
    bool holds_cta = true;
    /// Performs the next part; true when the whole is done. Several parts let others see it half done.
    std::function<bool(AsyncOp&)> run;
};

/// Operations of one queue complete in order (a thread's tensor pipe); different queues are free of each other.
class AsyncQueue {
  public:
    std::deque<AsyncOp> ops;
    uint64_t busy_until = 0;  // cycle at which the last finished operation ended
    Cta* cta = nullptr;
    const char* name = "";
    bool idle() const { return ops.empty(); }
};

class Cta {
  public:
    Cluster* cluster = nullptr;
    GridRun* grid = nullptr;
    Dim3 id;            // %ctaid
    uint32_t rank = 0;  // %cluster_ctarank
    uint32_t sm = 0;
    std::vector<uint8_t> shared;  // indexed by window offset; [0, kSharedReserved) is not accessible
    std::shared_ptr<Shadow> shared_shadow;
    std::vector<std::unique_ptr<Warp>> warps;
    std::unordered_map<uint32_t, Mbarrier> mbarriers;        // by window offset
    std::map<uint64_t, std::shared_ptr<AsyncQueue>> queues;  // by an engine's own key
    bool exited = false;
    uint32_t live_threads = 0;
    bool launched_dependents = false;
    uint32_t in_flight = 0;   // operations that will still use this CTA's shared memory or signal its mbarriers
    uint32_t operations = 0;  // issued by this CTA and not finished
    std::map<uint32_t, std::shared_ptr<void>> family_state;
    // Called in order once the last thread is gone, before the CTA's place is given away (TMEM leak check ...).
    std::vector<std::function<void(Cta&)>> at_exit;

    Machine& machine() const;
    /// Own .shared address of a window offset (with rank bits in a cluster launch).
    uint32_t shared_address(uint32_t offset) const;
};

class Cluster {
  public:
    GridRun* grid = nullptr;
    Dim3 id;                                 // %clusterid
    std::vector<std::unique_ptr<Cta>> ctas;  // by rank
    std::map<uint32_t, std::shared_ptr<void>> family_state;
};

/// One grid of the batch that runs.
class GridRun {
  public:
    Machine* machine = nullptr;
    const GridLaunch* launch = nullptr;
    uint32_t index = 0;         // within the batch
    uint64_t shared_bytes = 0;  // of each CTA, the reserved first KiB included
    uint64_t ctas = 0;          // in all
    uint64_t started_ctas = 0;
    uint64_t triggered_ctas = 0;  // executed griddepcontrol.launch_dependents or exited
    uint64_t exited_ctas = 0;
    uint64_t operations = 0;  // asynchronous operations of its CTAs in flight
    bool ended = false;       // every CTA exited and nothing is in flight
    SyncClock start_clock;    // what its threads know when they start
    SyncClock end_clock;      // what its threads did
    std::vector<GridRun*> prerequisites;
    uint64_t start_cycle = 0, end_cycle = 0, instructions = 0;

    /// Ended, and everything before it too.
    bool complete() const;
};

/// Services that instructions and engines use. One for each Gpu::run.
class Machine {
  public:
    virtual ~Machine() = default;
    virtual const GpuConfig& config() const = 0;
    virtual Checker* checker() = 0;  // nullptr: unchecked
    virtual uint64_t cycle() const = 0;
    virtual uint64_t random() = 0;  // seeded

    /// Notes that machine state changed (a store, an arrive, an allocation): spinning warps may see something new.
    virtual void progress() = 0;
    /// Reports a finding: throws Fault in strict mode, collects it in permissive mode. The text gets the place of
    /// `warp` and `instr` appended.
    virtual void report(FindingKind kind, const std::string& text, const Warp* warp, LaneMask lanes,
                        const Instr* instr) = 0;

    // --- memory by address ---
    /// One access of `bytes` bytes in a state space (generic addresses are sorted into their window). Checks bounds,
    /// alignment and the CTA's life, and returns the host bytes; the caller tells the checker how it accesses them
    /// (Checker::access with shadow and offset). Throws Fault when there are none.
    struct Place {
        uint8_t* bytes = nullptr;
        Shadow* shadow = nullptr;
        uint64_t offset = 0;   // within the shadow
        Cta* owner = nullptr;  // shared memory
        uint64_t room = 0;     // bytes from here to the end of the allocation
    };
    virtual Place place(const Warp& warp, uint32_t lane, StateSpace space, uint64_t address, uint64_t bytes,
                        uint32_t align, const Instr* instr) = 0;
    /// The same for engines: `cta` issued the operation.
    virtual Place place(Cta& cta, StateSpace space, uint64_t address, uint64_t bytes, uint32_t align,
                        const Instr* instr) = 0;
    /// The CTA and window offset of a shared::cluster or shared::cta address. Throws Fault for a rank that is not there
    /// or (own form) that lacks the own rank.
    virtual Cta& shared_owner(Cta& cta, uint32_t address, bool cluster_form, uint32_t& offset, const Instr* instr) = 0;

    // --- mbarriers (objects in Cta::mbarriers) ---
    virtual Mbarrier& mbarrier(Cta& owner, uint32_t offset, const Instr* instr) = 0;  // throws when not initialised

    // --- asynchronous work ---
    /// Queue of a CTA by key, made when new. Keys are chosen by the engines (see engine/queues.hpp).
    virtual AsyncQueue& queue(Cta& cta, uint64_t key, const char* name) = 0;
    virtual void issue(AsyncQueue& queue, AsyncOp op) = 0;
    /// A queue of its own, gone when empty: for operations that are free of all others (TMA copies, st.async).
    virtual void issue_free(Cta& cta, AsyncOp op) = 0;

    // --- what the CTAs resident on one SM share ---
    /// Made empty when first asked for; engine/tmem.hpp keeps the tensor memory here.
    virtual std::shared_ptr<void>& sm_state(uint32_t sm) = 0;

    /// State that one instruction family keeps for the whole run, by the family's key.
    std::map<uint32_t, std::shared_ptr<void>> family_state;

    // --- trace and counters ---
    virtual void count(const char* counter, uint64_t amount) = 0;
};

}  // namespace nvfp4r::sim
