// A PTX body as a kernel on a simulated GPU: buffers in and out of one call.
//
// The body sees parameters p0, p1 ... (64 bits each) in registers %a0, %a1 ..., the thread's number in its CTA in %tid_x,
// the CTA's number in %cta_x, registers %p<40>, %h<40>, %r<100>, %rd<100>, %f<40>, and `declarations` in front of it.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/machine/gpu.hpp"

namespace nvfp4r::sim::test {

inline std::string kernel_text(const std::string& body, size_t params, const std::string& declarations = "",
                               const std::string& name = "k") {
    std::string list, loads;
    for (size_t i = 0; i < params; ++i) {
        list += fmt::format("{}.param .u64 p{}", i ? ", " : "", i);
        loads += fmt::format("ld.param.u64 %a{}, [p{}];\n", i, i);
    }
    return fmt::format(
        ".visible .entry {}({}) {{\n{}\n.reg .pred %p<40>;\n.reg .b16 %h<40>;\n.reg .b32 %r<100>;\n.reg .b64 "
        "%rd<100>;\n"
        ".reg .f32 %f<40>;\n.reg .b64 %a<8>;\n.reg .b32 %tid_x;\n.reg .b32 %cta_x;\n{}mov.u32 %tid_x, %tid.x;\n"
        "mov.u32 %cta_x, %ctaid.x;\n{}\nret;\n}}\n",
        name, list, declarations, loads, body);
}

inline std::string module_text(uint32_t sm, const std::string& kernels) {
    return fmt::format(".version {}\n.target sm_{}a\n.address_size 64\n{}", sm == 90 ? "8.6" : "9.0", sm, kernels);
}

struct Shape {
    uint32_t threads = 32, ctas = 1, cluster = 0;  // cluster 0: launched without one
    uint32_t dynamic_shared = 0;
};

class Bench {
  public:
    explicit Bench(const GpuConfig& config = GpuConfig::for_sm(100)) : gpu_(Gpu::create(config)) {}

    Gpu& gpu() { return *gpu_; }

    template <class T>
    uint64_t buffer(const std::vector<T>& data, const char* name = "buffer") {
        const uint64_t address = room(data.size() * sizeof(T), name);
        gpu_->write(address, data.data(), data.size() * sizeof(T));
        return address;
    }
    /// Unwritten memory.
    uint64_t room(uint64_t bytes, const char* name = "room") {
        const uint64_t address = gpu_->allocate(bytes, 256, name);
        if (address == 0) throw std::runtime_error("no room on the simulated GPU");
        return address;
    }
    template <class T>
    std::vector<T> read(uint64_t address, size_t count) {
        std::vector<T> out(count);
        if (!gpu_->read(address, out.data(), count * sizeof(T))) throw std::runtime_error("not device memory");
        return out;
    }

    GridLaunch launch_of(const std::string& module, const Shape& shape, const std::vector<uint64_t>& arguments,
                         const std::string& name = "k") {
        modules_.push_back(gpu_->load(module));
        GridLaunch launch;
        launch.program = modules_.back()->entry(name);
        launch.grid = {shape.ctas, 1, 1};
        launch.block = {shape.threads, 1, 1};
        launch.cluster = {shape.cluster ? shape.cluster : 1, 1, 1};
        launch.explicit_cluster = shape.cluster != 0;
        launch.dynamic_shared = shape.dynamic_shared;
        launch.name = name;
        for (const uint64_t value : arguments) {
            const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
            launch.params.insert(launch.params.end(), bytes, bytes + sizeof(value));
        }
        return launch;
    }
    GridResult run(const std::string& body, const Shape& shape, const std::vector<uint64_t>& arguments,
                   const std::string& declarations = "") {
        const uint32_t sm = gpu_->config().sm;
        const GridLaunch launch =
            launch_of(module_text(sm, kernel_text(body, arguments.size(), declarations)), shape, arguments);
        return gpu_->run(std::span(&launch, 1)).front();
    }

  private:
    std::unique_ptr<Gpu> gpu_;
    std::vector<std::shared_ptr<LoadedModule>> modules_;
};

}  // namespace nvfp4r::sim::test
