#include "format/nvfp4.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "format/number.hpp"
#include "format/random.hpp"
#include "scratch.hpp"

using namespace nvfp4r;
using namespace nvfp4r::test;

namespace {

constexpr nvfp4r_block_rule kRules[] = {NVFP4R_BLOCK_AMAX, NVFP4R_BLOCK_LEAST_SQUARES, NVFP4R_BLOCK_FOUR_OVER_SIX};

struct Row {
    std::vector<uint8_t> codes, scales;
    uint8_t code(size_t i) const { return (codes[i / 2] >> (4 * (i % 2))) & 15; }
};

Row quantise(const std::vector<float>& x, float global_scale, nvfp4r_block_rule rule = NVFP4R_BLOCK_AMAX) {
    // Poison, so that a byte that nobody writes is seen.
    Row row{std::vector<uint8_t>(x.size() / 2, 0xee), std::vector<uint8_t>(x.size() / kBlock, 0xee)};
    quantise_row(x, global_scale, rule, row.codes.data(), row.scales.data());
    return row;
}

std::vector<float> dequantise(const Row& row, float global_scale) {
    std::vector<float> values(row.codes.size() * 2);
    dequantise_row(row.codes.data(), row.scales.data(), values);
    for (float& v : values) v *= global_scale;
    return values;
}

std::vector<float> gaussian(size_t n, uint64_t seed) {
    Random random(seed);
    std::vector<float> values(n);
    for (float& v : values) v = random.gauss();
    return values;
}

double error_of(const std::vector<float>& x, const std::vector<Nvfp4Matrix>& terms) {
    std::vector<double> left(x.begin(), x.end());
    const uint32_t cols = terms[0].cols;
    std::vector<float> values(cols);
    for (const Nvfp4Matrix& term : terms) {
        for (uint32_t r = 0; r < term.rows; ++r) {
            dequantise_row(&term.codes[uint64_t{r} * cols / 2], &term.scales[uint64_t{r} * cols / kBlock], values);
            for (uint32_t c = 0; c < cols; ++c) {
                left[uint64_t{r} * cols + c] -= static_cast<double>(values[c]) * static_cast<double>(term.global_scale);
            }
        }
    }
    const auto square_sum = [](const auto& v) {
        double sum = 0;
        for (const double d : v) sum += d * d;
        return sum;
    };
    return std::sqrt(square_sum(left) / square_sum(x));
}

}  // namespace

TEST_CASE("B02 B11 a zero tensor has a finite global scale, scale bytes 0 and codes 0", "[format]") {
    REQUIRE(global_scale_of(0.0f) == 1.0f);
    for (const nvfp4r_block_rule rule : kRules) {
        std::vector<float> x(48, 0.0f);
        x[5] = -0.0f;
        const Row row = quantise(x, 1.0f, rule);
        REQUIRE(row.codes == std::vector<uint8_t>(24, 0));
        REQUIRE(row.scales == std::vector<uint8_t>(3, 0));
    }
    const auto terms = quantise_terms(std::vector<float>(32, 0.0f).data(), 2, 16, 16, 2, NVFP4R_BLOCK_AMAX, "w");
    REQUIRE(terms[0].global_scale == 1.0f);
    REQUIRE(terms[1].codes == std::vector<uint8_t>(16, 0));
}

TEST_CASE("B04 the global scale is amax / 2688, so 4096 survives", "[format]") {
    REQUIRE(global_scale_of(2688.0f) == 1.0f);
    REQUIRE(global_scale_of(4096.0f) == 4096.0f / 2688.0f);
    std::vector<float> x(16, 0.0f);
    x[0] = 4096.0f;
    REQUIRE(dequantise(quantise(x, global_scale_of(4096.0f)), global_scale_of(4096.0f))[0] == Approx(4096.0f));
    // Without a global scale it would clip at 6 * 448.
    REQUIRE(dequantise(quantise(x, 1.0f), 1.0f)[0] == 2688.0f);
}

TEST_CASE("The smallest amax still has a global scale that can divide", "[format]") {
    REQUIRE(global_scale_of(1e-45f) == std::numeric_limits<float>::min());
}

