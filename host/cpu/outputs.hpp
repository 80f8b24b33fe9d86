// Writing a row's results in the caller's types, and the outputs that need all rows.
#pragma once

#include <cstdint>
#include <span>

#include "cpu/tokens.hpp"
#include "nvfp4router.h"

namespace nvfp4r {

inline constexpr int32_t kNoExpert = -1;

/// Writes slot `slot` of a row: the weight (unless weights is NULL) and the id. Any alignment.
void store_slot(const nvfp4r_call& call, int64_t row, uint32_t slot, int32_t id, float weight);
void store_logical_id(const nvfp4r_call& call, int64_t row, uint32_t slot, int32_t id);

/// The quantised token of a block's row, or zeros for a padding row (`block` NULL).
void store_hidden_codes(const nvfp4r_call& call, int64_t row, uint32_t hidden, TokenBlock* block, uint32_t block_row);
/// Zeros the padding of a 128x4 scale tensor.
void clear_scale_padding(const nvfp4r_call& call, uint32_t hidden);

/// tokens_per_expert, permutation and expert_offsets from the physical ids [M * k] of the routed slots; -1 takes no
/// part. `counts` is scratch of experts + 1.
void store_expert_lists(const nvfp4r_call& call, std::span<const int32_t> physical, uint32_t experts,
                        std::span<int64_t> counts);

}  // namespace nvfp4r
