// A call of the C API as the kernel's parameter block.
#pragma once

#include "format/gate.hpp"
#include "launch/context.hpp"
#include "router_params.h"

namespace nvfp4r {

/// What of a gate lives on the device, uploaded once.
struct DeviceGate {
    DeviceBuffer codes[NVFP4R_MAX_TERMS], scales[NVFP4R_MAX_TERMS];
    DeviceBuffer natural_codes[NVFP4R_MAX_TERMS];  // Hopper: the same for wgmma (StepOrder::kNatural)
    CUtensorMap operand_map{};                     // Blackwell: over codes[0], which holds all planes
    DeviceBuffer bias, linear_bias, image_bias, expert_factor, table;
    uint32_t planes = 0;
    float alpha = 1.0f;  // global scale
    uint64_t vocabulary = 0;
    uint32_t table_k = 0;
};

TokenForm token_form(nvfp4r_dtype hidden_type);

/// Whether the kernel without options serves the call: aligned tokens in, f32 weights and 32-bit ids out, nothing else.
bool is_plain(const nvfp4r_call& call, const nvfp4r_settings& settings, const DeviceGate& gate);

/// All but the mailbox and the first row. Every pointer of `call` is device memory. `natural`: the kernel takes the gate
/// in the natural order of K.
RouterParams make_params(const nvfp4r_call& call, const nvfp4r_settings& settings, const DeviceGate& gate,
                         bool natural);

}  // namespace nvfp4r
