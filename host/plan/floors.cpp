#include "plan/floors.hpp"

#include "plan/plan_parts.hpp"

namespace nvfp4r {
namespace {

/// Bytes of `values` NVFP4 numbers: half a byte each, and a scale byte for each block.
uint64_t nvfp4_bytes(uint64_t values) {
    return values / 2 + values / kScaleBlock;
}

uint64_t token_bytes(TokenForm form, uint64_t values) {
    switch (form) {
        case TokenForm::Nvfp4: return nvfp4_bytes(values);
        case TokenForm::F32: return 4 * values;
        default: return 2 * values;
    }
}

}  // namespace

Floors floors_of(const KernelPlan& kernel, int64_t tokens, const KnownGpu& gpu) {
    const auto rows = static_cast<uint64_t>(tokens);
    const uint64_t weights = uint64_t{kernel.experts} * kernel.hidden;
    Floors f;
    f.gate_bytes = kernel.gate_planes * (kernel.gate_form == GateForm::Nvfp4 ? nvfp4_bytes(weights) : 2 * weights);
    f.token_bytes = token_bytes(kernel.token_form, rows * kernel.hidden);
    f.output_bytes = rows * kernel.top_k * (sizeof(float) + sizeof(int32_t));
    f.flops = 2.0 * static_cast<double>(rows) * static_cast<double>(weights) * products(kernel);
    // Without a block-scaled multiply the gate is multiplied as bf16.
    const bool scaled = kernel.gate_form == GateForm::Nvfp4 && gpu.nvfp4_flops_per_clock_sm > 0;
    const double rate = (scaled ? gpu.nvfp4_flops_per_clock_sm : gpu.bf16_flops_per_clock_sm) * gpu.clock_ghz *
                        gpu.limits.multiprocessors;
    f.bytes_ns = static_cast<double>(f.gate_bytes + f.token_bytes + f.output_bytes) / gpu.memory_bytes_per_ns;
    f.flops_ns = f.flops / rate;
    f.launch_ns = gpu.launch_ns;
    return f;
}

}  // namespace nvfp4r
