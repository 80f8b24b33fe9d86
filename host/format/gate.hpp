// A gate as the rest of the library sees it: where it came from no longer matters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/nvfp4.hpp"
#include "nvfp4router.h"

namespace nvfp4r {

/// One layer's router weights. Row e of every matrix is expert e. Immutable once made.
struct Gate {
    uint32_t experts = 0;
    uint32_t hidden = 0;
    int32_t layer = -1;                             // -1: from the caller's memory
    std::string tensor;                             // name of the weight tensor, "" from memory
    nvfp4r_dtype weight_type = NVFP4R_DTYPE_UNSET;  // as stored; NVFP4R_E2M1 for a packed gate
    std::vector<float> weight;       // [E, K]; empty for a packed gate. bf16 and f16 widen to f32 without loss
    std::vector<Nvfp4Matrix> terms;  // packed gate only: 1..3 terms, all with the same global scale
    float input_scale = 0.0f;        // calibrated multiplier of the tokens; 0: none
    std::vector<float> bias, linear_bias, image_bias, expert_factor;  // [E] or empty
    std::vector<int64_t> table;                                       // [vocabulary, table_k] or empty
    uint64_t vocabulary = 0;
    uint32_t table_k = 0;
    std::vector<std::string> notices;  // what a user should know: "bias widened from BF16"
};

}  // namespace nvfp4r
