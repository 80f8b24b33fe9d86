// What the simulator finds: every diagnosis has a kind with a fixed name, so that tests can ask for it.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace nvfp4r::sim {

#define NVFP4R_SIM_FINDINGS(X)                                                         \
    X(race, "data race")                                                               \
    X(proxy_race, "missing proxy fence")                                               \
    X(tcgen05_order, "missing tcgen05 ordering")                                       \
    X(uninitialised, "read of unwritten memory")                                       \
    X(pending_register, "register of an unfinished asynchronous load")                 \
    X(out_of_bounds, "address out of bounds")                                          \
    X(misaligned, "misaligned address")                                                \
    X(illegal_instruction, "illegal instruction")                                      \
    X(illegal_descriptor, "illegal descriptor")                                        \
    X(divergence, "aligned instruction under divergence")                              \
    X(deadlock, "deadlock")                                                            \
    X(mbarrier_misuse, "mbarrier misuse")                                              \
    X(mbarrier_overflow, "mbarrier count overflow")                                    \
    X(stale_phase, "wait on a phase two behind")                                       \
    X(tmem_bounds, "TMEM access out of physical bounds")                               \
    X(tmem_unallocated, "unallocated TMEM columns accessed")                           \
    X(tmem_owner, "TMEM lanes of another warp")                                        \
    X(tmem_alignment, "TMEM address misaligned for the datapath")                      \
    X(tmem_alloc, "TMEM allocation granularity invalid")                               \
    X(tmem_alloc_phase, "phase invalid during TMEM alloc")                             \
    X(tmem_dealloc_foreign, "TMEM column being deallocated was not returned by alloc") \
    X(tmem_dealloc_unallocated, "unallocated TMEM columns being deallocated")          \
    X(tmem_sparse, "TMEM sparse mismatch")                                             \
    X(scale_copies, "copies of a scale factor differ")                                 \
    X(wgmma_fence, "missing wgmma.fence")                                              \
    X(tmem_leak, "TMEM not freed")                                                     \
    X(exited_cta, "access to the shared memory of a CTA that has exited")              \
    X(in_flight_exit, "CTA exits with asynchronous work in flight")                    \
    X(pdl_order, "read of a prerequisite grid's output before griddepcontrol.wait")    \
    X(launch, "launch not possible")                                                   \
    X(trap, "trap")

enum class FindingKind : uint8_t {
#define X(name, text) name,
    NVFP4R_SIM_FINDINGS(X)
#undef X
};
std::string_view finding_name(FindingKind kind);

struct Finding {
    FindingKind kind = FindingKind::race;
    std::string
        text;  // several lines: what, where (PTX line, source line), which threads, which address, both sides of a race
};

/// Thrown by instructions and engines to stop the launch at a finding that cannot be computed past.
class Fault : public std::runtime_error {
  public:
    Fault(FindingKind kind, const std::string& text) : std::runtime_error(text), kind_(kind) {}
    FindingKind kind() const noexcept { return kind_; }

  private:
    FindingKind kind_;
};

}  // namespace nvfp4r::sim
