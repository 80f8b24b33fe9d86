// Sizes: experts, top_k, tokens, hidden, and the tails of each.
#include "contract/contract_case.hpp"

namespace contract {
namespace {

template <uint32_t Experts, uint32_t TopK, uint32_t Tokens = 3, uint32_t Hidden = 64>
Case shape() {
    return columns(NVFP4R_SCORE_SIGMOID, TopK, Experts, Hidden, Tokens, Experts * 64 + TopK);
}

template <uint32_t Tokens>
Case a29() {
    return columns(NVFP4R_SCORE_SQRTSOFTPLUS, 6, 128, 128, Tokens, 29);
}

template <uint32_t Tokens, uint32_t TopK>
Case a25() {
    return columns(NVFP4R_SCORE_SIGMOID, TopK, 8, 32, Tokens, 25);
}

Case a14() {
    Case c = dial(NVFP4R_SCORE_SOFTMAX, 5, {0, 1, 2, 3});
    c.status = NVFP4R_INVALID_ARGUMENT;
    c.refusal = {"top_k 5", "4 experts"};
    return c;
}

Case a16_too_large() {
    Case c = dial(NVFP4R_SCORE_SIGMOID, 33, std::vector<double>(64, 0.0));
    c.status = NVFP4R_INVALID_ARGUMENT;
    c.refusal = {"top_k 33", "1 to 32"};
    return c;
}

Case a32() {
    Case c = columns(NVFP4R_SCORE_SIGMOID, 4, 96, 96, 2, 32);
    make_token_nan(c, 1);
    // Row 0 keeps what `columns` expects; row 1 is a row of NaN.
    for (size_t slot = 0; slot < 4; ++slot) {
        c.ids[4 + slot] = static_cast<int32_t>(slot);
        c.weights[4 + slot] = 0.0f;
    }
    for (size_t e = 96; e < 192; ++e) c.logits[e] = __builtin_nanf("");
    return c;
}

Case a58_no_valid_rows() {
    Case c = columns(NVFP4R_SCORE_SIGMOID, 2, 8, 64, 3, 58);
    c.num_valid = 0;
    c.ids = {-1, -1};
    c.weights = {0, 0};
    c.logits = same(8, 0.0f);
    return c;
}

Case b31() {
    // Weight only in the last 16 of 48: the dial fills blocks from the front, so give the first two blocks nothing.
    Case c = dial(NVFP4R_SCORE_IDENTITY, 2, {0, 0, 0, 0}, 48);
    c.w_codes[2 * 24 + 16] = 2;
    c.ids = {2, 0};
    c.weights = {1, 0};
    c.logits = {0, 0, 1, 0};
    return c;
}

template <uint32_t Hidden>
Case b32() {
    return columns(NVFP4R_SCORE_SIGMOID, 3, 24, Hidden, 2 * Hidden / 16, Hidden);
}

Case b22() {
    // 48 experts of hidden 160: row e is one-hot at block e % 10 with the code of 1 + e / 10, so a transposed reading
    // shows.
    Case c = columns(NVFP4R_SCORE_IDENTITY, 5, 48, 160, 10, 22);
    c.w_codes.assign(c.w_codes.size(), 0);
    c.w_scales.assign(c.w_scales.size(), 0x38);
    std::vector<std::vector<double>> logits(10, std::vector<double>(48, 0.0));
    const double e2m1[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    for (uint32_t e = 0; e < 48; ++e) {
        c.w_codes[e * 80 + e % 10 * 8] = static_cast<uint8_t>(1 + e / 10);
        logits[e % 10][e] = e2m1[1 + e / 10];
    }
    expect(c, logits);
    return c;
}

}  // namespace

std::vector<Entry> size_cases() {
    return {
        {"A14 top_k above E is refused with both numbers", a14},
        {"A16 k = 16 of 64", shape<64, 16>},
        {"A16 k = 17 of 64", shape<64, 17>},
        {"A16 k = 32 of 64", shape<64, 32>},
        {"A16 k = 33 is refused with the limit", a16_too_large},
        {"A17 E = 1024, k = 32", shape<1024, 32>},
        {"A19 E = 144, k = 8", shape<144, 8>},
        {"A19 E = 896, k = 16", shape<896, 16>},
        {"A19 E = 2048, k = 32", shape<2048, 32>},
        {"A22 E = 3, k = 2", shape<3, 2>},
        {"A22 E = 1, k = 1", shape<1, 1>},
        {"A23 E = 256, k = 1", shape<256, 1>},
        {"A23 E = 256, k = 2", shape<256, 2>},
        {"A23 E = 256, k = 3", shape<256, 3>},
        {"A25 8191 tokens of k = 8", a25<8191, 8>},
        {"A25 8192 tokens of k = 8", a25<8192, 8>},
        {"A25 65535 tokens", a25<65535, 1>},
        {"A25 65536 tokens", a25<65536, 1>},
        {"A25 65537 tokens", a25<65537, 1>},
        {"A29 16 tokens at E = 128", a29<16>},
        {"A29 17 tokens at E = 128", a29<17>},
        {"A29 127 tokens at E = 128", a29<127>},
        {"A29 128 tokens at E = 128", a29<128>},
        {"A29 129 tokens at E = 128", a29<129>},
        {"A29 257 tokens at E = 128", a29<257>},
        {"A31 256 tokens", shape<64, 6, 256>},
        {"A31 257 tokens", shape<64, 6, 257>},
        {"A31 300 tokens", shape<64, 6, 300>},
        {"A32 tile tails in experts and hidden, the next row NaN", a32},
        {"A56 k = 1", shape<32, 1, 9>},
        {"A56 k = 2", shape<32, 2, 9>},
        {"A56 k = 3", shape<32, 3, 9>},
        {"A56 k = 4", shape<32, 4, 9>},
        {"A56 k = 5", shape<32, 5, 9>},
        {"A56 k = 6", shape<32, 6, 9>},
        {"A56 k = 7", shape<32, 7, 9>},
        {"A58 no valid row at all: every slot is written", a58_no_valid_rows},
        {"B22 E and hidden are not mixed up", b22},
        {"B31 hidden 48 with weight in its last block only", b31},
        {"B32 hidden 16", b32<16>},
        {"B32 hidden 64", b32<64>},
        {"B32 hidden 80", b32<80>},
        {"B32 hidden 128", b32<128>},
        {"B32 hidden 192", b32<192>},
        {"B32 hidden 256", b32<256>},
        {"B32 hidden 320", b32<320>},
        {"B32 hidden 448", b32<448>},
        {"B32 hidden 2880", b32<2880>},
        {"B32 hidden 7168", b32<7168>},
    };
}

}  // namespace contract
