// Outputs that need all rows, and the quantised tokens.
#include "contract/contract_case.hpp"
#include "format/number.hpp"

namespace contract {
namespace {

// Three tokens that choose by replay: experts {1, 3}, {3, 0}, {1, 2}.
Case three_tokens() {
    Case c = columns(NVFP4R_SCORE_SIGMOID, 2, 4, 64, 3, 70);
    c.forced_ids = {1, 3, 3, 0, 1, 2};
    c.ids = c.forced_ids;
    c.weights.clear();
    return c;
}

Case counts() {
    Case c = three_tokens();
    c.tokens_per_expert = {1, 2, 1, 2};
    c.permutation = {3, 0, 4, 5, 1, 2};  // slots row * 2 + rank by expert
    c.expert_offsets = {0, 1, 3, 4, 6};
    return c;
}

Case tiled() {
    Case c = three_tokens();
    c.permutation_tile = 4;
    // Room for the worst case, 6 slots and 4 * 3 of padding in whole tiles: 16. Every part here fills one tile.
    c.permutation = {3, -1, -1, -1, 0, 4, -1, -1, 5, -1, -1, -1, 1, 2, -1, -1};
    c.expert_offsets = {0, 4, 8, 12, 16};
    return c;
}

Case padding_takes_no_part() {
    Case c = three_tokens();
    c.num_valid = 1;
    c.ids = {1, 3, -1, -1, -1, -1};
    c.logits.clear();
    c.tokens_per_expert = {0, 1, 0, 1};
    c.permutation = {0, 1, -1, -1, -1, -1};  // the rest of the room is -1
    c.expert_offsets = {0, 0, 1, 1, 2};
    return c;
}

// One token of bf16 ramps, worked out by hand: amax 6 makes the global scale 6 / 2688 = 1 / 448, so block 0 (amax 6)
// has the scale 448 (0x7e) and its values are the codes themselves; block 1 (amax 3) has 224 (0x76).
Case quantised_tokens(nvfp4r_scale_layout layout) {
    Case c = dial(NVFP4R_SCORE_SIGMOID, 1, {0, 1, 2, 3}, 64);
    c.x_codes.clear();
    c.x_scales.clear();
    c.hidden.assign(64, 0);
    const float values[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.5f, -1, -1.5f, -2, -3, -4, -6, 5};
    for (size_t i = 0; i < 16; ++i) {
        c.hidden[i] = nvfp4r::f32_to_bf16(values[i]);
        c.hidden[16 + i] = nvfp4r::f32_to_bf16(values[i] / 2);
    }
    const std::vector<uint8_t> block = {0x10, 0x32, 0x54, 0x76, 0xa9, 0xcb, 0xed, 0x6f};  // 5 is a tie: to 4, code 6
    c.codes_out.assign(32, 0);
    std::copy(block.begin(), block.end(), c.codes_out.begin());
    std::copy(block.begin(), block.end(), c.codes_out.begin() + 8);
    c.globals_out = {6.0f / 2688.0f};
    c.scales_out_layout = layout;
    c.scales_out.assign(layout == NVFP4R_SCALES_128X4 ? 512 : 4, 0);
    c.scales_out[0] = 0x7e;
    c.scales_out[1] = 0x76;
    return c;
}

Case quantised_padding() {
    Case c = quantised_tokens(NVFP4R_SCALES_LINEAR);
    c.num_valid = 0;
    c.codes_out.assign(32, 0);
    c.scales_out.assign(4, 0);
    c.globals_out = {0.0f};
    return c;
}

// NVFP4 tokens pass through; rows 32 apart are 4 bytes apart in a 128x4 atom, rows 1 apart 16.
Case swizzled_rows() {
    Case c = columns(NVFP4R_SCORE_SIGMOID, 2, 8, 80, 130, 71);
    for (size_t i = 0; i < c.x_scales.size(); ++i) c.x_scales[i] = static_cast<uint8_t>(0x20 + i % 0x40);
    c.ids.clear();
    c.weights.clear();
    c.logits.clear();
    c.codes_out = c.x_codes;
    c.scales_out_layout = NVFP4R_SCALES_128X4;
    c.scales_out.assign(size_t{256} * 8, 0);  // 130 rows to 256, 5 columns to 8
    for (size_t row = 0; row < 130; ++row)
        for (size_t col = 0; col < 5; ++col)
            c.scales_out[(row / 128 * 2 + col / 4) * 512 + row % 32 * 16 + row % 128 / 32 * 4 + col % 4] =
                c.x_scales[row * 5 + col];
    return c;
}

}  // namespace

std::vector<Entry> output_cases() {
    return {
        {"tokens per expert and permutation", counts},
        {"permutation padded to a tile", tiled},
        {"padding rows take no part in the permutation", padding_takes_no_part},
        {"quantised tokens, linear scales", [] { return quantised_tokens(NVFP4R_SCALES_LINEAR); }},
        {"B34 quantised tokens, 128x4 scales with their padding", [] { return quantised_tokens(NVFP4R_SCALES_128X4); }},
        {"quantised tokens of padding rows", quantised_padding},
        {"B25 B26 scale padding of rows and columns", swizzled_rows},
    };
}

}  // namespace contract