TEST_CASE("B05 the block amax is a maximum of magnitudes", "[format]") {
    std::vector<float> x(16, 0.0f);
    x[0] = -8.0f;
    x[1] = 1.0f;
    const Row row = quantise(x, 1.0f);
    REQUIRE(row.scales[0] == 0x3b);
    REQUIRE(row.code(0) == 15);
    REQUIRE(row.code(1) == 1);  // 1 / 1.375 = 0.727
}

TEST_CASE("B10 a zero block among others gets scale byte 0, not NaN", "[format]") {
    for (const nvfp4r_block_rule rule : kRules) {
        std::vector<float> x(48, 6.0f);
        for (size_t i = 16; i < 32; ++i) x[i] = 0.0f;
        const Row row = quantise(x, global_scale_of(6.0f), rule);
        REQUIRE(row.scales[1] == 0);
        for (size_t i = 16; i < 32; ++i) REQUIRE(row.code(i) == 0);
        REQUIRE(dequantise(row, global_scale_of(6.0f))[0] == Approx(6.0f));
    }
}

TEST_CASE("A block too small for any scale has codes 0, not a division by zero", "[format]") {
    std::vector<float> x(16, 1e-6f);
    for (const nvfp4r_block_rule rule : kRules) {
        const Row row = quantise(x, 1.0f, rule);
        REQUIRE((row.scales[0] & 0x7f) != 0x7f);
        for (const float v : dequantise(row, 1.0f)) REQUIRE(std::fabs(v) <= 0x1p-9f * 0.5f);
    }
}

TEST_CASE("B13 every finite scale byte decodes under dequantise_row, the sign bit ignored", "[format]") {
    for (uint32_t byte = 0; byte < 256; ++byte) {
        const std::vector<uint8_t> codes(8, 0x22);  // 1.0 twice
        const uint8_t scale = static_cast<uint8_t>(byte);
        std::vector<float> values(16);
        dequantise_row(codes.data(), &scale, values);
        if ((byte & 0x7f) == 0x7f) {
            REQUIRE(std::isnan(values[15]));
        } else {
            REQUIRE(values[0] == std::fabs(e4m3_to_f32(scale)));
        }
    }
}

