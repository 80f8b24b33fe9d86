// A routing problem with random tensors, run on a GPU and held against the contract: logits against exact sums, ids and
// weights against the contract's rules applied to the GPU's own logits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nvfp4router.h"

namespace nvfp4r::test {

/// Empty when device CUDA can be used, else why not.
std::string cuda_missing();

struct GpuCase {
    std::string name;
    nvfp4r_settings settings = NVFP4R_SETTINGS_INIT;
    int64_t tokens = 1;
    nvfp4r_dtype hidden_type = NVFP4R_BF16;
    int64_t stride_padding = 0;  // elements between rows, filled with NaN
    uint32_t misalign = 0;       // elements by which the first row misses its 16-byte boundary
    bool bias = false, linear_bias = false, image = false, factor = false, table = false, forced = false,
         replicas = false;
    bool mask = false, num_valid = false;
    uint32_t nan_rows = 0;           // rows 0.. whose hidden values hold a NaN
    bool duplicate_experts = false;  // pairs of equal experts: exact ties
    nvfp4r_dtype weights_type = NVFP4R_F32, ids_type = NVFP4R_I32;
    nvfp4r_router_options options = NVFP4R_ROUTER_OPTIONS_INIT;
    uint32_t seed = 1;
};

GpuCase gpu_case(uint32_t experts, uint32_t hidden, uint32_t top_k, nvfp4r_score score = NVFP4R_SCORE_SQRTSOFTPLUS,
                 nvfp4r_precision precision = NVFP4R_PRECISION_NVFP4_W);
GpuCase preset_case(const char* preset, int64_t tokens, nvfp4r_precision precision = NVFP4R_PRECISION_NVFP4_W);

/// Runs the case; "" or the first difference from the contract.
std::string run_gpu_case(const GpuCase& c);

/// The same for a call that asks for weights and ids alone, whose kernel has no code for options: ids as the CPU's, so the
/// case must have no near ties, and weights close to the CPU's.
std::string run_plain_case(const GpuCase& c);

/// The bits of every logit of the case on one device. Throws with the library's text when the call fails.
std::vector<uint32_t> logit_bits(const GpuCase& c, const nvfp4r_router_options& options);

}  // namespace nvfp4r::test
