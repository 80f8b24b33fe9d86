// The two multiplies: exact sums, and steps as the tensor core rounds them.
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "cpu/exact_multiply.hpp"
#include "cpu/hardware_multiply.hpp"
#include "format/number.hpp"

using namespace nvfp4r;

namespace {

std::vector<float> random_values(size_t count, uint32_t seed) {
    std::mt19937 rng(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    for (float& v : values) v = normal(rng);
    return values;
}

std::vector<Nvfp4Matrix> random_terms(uint32_t rows, uint32_t cols, uint32_t terms, uint32_t seed) {
    return quantise_terms(random_values(size_t{rows} * cols, seed).data(), rows, cols, cols, terms, NVFP4R_BLOCK_AMAX,
                          "test");
}

double value_at(const Nvfp4Matrix& m, uint32_t row, uint32_t col) {
    const size_t i = size_t{row} * m.cols + col;
    const auto code = static_cast<uint8_t>((m.codes[i / 2] >> (i % 2 * 4)) & 15);
    return static_cast<double>(e2m1_to_f32(code)) * static_cast<double>(e4m3_to_f32(m.scales[i / 16]));
}

// Exact sum of the products of terms whose order is at most `order`, over columns first..last-1.
double exact_sum(const std::vector<Nvfp4Matrix>& x, const std::vector<Nvfp4Matrix>& w, uint32_t row, uint32_t expert,
                 uint32_t first, uint32_t last) {
    double sum = 0;
    for (uint32_t i = 0; i < w.size(); ++i)
        for (uint32_t j = 0; j < x.size() && i + j < w.size(); ++j)
            for (uint32_t k = first; k < last; ++k) sum += value_at(w[i], expert, k) * value_at(x[j], row, k);
    return sum;
}

}  // namespace

TEST_CASE("the exact multiply adds in ascending order, whatever the shape", "[cpu]") {
    for (const uint32_t experts : {1u, 7u, 8u, 20u}) {
        for (const uint32_t hidden : {16u, 256u, 272u, 1040u}) {
            const uint32_t rows = 7;
            const std::vector<float> w = random_values(size_t{experts} * hidden, experts);
            const std::vector<float> x = random_values(size_t{rows} * hidden, hidden);
            const ExactMatrix matrix(w, experts, hidden);
            ExactScratch scratch(rows);
            std::vector<double> sums(size_t{rows} * matrix.padded_experts());
            multiply_exact(x.data(), rows, matrix, scratch, sums.data());
            bool equal = true;
            for (uint32_t r = 0; r < rows; ++r) {
                for (uint32_t e = 0; e < experts; ++e) {
                    double sum = 0;
                    for (uint32_t k = 0; k < hidden; ++k)
                        sum += static_cast<double>(w[size_t{e} * hidden + k]) *
                               static_cast<double>(x[size_t{r} * hidden + k]);
                    equal = equal && sums[size_t{r} * matrix.padded_experts() + e] == sum;
                }
            }
            CHECK(equal);
        }
    }
}

TEST_CASE("products of terms come in the order of accumulation", "[cpu]") {
    CHECK(term_products(1, 1, 1) == TermProducts{{0, 0}});
    CHECK(term_products(2, 2, 2) == TermProducts{{0, 0}, {1, 0}, {0, 1}});
    CHECK(term_products(3, 3, 3) == TermProducts{{0, 0}, {1, 0}, {0, 1}, {2, 0}, {1, 1}, {0, 2}});
    CHECK(term_products(3, 1, 3) == TermProducts{{0, 0}, {1, 0}, {2, 0}});  // NVFP4 tokens have one term
}

TEST_CASE("tensor-core logits stay within their truncations of the exact sums", "[cpu]") {
    const uint32_t hidden = 1024 + 16;  // a last step that is not full
    for (uint32_t terms = 1; terms <= 3; ++terms) {
        const auto x = random_terms(5, hidden, terms, 40);
        const auto w = random_terms(9, hidden, terms, 41);
        const std::vector<float> logits = logits_hardware(x, w, {});
        for (uint32_t r = 0; r < 5; ++r) {
            for (uint32_t e = 0; e < 9; ++e) {
                double magnitude = 0;
                for (uint32_t k = 0; k < hidden; ++k)
                    magnitude += std::fabs(value_at(w[0], e, k) * value_at(x[0], r, k));
                const double steps = 17.0 * terms * (terms + 1) / 2;
                const double exact = exact_sum(x, w, r, e, 0, hidden);
                CHECK(std::fabs(static_cast<double>(logits[r * 9 + e]) - exact) <= steps * 0x1p-23 * magnitude);
            }
        }
    }
}

TEST_CASE("one step from zero is the exact sum truncated, slices add in fp32", "[cpu]") {
    const auto x = random_terms(4, 192, 1, 50);
    const auto w = random_terms(6, 192, 1, 51);
    const std::vector<float> sliced = logits_hardware(x, w, {1});
    for (uint32_t r = 0; r < 4; ++r) {
        for (uint32_t e = 0; e < 6; ++e) {
            float sum = 0;
            for (uint32_t s = 0; s < 3; ++s) {
                const double exact = exact_sum(x, w, r, e, s * 64, s * 64 + 64);
                auto slice = static_cast<float>(exact);
                if (std::fabs(static_cast<double>(slice)) > std::fabs(exact)) slice = std::nextafter(slice, 0.0f);
                sum = s == 0 ? slice : sum + slice;
            }
            CHECK(std::bit_cast<uint32_t>(sliced[r * 6 + e]) == std::bit_cast<uint32_t>(sum));
        }
    }
    // A slice that holds every step is the same as none.
    CHECK(logits_hardware(x, w, {3}) == logits_hardware(x, w, {}));
}

TEST_CASE("bf16 steps are the fused dot-adds of 16 in ascending order", "[cpu]") {
    const uint32_t hidden = 64;
    const std::vector<float> wide_x = random_values(2 * hidden, 60), wide_w = random_values(3 * hidden, 61);
    std::vector<arith::FdaValue> x, w;
    for (const float v : wide_x) x.push_back(arith::fda_decode(arith::FdaType::kBf16, f32_to_bf16(v)));
    for (const float v : wide_w) w.push_back(arith::fda_decode(arith::FdaType::kBf16, f32_to_bf16(v)));
    std::vector<float> out(6);
    const std::vector<std::vector<arith::FdaValue>> terms = {w};
    multiply_fda(x, 2, terms, 3, hidden, {}, out);
    for (uint32_t r = 0; r < 2; ++r) {
        for (uint32_t e = 0; e < 3; ++e) {
            double exact = 0;
            for (uint32_t k = 0; k < hidden; ++k)
                exact += static_cast<double>(bf16_to_f32(f32_to_bf16(wide_x[r * hidden + k]))) *
                         static_cast<double>(bf16_to_f32(f32_to_bf16(wide_w[e * hidden + k])));
            CHECK(static_cast<double>(out[r * 3 + e]) == Approx(exact).epsilon(1e-5).margin(1e-5));
        }
    }
}
