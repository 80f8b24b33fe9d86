// The simulated GPU: memory, modules, batches of grids.
#include "sim/machine/gpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "core/error.hpp"
#include "sim/machine/memory.hpp"
#include "sim/machine/simulation.hpp"

namespace nvfp4r::sim {
namespace {

/// Hands the checker's findings to the batch that runs.
class FindingSink final : public Checker::Sink {
  public:
    Checker::Sink* batch = nullptr;
    void finding(FindingKind kind, const std::string& text) override {
        if (batch) batch->finding(kind, text);
    }
    std::string describe(ActorId actor) override { return batch ? batch->describe(actor) : "an earlier launch"; }
};

struct GpuState {
    explicit GpuState(const GpuConfig& wanted)
        : config(wanted), checker(wanted.check ? std::make_unique<Checker>(sink) : nullptr), memory(checker.get()) {
        if (!config.trace_file.empty()) trace = std::make_unique<Trace>(config.trace_file);
    }
    GpuConfig config;
    FindingSink sink;
    std::unique_ptr<Checker> checker;
    DeviceMemory memory;
    std::unique_ptr<Trace> trace;
    std::mutex mutex;
    uint64_t cycle = 0;
};

class ModuleOnGpu final : public LoadedModule {
  public:
    ModuleOnGpu(std::shared_ptr<GpuState> gpu, std::string_view ptx) : gpu_(std::move(gpu)), module_(parse_ptx(ptx)) {
        std::string target = fmt::format("sm_{}", gpu_->config.sm);
        const std::string& named = module_->target;
        const std::string family = named.substr(0, named.find_last_not_of("af") + 1);
        const bool exact = !named.empty() && named.back() == 'a';
        const bool older = !exact && family.size() > 3 && std::stoul(family.substr(3)) <= gpu_->config.sm;
        if (family != target && !older)
            fail(NVFP4R_UNSUPPORTED, "module for {}: the simulated GPU is {}; set NVFP4R_SIM_ARCH", named, target);
        for (Variable& variable : module_->globals) {
            if (variable.space != StateSpace::global && variable.space != StateSpace::constant) continue;
            place(variable);
        }
    }

    ~ModuleOnGpu() override {
        std::lock_guard lock(gpu_->mutex);
        for (uint64_t address : owned_) gpu_->memory.release(address);
    }

    const Module& module() const override { return *module_; }

    const Program* entry(std::string_view name) override {
        const Function* function = module_->find(name);
        if (!function || !function->is_entry) return nullptr;
        std::lock_guard lock(mutex_);
        std::unique_ptr<Program>& program = programs_[function];
        if (!program) program = decode_program(*module_, *function);
        return program.get();
    }

    bool global(std::string_view name, uint64_t& address, uint64_t& bytes) const override {
        for (const Variable& variable : module_->globals)
            if (variable.name == name &&
                (variable.space == StateSpace::global || variable.space == StateSpace::constant)) {
                address = variable.offset;
                bytes = variable.size;
                return true;
            }
        return false;
    }

  private:
    void place(Variable& variable) {
        std::lock_guard lock(gpu_->mutex);
        uint64_t address = gpu_->memory.allocate(variable.size, variable.align, variable.name);
        if (address == 0) fail(NVFP4R_OUT_OF_MEMORY, "variable {}: no room for {} bytes", variable.name, variable.size);
        owned_.push_back(address);
        variable.offset = address;
        // Memory fresh from the system is zero; a module's variables count as written.
        std::copy(variable.initial.begin(), variable.initial.end(), reinterpret_cast<uint8_t*>(address));
        const Allocation* allocation = gpu_->memory.at(address);
        if (gpu_->checker) gpu_->checker->host_write(*allocation->shadow, 0, variable.size);
    }

    std::shared_ptr<GpuState> gpu_;
    std::unique_ptr<Module> module_;
    std::map<const Function*, std::unique_ptr<Program>> programs_;
    std::vector<uint64_t> owned_;
    std::mutex mutex_;
};

class SimulatedGpu final : public Gpu {
  public:
    explicit SimulatedGpu(const GpuConfig& config) : state_(std::make_shared<GpuState>(config)) {}

    const GpuConfig& config() const override { return state_->config; }

    uint64_t allocate(uint64_t bytes, uint64_t align, std::string_view name) override {
        std::lock_guard lock(state_->mutex);
        return state_->memory.allocate(bytes, align, name);
    }
    bool release(uint64_t address) override {
        std::lock_guard lock(state_->mutex);
        return state_->memory.release(address);
    }
    void register_host(void* memory, uint64_t bytes, std::string_view name) override {
        std::lock_guard lock(state_->mutex);
        state_->memory.register_host(memory, bytes, name);
    }
    bool unregister_host(void* memory) override {
        std::lock_guard lock(state_->mutex);
        return state_->memory.unregister_host(memory);
    }
    bool find(uint64_t address, uint64_t bytes, uint64_t& base, uint64_t& size) const override {
        std::lock_guard lock(state_->mutex);
        const Allocation* allocation = state_->memory.holding(address, bytes);
        if (!allocation) return false;
        base = allocation->base;
        size = allocation->size;
        return true;
    }
    bool write(uint64_t address, const void* from, uint64_t bytes) override {
        std::lock_guard lock(state_->mutex);
        const Allocation* allocation = state_->memory.holding(address, bytes);
        if (!allocation) return false;
        std::memcpy(reinterpret_cast<void*>(address), from, bytes);
        if (allocation->shadow) state_->checker->host_write(*allocation->shadow, address - allocation->base, bytes);
        return true;
    }
    bool read(uint64_t address, void* to, uint64_t bytes) const override {
        std::lock_guard lock(state_->mutex);
        if (!state_->memory.holding(address, bytes)) return false;
        std::memcpy(to, reinterpret_cast<const void*>(address), bytes);
        return true;
    }

    std::shared_ptr<LoadedModule> load(std::string_view ptx) override {
        return std::make_shared<ModuleOnGpu>(state_, ptx);
    }

    std::vector<GridResult> run(std::span<const GridLaunch> grids) override {
        std::lock_guard lock(state_->mutex);
        if (state_->checker) state_->checker->new_run();
        Simulation batch(state_->config, state_->memory, state_->checker.get(), state_->trace.get(), state_->cycle);
        state_->sink.batch = &batch;
        std::vector<GridResult> results = batch.run(grids);
        state_->sink.batch = nullptr;
        state_->cycle = std::max(state_->cycle, batch.cycle());
        for (const GridResult& result : results) state_->cycle = std::max(state_->cycle, result.end_cycle);
        return results;
    }
    uint64_t cycle() const override { return state_->cycle; }

  private:
    std::shared_ptr<GpuState> state_;
};

}  // namespace

std::unique_ptr<Gpu> Gpu::create(const GpuConfig& config) {
    return std::make_unique<SimulatedGpu>(config);
}

}  // namespace nvfp4r::sim
