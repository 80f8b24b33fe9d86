// Happens-before checking: vector clocks over threads and asynchronous operations, shadow memory for every byte.
//
// An actor is a thread or one asynchronous operation (a TMA copy, an MMA, a tcgen05.ld ...). Each actor carries two
// views of the past: `generic`, what happened before it, and `async`, that part of it which a proxy fence has made
// visible to the async proxy (PTX ISA, memory consistency model, "proxies"). An access conflicts with an earlier one to
// the same byte that it is not ordered after in the view that its proxy needs. tcgen05 operations use a third view that
// only tcgen05.fence::after_thread_sync brings up to date (PTX ISA 9.7.16.6).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "sim/check/report.hpp"

namespace nvfp4r::sim {

class Clock;  // immutable vector clock, shared between actors that know the same past
struct Instr;

using ActorId = uint32_t;
inline constexpr ActorId kNoActor = ~0u;

/// What a release leaves in a synchronising object (a barrier phase, a flag, a queue) for those who acquire from it.
struct SyncClock {
    std::shared_ptr<const Clock> generic, async;
    bool empty() const { return generic == nullptr; }
};

enum class Access : uint8_t { read, write };
enum class Proxy : uint8_t { generic, async };

/// Strength of an access: weak, or strong at CTA, cluster or a wider scope. Two strong accesses whose scopes include each
/// other's thread never race (PTX ISA, memory consistency model, "morally strong operations").
enum class Order : uint8_t { weak, relaxed_cta, relaxed_cluster, relaxed };

/// How an access is made; what the report quotes.
struct AccessInfo {
    Access access = Access::read;
    Proxy proxy = Proxy::generic;
    Order order = Order::weak;
    const Instr* instr = nullptr;
};

/// Memory that the checker shadows: one CTA's shared memory, one global allocation, one SM's TMEM, one thread's
/// registers are not.
class Shadow;

class Checker {
  public:
    /// `sink` receives every finding (once for each pair of instructions and kind); in strict mode it throws Fault.
    class Sink {
      public:
        virtual ~Sink() = default;
        virtual void finding(FindingKind kind, const std::string& text) = 0;
        /// "thread (3,0,0) of CTA (1,0,0), grid 0"; called only when a report is written.
        virtual std::string describe(ActorId actor) = 0;
    };

    explicit Checker(Sink& sink);
    ~Checker();

    /// Everything so far (earlier runs, the host) now lies before everything that follows; actor ids start again.
    void new_run();

    // --- actors ---
    /// A CTA of `count` new threads that inherit `from` (the launch: what the host and earlier grids did). `cluster` is
    /// the same for the CTAs of one cluster and for no others. Returns the first id.
    ActorId new_threads(uint32_t count, const SyncClock& from, uint64_t cluster = 0);
    /// An asynchronous operation started by `issuer`; it knows what the issuer knew. `proxy`: the one it accesses
    /// memory by. tcgen05: it is one of tcgen05.{mma,cp,shift,ld,st}, ordered by the tcgen05 view.
    ActorId begin_async(ActorId issuer, bool tcgen05);
    /// Orders `later` after everything `earlier` did and knew (pipes that are in order: mma -> mma, cp -> mma, ld ->
    /// wait::ld).
    void order(ActorId earlier, ActorId later);
    /// The operation is over; its id may be reused once nothing in flight refers to it.
    void end_async(ActorId op);
    /// The threads are gone.
    void end_threads(ActorId first, uint32_t count);

    // --- synchronisation ---
    /// into = into joined with what the actor did and knows; the actor enters a new epoch.
    void release(ActorId actor, SyncClock& into);
    void acquire(ActorId actor, const SyncClock& from);
    /// Lanes of a warp ordered among themselves (bar.warp.sync, shfl.sync ...): first + i for each set bit of `lanes`.
    void warp_sync(ActorId first, uint32_t lanes);
    void fence_proxy_async(ActorId actor);
    void tcgen05_fence_before(ActorId actor);
    void tcgen05_fence_after(ActorId actor);
    /// tcgen05.wait::ld / ::st: `op`, not yet ended, becomes part of the actor's own tcgen05 past.
    void tcgen05_wait(ActorId actor, ActorId op);

    /// The actor's epoch, for is_before: what it does now.
    uint32_t epoch_of(ActorId actor);
    /// Whether an instruction of `earlier`'s whole warp in that epoch happened before what `later` does now.
    bool is_before(ActorId earlier, uint32_t epoch, ActorId later) const;

    // --- memory ---
    std::shared_ptr<Shadow> new_shadow(std::string name, uint64_t bytes, bool written);
    /// [offset, offset + bytes) of a shadow. Reports races, missing proxy fences and (reads) unwritten bytes.
    void access(ActorId actor, Shadow& shadow, uint64_t offset, uint64_t bytes, const AccessInfo& info);
    /// Lanes `first`, `first + 1` ... `first + count - 1` each access `bytes` bytes, one lane after the other: the same
    /// as `count` calls of access with the offset advancing.
    void access_run(ActorId first, uint32_t count, Shadow& shadow, uint64_t offset, uint64_t bytes,
                    const AccessInfo& info);
    /// The host wrote (or a finished grid's result is now plainly visible): clears history, marks as written.
    void host_write(Shadow& shadow, uint64_t offset, uint64_t bytes);
    /// The bytes count as never written (a new allocation, a fresh CTA, tcgen05.dealloc).
    void forget(Shadow& shadow, uint64_t offset, uint64_t bytes);
    bool written(const Shadow& shadow, uint64_t offset, uint64_t bytes) const;
    /// TMEM cells are addressed as (lane * 512 + column) * 4 in a shadow of 128 * 512 * 4 bytes; `tmem` picks the
    /// tcgen05 view.
    void tmem_access(ActorId actor, Shadow& shadow, uint32_t lane, uint32_t column, uint32_t columns,
                     const AccessInfo& info);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace nvfp4r::sim
