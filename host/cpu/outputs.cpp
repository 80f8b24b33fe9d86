#include "cpu/outputs.hpp"

#include <algorithm>
#include <cstring>

#include "format/number.hpp"
#include "format/nvfp4.hpp"

namespace nvfp4r {
namespace {

template <class T>
void store(void* base, int64_t index, T value) {
    std::memcpy(static_cast<char*>(base) + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

int64_t round_up(int64_t value, int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

void store_slot(const nvfp4r_call& call, int64_t row, uint32_t slot, int32_t id, float weight) {
    if (call.weights) {
        const int64_t at = row * call.weights_stride + slot;
        if (call.weights_type == NVFP4R_BF16)
            store(call.weights, at, f32_to_bf16(weight));
        else
            store(call.weights, at, weight);
    }
    const int64_t at = row * call.ids_stride + slot;
    if (call.ids_type == NVFP4R_I64)
        store(call.ids, at, static_cast<int64_t>(id));
    else if (call.ids_type == NVFP4R_PACKED)
        store(call.ids, at, static_cast<uint32_t>(id) << 16 | f32_to_bf16(weight));
    else
        store(call.ids, at, id);
}

void store_logical_id(const nvfp4r_call& call, int64_t row, uint32_t slot, int32_t id) {
    const int64_t at = row * call.logical_ids_stride + slot;
    if (call.logical_ids_type == NVFP4R_I16)
        store(call.logical_ids, at, static_cast<int16_t>(id));
    else
        store(call.logical_ids, at, id);
}

void store_hidden_codes(const nvfp4r_call& call, int64_t row, uint32_t hidden, TokenBlock* block, uint32_t block_row) {
    if (call.hidden_codes_out) {
        uint8_t* to = call.hidden_codes_out + row * (hidden / 2);
        if (block)
            std::ranges::copy(block->codes_row(0, block_row), to);
        else
            std::fill_n(to, hidden / 2, uint8_t{0});
    }
    if (call.hidden_scales_out) {
        const uint32_t cols = hidden / kBlock;
        for (uint32_t c = 0; c < cols; ++c)
            call.hidden_scales_out[scale_offset(static_cast<uint64_t>(row), c, cols, call.hidden_scales_out_layout)] =
                block ? block->scales_row(0, block_row)[c] : uint8_t{0};
    }
    if (call.hidden_global_scales_out)
        store(call.hidden_global_scales_out, row, block ? block->term_global[block_row] : 0.0f);
}

void clear_scale_padding(const nvfp4r_call& call, uint32_t hidden) {
    if (!call.hidden_scales_out || call.hidden_scales_out_layout != NVFP4R_SCALES_128X4) return;
    std::fill_n(call.hidden_scales_out,
                scale_bytes(static_cast<uint64_t>(call.tokens), hidden / kBlock, NVFP4R_SCALES_128X4), uint8_t{0});
}

void store_expert_lists(const nvfp4r_call& call, std::span<const int32_t> physical, uint32_t experts,
                        std::span<int64_t> counts) {
    std::ranges::fill(counts, int64_t{0});
    for (const int32_t id : physical)
        if (id >= 0) ++counts[id];
    if (call.tokens_per_expert)
        for (uint32_t e = 0; e < experts; ++e) store(call.tokens_per_expert, e, static_cast<int32_t>(counts[e]));
    if (!call.expert_offsets) return;
    const int64_t tile = std::max(call.permutation_tile, 1u);
    int64_t next = 0;
    for (uint32_t e = 0; e < experts; ++e) {
        store(call.expert_offsets, e, static_cast<int32_t>(next));
        const int64_t length = round_up(counts[e], tile);
        counts[e] = next;  // from here on the place of the expert's next slot
        next += length;
    }
    store(call.expert_offsets, experts, static_cast<int32_t>(next));
    if (!call.permutation) return;
    const int64_t end = std::max(next, call.permutation_capacity);
    for (int64_t i = 0; i < end; ++i) store(call.permutation, i, kNoExpert);
    for (size_t slot = 0; slot < physical.size(); ++slot)
        if (physical[slot] >= 0) store(call.permutation, counts[physical[slot]]++, static_cast<int32_t>(slot));
}

}  // namespace nvfp4r
