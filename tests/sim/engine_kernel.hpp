// One kernel of PTX text on a simulated GPU: buffers, arguments, launch, read back.
//
// The body sees parameters p0, p1 ... (64 bits each) and map0, map1 ... (tensor maps), 64 KiB of dynamic shared memory
// `sm` aligned to 1024 bytes, eight mbarriers `mb` (8 bytes each) and registers %p<20>, %h<20>, %r<400>, %rd<60>.
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <string>
#include <vector>

#include "sim/engine/tensor_map.hpp"
#include "sim/machine/gpu.hpp"

namespace nvfp4r::sim::test {

inline constexpr uint32_t kDynamicShared = 64 * 1024;
inline constexpr uint32_t kDynamicOffset = 0x800;  // window offset of `sm`: the mbarriers' KiB comes first

class EngineKernel {
  public:
    EngineKernel(uint32_t sm, std::string body) : config_(GpuConfig::for_sm(sm)), body_(std::move(body)) {
        config_.sms = 4;
    }

    GpuConfig& config() { return config_; }

    template <class T>
    uint64_t buffer(const std::vector<T>& data, const char* name = "buffer") {
        const uint64_t address = gpu().allocate(data.size() * sizeof(T), 256, name);
        gpu().write(address, data.data(), data.size() * sizeof(T));
        return address;
    }
    void argument(uint64_t value) { arguments_.push_back(value); }
    void map(const TensorMapRequest& request) {
        TensorMap map{};
        const std::string why = encode_tensor_map(request, config_.sm, map);
        if (!why.empty()) throw std::runtime_error(why);
        maps_.push_back(map);
    }
    template <class T>
    std::vector<T> read(uint64_t address, size_t count) {
        std::vector<T> out(count);
        gpu().read(address, out.data(), count * sizeof(T));
        return out;
    }

    GridResult launch(uint32_t threads, uint32_t ctas = 1, uint32_t cluster = 1) {
        auto module = gpu().load(text());
        const Program* program = module->entry("k");
        GridLaunch launch;
        launch.program = program;
        launch.grid = {ctas, 1, 1};
        launch.block = {threads, 1, 1};
        launch.cluster = {cluster, 1, 1};
        launch.explicit_cluster = cluster > 1;
        launch.dynamic_shared = kDynamicShared;
        launch.name = "k";
        for (const uint64_t value : arguments_) append(launch.params, &value, sizeof(value), sizeof(value));
        for (const TensorMap& map : maps_) append(launch.params, &map, sizeof(map), 64);
        return gpu().run(std::span(&launch, 1)).front();
    }

    std::string text() const {
        std::string params;
        for (size_t i = 0; i < arguments_.size(); ++i) params += fmt::format("{}.param .u64 p{}", i ? ", " : "", i);
        for (size_t i = 0; i < maps_.size(); ++i)
            params += fmt::format("{}.param .align 64 .b8 map{}[128]", params.empty() ? "" : ", ", i);
        return fmt::format(
            ".version {}\n.target sm_{}a\n.address_size 64\n.extern .shared .align 1024 .b8 sm[];\n"
            ".visible .entry k({}) {{\n.shared .align 1024 .b8 mb[64];\n"
            ".reg .pred %p<20>;\n.reg .b16 %h<20>;\n.reg .b32 %r<400>;\n.reg .b64 %rd<60>;\n{}\nret;\n}}\n",
            config_.sm == 90 ? "8.6" : "9.0", config_.sm, params, body_);
    }

  private:
    Gpu& gpu() {
        if (!gpu_) gpu_ = Gpu::create(config_);
        return *gpu_;
    }
    static void append(std::vector<uint8_t>& block, const void* from, size_t bytes, size_t align) {
        block.resize((block.size() + align - 1) / align * align);
        const auto* first = static_cast<const uint8_t*>(from);
        block.insert(block.end(), first, first + bytes);
    }

    GpuConfig config_;
    std::string body_;
    std::unique_ptr<Gpu> gpu_;
    std::vector<uint64_t> arguments_;
    std::vector<TensorMap> maps_;
};

/// Waits until the mbarrier at `mb + offset` has completed the phase of this parity. Labels carry `tag`.
inline std::string wait_barrier(uint32_t offset, uint32_t parity, const std::string& tag) {
    return fmt::format(
        "wait_{0}:\nmbarrier.try_wait.parity.shared::cta.b64 %p19, [mb+{1}], {2};\n@!%p19 bra wait_{0};\n", tag, offset,
        parity);
}

/// Copies `words` 32-bit words between `sm` and global memory at p<argument>, `threads` at a time, and synchronises.
inline std::string copy_words(bool to_shared, uint32_t argument, uint32_t words, uint32_t threads,
                              const std::string& tag) {
    return fmt::format(
        "mov.u32 %r300, %tid.x;\nld.param.u64 %rd50, [p{0}];\n"
        "copy_{1}:\nsetp.ge.u32 %p18, %r300, {2};\n@%p18 bra done_{1};\n"
        "shl.b32 %r301, %r300, 2;\nmov.u32 %r302, sm;\nadd.u32 %r302, %r302, %r301;\n"
        "cvt.u64.u32 %rd51, %r301;\nadd.u64 %rd51, %rd50, %rd51;\n"
        "{3}add.u32 %r300, %r300, {4};\nbra copy_{1};\ndone_{1}:\nbar.sync 0;\n",
        argument, tag, words,
        to_shared ? "ld.global.u32 %r303, [%rd51];\nst.shared.u32 [%r302], %r303;\n"
                  : "ld.shared.u32 %r303, [%r302];\nst.global.u32 [%rd51], %r303;\n",
        threads);
}

}  // namespace nvfp4r::sim::test