TEST_CASE("B14 NaN and infinity make their block NaN through the scale byte, never a silent 6", "[format]") {
    for (const float bad :
         {std::nanf(""), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
        for (const nvfp4r_block_rule rule : kRules) {
            std::vector<float> x(32, 1.0f);
            x[3] = bad;
            const Row row = quantise(x, 1.0f, rule);
            REQUIRE(row.scales[0] == 0x7f);
            REQUIRE((row.scales[1] & 0x7f) != 0x7f);
            const std::vector<float> values = dequantise(row, 1.0f);
            REQUIRE(std::isnan(values[0]));
            REQUIRE(values[16] == Approx(1.0f).epsilon(0.05));
        }
    }
}

TEST_CASE("B14 a gate with NaN or infinity is refused by name and position", "[format]") {
    std::vector<float> w(64, 1.0f);
    w[32 + 7] = std::nanf("");
    const std::string text = refusal([&] { quantise_terms(w.data(), 2, 32, 32, 1, NVFP4R_BLOCK_AMAX, "gate 5"); });
    REQUIRE(has(text, "gate 5"));
    REQUIRE(has(text, "row 1, column 7"));
}

TEST_CASE("B16 codes come from a division, not from a product with the reciprocal", "[format]") {
    const float step = e4m3_to_f32(0x07);
    const float value = 0.02392577938735485f;
    REQUIRE(value * (1.0f / step) == 1.75f);  // the trap: a reciprocal lands on the tie
    std::vector<float> x(16, 0.0f);
    x[0] = 6.0f * step;  // makes the block scale 0x07
    x[1] = value;
    const Row row = quantise(x, 1.0f);
    REQUIRE(row.scales[0] == 0x07);
    REQUIRE(row.code(1) == 3);
}

TEST_CASE("B17 a block scale on a tie goes to the even byte", "[format]") {
    std::vector<float> x(16, 0.0f);
    x[0] = 6.0f * 1.0625f;
    REQUIRE(quantise(x, 1.0f).scales[0] == 0x38);
}

TEST_CASE("B20 negative zero codes are zero", "[format]") {
    const std::vector<uint8_t> codes(8, 0x88);
    const uint8_t scale = 0x7e;
    std::vector<float> values(16);
    dequantise_row(codes.data(), &scale, values);
    for (const float v : values) REQUIRE(v == 0.0f);
}

TEST_CASE("B22 the even column sits in the low nibble, row e stays expert e", "[format]") {
    constexpr uint32_t kRows = 6, kCols = 64;
    std::vector<float> w(kRows * kCols, 0.0f);
    for (uint32_t e = 0; e < kRows; ++e) w[e * kCols + e] = 1.0f;
    const Nvfp4Matrix m = quantise_terms(w.data(), kRows, kCols, kCols, 1, NVFP4R_BLOCK_AMAX, "w")[0];
    REQUIRE(m.codes.size() == kRows * kCols / 2);
    for (uint32_t e = 0; e < kRows; ++e) {
        for (uint32_t b = 0; b < kCols / 2; ++b) {
            const uint8_t expected = b != e / 2 ? 0x00 : e % 2 == 0 ? 0x07 : 0x70;
            REQUIRE(m.codes[e * kCols / 2 + b] == expected);
        }
    }
}

TEST_CASE("B31 B32 tails: every K that is a multiple of 16 keeps its last block", "[format]") {
    for (const uint32_t cols : {16u, 48u, 64u, 80u, 128u, 192u, 256u, 320u, 448u, 2688u, 2880u, 7168u}) {
        std::vector<float> w(cols, 0.0f);
        for (uint32_t i = cols - 16; i < cols; ++i) w[i] = 3.0f;
        const Nvfp4Matrix m = quantise_terms(w.data(), 1, cols, cols, 1, NVFP4R_BLOCK_AMAX, "w")[0];
        std::vector<float> values(cols);
        dequantise_row(m.codes.data(), m.scales.data(), values);
        REQUIRE(values[cols - 1] * m.global_scale == Approx(3.0f));
    }
    const std::vector<float> w(40, 1.0f);
    REQUIRE(has(refusal([&] { quantise_terms(w.data(), 1, 40, 40, 1, NVFP4R_BLOCK_AMAX, "w"); }), "multiple of 16"));
}

TEST_CASE("B23 scale offsets in a 128x4 atom", "[format]") {
    for (const uint64_t e : {0u, 1u, 32u, 33u, 96u, 127u}) {
        for (uint64_t c = 0; c < 4; ++c) {
            REQUIRE(scale_offset(e, c, 4, NVFP4R_SCALES_128X4) == (e % 32) * 16 + (e / 32) * 4 + c);
        }
    }
    REQUIRE(scale_offset(128, 0, 4, NVFP4R_SCALES_128X4) == 512);
    REQUIRE(scale_offset(128, 4, 8, NVFP4R_SCALES_128X4) == 3 * 512);
}

TEST_CASE("B25 B26 B34 scales survive the layouts at odd sizes and every padding byte is 0", "[format]") {
    Random random(3);
    for (const uint64_t rows : {1u, 5u, 127u, 128u, 129u, 384u}) {
        for (const uint64_t cols : {1u, 3u, 4u, 5u, 10u, 12u, 448u}) {
            std::vector<uint8_t> linear(rows * cols);
            for (uint8_t& b : linear) b = static_cast<uint8_t>(1 + random.below(126));
            const auto swizzled = scales_to_layout(linear, rows, cols, NVFP4R_SCALES_128X4);
            REQUIRE(swizzled.size() == (rows + 127) / 128 * 128 * ((cols + 3) / 4 * 4));
            REQUIRE(scales_from_layout(swizzled, rows, cols, NVFP4R_SCALES_128X4) == linear);
            // Non-zero bytes are exactly the scales: nothing else was written.
            REQUIRE(static_cast<uint64_t>(std::count(swizzled.begin(), swizzled.end(), 0)) ==
                    swizzled.size() - linear.size());
        }
    }
    const std::vector<uint8_t> one_short(511);
    REQUIRE(has(refusal([&] { scales_from_layout(one_short, 5, 4, NVFP4R_SCALES_128X4); }), "511 bytes"));
}

TEST_CASE("B28 the same bytes under the other layout are other scales", "[format]") {
    std::vector<uint8_t> bytes(512);
    std::iota(bytes.begin(), bytes.end(), uint8_t{0});
    REQUIRE(scales_from_layout(bytes, 128, 4, NVFP4R_SCALES_LINEAR) !=
            scales_from_layout(bytes, 128, 4, NVFP4R_SCALES_128X4));
}

TEST_CASE("B29 the 8x4 layout is refused by name", "[format]") {
    REQUIRE(has(refusal([] { scale_bytes(8, 4, NVFP4R_SCALES_8X4); }), "8x4"));
}

TEST_CASE("Any code and scale byte survives dequantise and quantise when its block holds a 6", "[format]") {
    Random random(11);
    for (int trial = 0; trial < 2000; ++trial) {
        std::vector<uint8_t> codes(8);
        for (uint8_t& b : codes) b = static_cast<uint8_t>(random.next());
        codes[random.below(8)] |= 0x70;  // one code of magnitude 6: the amax rule must find the same scale
        const uint8_t scale = static_cast<uint8_t>(1 + random.below(126));
        std::vector<float> values(16);
        dequantise_row(codes.data(), &scale, values);
        for (const nvfp4r_block_rule rule : kRules) {
            const Row row = quantise(values, 1.0f, rule);
            REQUIRE(row.scales[0] == scale);
            REQUIRE(row.codes == codes);
        }
    }
}

TEST_CASE("Terms: each leaves less, all share one global scale, and the better rules are better", "[format]") {
    constexpr uint32_t kRows = 16, kCols = 1024;
    const std::vector<float> w = gaussian(kRows * kCols, 5);
    double amax_error[4] = {};
    for (const nvfp4r_block_rule rule : kRules) {
        double before = 1.0;
        for (uint32_t terms = 1; terms <= 3; ++terms) {
            const auto q = quantise_terms(w.data(), kRows, kCols, kCols, terms, rule, "w");
            REQUIRE(q.size() == terms);
            for (const Nvfp4Matrix& term : q) REQUIRE(term.global_scale == q[0].global_scale);
            const double error = error_of(w, q);
            REQUIRE(error < before / 5);
            before = error;
            if (rule == NVFP4R_BLOCK_AMAX) {
                amax_error[terms] = error;
            } else {
                REQUIRE(error < amax_error[terms]);
            }
        }
    }
    // Contract section 4: one term with an exact other side errs by 9.5 %.
    REQUIRE(amax_error[1] == Approx(0.095).epsilon(0.03));
}

TEST_CASE("A strided matrix quantises as its dense copy", "[format]") {
    constexpr uint32_t kRows = 3, kCols = 32, kStride = 50;
    const std::vector<float> w = gaussian(kRows * kStride, 9);
    std::vector<float> dense;
    for (uint32_t r = 0; r < kRows; ++r) dense.insert(dense.end(), &w[r * kStride], &w[r * kStride] + kCols);
    const auto a = quantise_terms(w.data(), kRows, kCols, kStride, 2, NVFP4R_BLOCK_AMAX, "w");
    const auto b = quantise_terms(dense.data(), kRows, kCols, kCols, 2, NVFP4R_BLOCK_AMAX, "w");
    for (int t = 0; t < 2; ++t) {
        REQUIRE(a[t].codes == b[t].codes);
        REQUIRE(a[t].scales == b[t].scales);
    }
}

TEST_CASE("residual_row is the once-rounded difference", "[format]") {
    const std::vector<float> x = gaussian(64, 13);
    const float global_scale = global_scale_of(4.0f);
    const Row row = quantise(x, global_scale);
    std::vector<float> values(64), left(64);
    dequantise_row(row.codes.data(), row.scales.data(), values);
    residual_row(x, row.codes.data(), row.scales.data(), global_scale, left);
    for (size_t i = 0; i < 64; ++i) REQUIRE(left[i] == std::fma(-values[i], global_scale, x[i]));
}
