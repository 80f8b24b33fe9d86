// Which rows are padding, and what they are given.
#pragma once

#include <cstdint>

#include "nvfp4router.h"

namespace nvfp4r {

/// Rows at and past num_valid, and rows whose mask is 0. Host memory only.
inline bool is_padding(const nvfp4r_call& call, int64_t row) {
    return (call.num_valid && row >= *call.num_valid) || (call.mask && call.mask[row] == 0);
}

}  // namespace nvfp4r
