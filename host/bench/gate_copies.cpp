#include "bench/gate_copies.hpp"

#include <cstring>
#include <vector>

#include "router_params.h"

namespace nvfp4r::bench {
namespace {

constexpr uint64_t kAlignment = 1024;  // of a swizzled operand row's pattern; more than any load of a kernel asks for
constexpr int kHopper = 9;             // compute capability whose kernels read the gate by address alone

/// One tensor of the gate: where the router has it, and where a copy starts in the memory of one copy.
struct Part {
    CUdeviceptr source;
    uint64_t bytes, offset;
};

struct Parts {
    std::vector<Part> list;
    uint64_t pitch = 0;  // bytes of a copy
};

CUDA_KERNEL_NODE_PARAMS node_params(const DriverApi& api, CUgraphNode node) {
    CUDA_KERNEL_NODE_PARAMS params{};
    check(api, api.cuGraphKernelNodeGetParams(node, &params), "cuGraphKernelNodeGetParams");
    return params;
}

/// The parameter block of a launch; a plain kernel's has no options.
RouterParams router_params(const CUDA_KERNEL_NODE_PARAMS& node, bool plain) {
    RouterParams params{};
    std::memcpy(static_cast<void*>(&params), node.kernelParams[0], plain ? sizeof(CallParams) : sizeof params);
    return params;
}

Parts parts_of(const GpuContext& context, const RouterParams& params) {
    const DriverApi& api = context.api();
    Parts parts;
    const auto add = [&](const void* address) {
        if (!address) return;
        const auto source = reinterpret_cast<CUdeviceptr>(address);
        CUdeviceptr base = 0;
        size_t bytes = 0;
        check(api, api.cuMemGetAddressRange(&base, &bytes, source), "cuMemGetAddressRange", "the gate");
        parts.list.push_back({source, base + bytes - source, parts.pitch});
        parts.pitch += (base + bytes - source + kAlignment - 1) / kAlignment * kAlignment;
    };
    for (const void* codes : params.gate_codes) add(codes);
    for (const void* scales : params.gate_scales) add(scales);
    return parts;
}

}  // namespace

uint64_t gate_bytes(const GpuContext& context, const CallGraph& graph, bool plain) {
    const ContextScope scope(context);
    return parts_of(context, router_params(node_params(context.api(), graph.kernels().at(0)), plain)).pitch;
}

GateCopies::GateCopies(std::shared_ptr<const GpuContext> context, CallGraph& graph, uint32_t count, bool plain)
    : context_(std::move(context)) {
    const ContextScope scope(*context_);
    const DriverApi& api = context_->api();
    const std::vector<CUgraphNode> kernels = graph.kernels();
    const Parts parts = parts_of(*context_, router_params(node_params(api, kernels.at(0)), plain));
    memory_ = DeviceBuffer(context_, parts.pitch * count);
    for (uint32_t copy = 0; copy < count; ++copy)
        for (const Part& part : parts.list)
            check(api, api.cuMemcpyDtoD(memory_.address() + copy * parts.pitch + part.offset, part.source, part.bytes),
                  "cuMemcpyDtoD", "{} bytes of the gate", part.bytes);

    const size_t launches = kernels.size() / graph.calls();  // of a call
    for (size_t i = 0; i < kernels.size(); ++i) {
        CUDA_KERNEL_NODE_PARAMS node = node_params(api, kernels[i]);
        RouterParams params = router_params(node, plain);
        const CUdeviceptr copy = memory_.address() + i / launches % count * parts.pitch;
        size_t part = 0;
        for (const void*& codes : params.gate_codes)
            if (codes) codes = reinterpret_cast<const void*>(copy + parts.list[part++].offset);
        for (const void*& scales : params.gate_scales)
            if (scales) scales = reinterpret_cast<const void*>(copy + parts.list[part++].offset);
        // The Blackwell kernels have two more parameters: the maps of the gate and of the tokens.
        CUtensorMap gate_map, token_map;
        void* arguments[] = {&params, &gate_map, &token_map};
        if (context_->limits().major != kHopper) {
            std::memcpy(&gate_map, node.kernelParams[1], sizeof gate_map);
            std::memcpy(&token_map, node.kernelParams[2], sizeof token_map);
            check(api, api.cuTensorMapReplaceAddress(&gate_map, const_cast<void*>(params.gate_codes[0])),
                  "cuTensorMapReplaceAddress");
        }
        node.kernelParams = arguments;
        check(api, api.cuGraphKernelNodeSetParams(kernels[i], &node), "cuGraphKernelNodeSetParams");
    }
    // Parameters set in the executable itself make its launches slower.
    graph.instantiate();
    check(api, api.cuCtxSynchronize(), "cuCtxSynchronize");
}

void GateCopies::clear() const {
    const ContextScope scope(*context_);
    const DriverApi& api = context_->api();
    check(api, api.cuMemsetD8(memory_.address(), 0, memory_.bytes()), "cuMemsetD8");
    check(api, api.cuCtxSynchronize(), "cuCtxSynchronize");
}

}  // namespace nvfp4r::bench
