// Output types, strides, capacities and what happens to memory that is not the router's.
#include "contract/contract_case.hpp"

namespace contract {
namespace {

Case few_tokens(uint32_t tokens = 5) {
    return columns(NVFP4R_SCORE_SIGMOID, 3, 24, 64, tokens, 34);
}

Case a34_ids() {
    Case c = few_tokens();
    c.capacity = 5 * 2;
    c.status = NVFP4R_INVALID_ARGUMENT;
    c.refusal = {"ids_capacity 10", "15 elements"};
    return c;
}

Case a34_exact() {
    Case c = few_tokens();
    c.capacity = 5 * 3;
    return c;
}

Case a34_stride() {
    Case c = few_tokens();
    c.extra_stride = -1;
    c.status = NVFP4R_INVALID_ARGUMENT;
    c.refusal = {"ids_stride 2", "row's width"};
    return c;
}

Case a35_i64() {
    Case c = columns(NVFP4R_SCORE_SIGMOID, 6, 64, 64, 256, 35);
    c.ids_type = NVFP4R_I64;
    return c;
}

Case a35_unknown() {
    Case c = few_tokens();
    c.ids_type = NVFP4R_F16;
    c.status = NVFP4R_INVALID_ARGUMENT;
    c.refusal = {"ids_type 3", "I32 (8)"};
    return c;
}

Case packed() {
    Case c = few_tokens();
    c.ids_type = NVFP4R_PACKED;
    return c;
}

Case packed_padding() {
    Case c = few_tokens(2);
    c.ids_type = NVFP4R_PACKED;
    c.mask = {0, 0};
    c.ids = {-1, -1, -1};
    c.weights = {0, 0, 0};
    c.logits.clear();
    return c;
}

Case bf16_weights() {
    Case c = few_tokens();
    c.weights_type = NVFP4R_BF16;
    return c;
}

Case strided() {
    Case c = few_tokens(33);
    c.extra_stride = 5;
    return c;
}

}  // namespace

std::vector<Entry> memory_cases() {
    return {
        {"A34 a capacity that is too small is refused", a34_ids},
        {"A34 a capacity that just fits", a34_exact},
        {"A34 a stride below the row's width is refused", a34_stride},
        {"A35 64-bit ids", a35_i64},
        {"A35 an unknown id type is refused", a35_unknown},
        {"packed ids", packed},
        {"packed ids of padding rows", packed_padding},
        {"bf16 weights", bf16_weights},
        {"A58 rows with a stride: what lies between is not touched", strided},
    };
}

}  // namespace contract
