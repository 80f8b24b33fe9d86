// The simulated GPU as its driver sees it: memory, modules, grids.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/check/report.hpp"
#include "sim/machine/config.hpp"
#include "sim/program/instr.hpp"

namespace nvfp4r::sim {

struct Dim3 {
    uint32_t x = 1, y = 1, z = 1;
    uint64_t count() const { return uint64_t{x} * y * z; }
};

/// A module on a GPU: its globals have addresses, its entries are decoded when first asked for.
class LoadedModule {
  public:
    virtual ~LoadedModule() = default;
    virtual const Module& module() const = 0;
    /// Decoded entry; nullptr when there is none of that name. Throws when it uses what the simulator does not model.
    virtual const Program* entry(std::string_view name) = 0;
    /// Address and size of a .global or .const variable; false when there is none.
    virtual bool global(std::string_view name, uint64_t& address, uint64_t& bytes) const = 0;
};

/// One grid to run.
struct GridLaunch {
    const Program* program = nullptr;
    Dim3 grid, block, cluster;  // cluster 1,1,1 with explicit_cluster false: launched without a cluster
    bool explicit_cluster = false;
    uint32_t dynamic_shared = 0;
    std::vector<uint8_t> params;  // the entry's parameter block
    std::vector<size_t> after;    // indices of grids in the same batch that must come first
    bool programmatic =
        false;         // programmatic dependent launch: may start once every CTA of `after` has triggered or ended
    std::string name;  // for reports and traces
};

struct GridResult {
    bool ok = true;
    Finding finding;                           // what stopped it, when !ok
    std::vector<Finding> findings;             // permissive mode: all of them
    uint64_t start_cycle = 0, end_cycle = 0;   // simulated clock
    uint64_t instructions = 0;                 // warp instructions
    std::map<std::string, uint64_t> counters;  // of the whole batch: instructions by class, bytes by engine, waits
};

class Gpu {
  public:
    static std::unique_ptr<Gpu> create(const GpuConfig& config);
    virtual ~Gpu() = default;
    virtual const GpuConfig& config() const = 0;

    /// Device memory. A device address is the host address of its backing store, so host code that holds one may print
    /// it, and pinned host memory is reachable from kernels at its own address. New memory counts as unwritten. Returns
    /// 0 when there is no room. `name` appears in reports. Every allocation is surrounded by guard space no access may
    /// touch.
    virtual uint64_t allocate(uint64_t bytes, uint64_t align, std::string_view name) = 0;
    virtual bool release(uint64_t address) = 0;
    /// Makes host memory reachable from kernels (pinned memory); counts as written.
    virtual void register_host(void* memory, uint64_t bytes, std::string_view name) = 0;
    virtual bool unregister_host(void* memory) = 0;
    /// The allocation that holds [address, address + bytes), for range checks of host copies; false when none does.
    virtual bool find(uint64_t address, uint64_t bytes, uint64_t& base, uint64_t& size) const = 0;
    /// Host copies. The range must lie in one allocation (false otherwise). Reading unwritten bytes is allowed here.
    virtual bool write(uint64_t address, const void* from, uint64_t bytes) = 0;
    virtual bool read(uint64_t address, void* to, uint64_t bytes) const = 0;

    virtual std::shared_ptr<LoadedModule> load(std::string_view ptx) = 0;

    /// Runs a batch of grids to completion; those without an `after` edge between them run at the same time. One result
    /// a grid.
    virtual std::vector<GridResult> run(std::span<const GridLaunch> grids) = 0;
    virtual uint64_t cycle() const = 0;  // simulated clock, advanced by run
};

}  // namespace nvfp4r::sim
