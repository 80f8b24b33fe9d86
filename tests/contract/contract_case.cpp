#include "contract/contract_case.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <stdexcept>

namespace contract {
namespace {

constexpr uint8_t kOne = 2;          // e2m1 code of 1
constexpr uint8_t kScaleOne = 0x38;  // e4m3 byte of 1
constexpr uint8_t kScaleNan = 0x7f;
constexpr uint8_t kNegative = 8;

struct Block {
    uint8_t code, scale;
    double value;
};

double e4m3(int byte) {
    const int field = byte >> 3;
    return field ? std::ldexp(8 + (byte & 7), field - 10) : std::ldexp(byte & 7, -9);
}

// Every positive value of one block, largest first.
const std::vector<Block>& block_values() {
    static const std::vector<Block> values = [] {
        const double e2m1[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
        std::vector<Block> all;
        for (int scale = 1; scale < kScaleNan; ++scale)
            for (int code = 1; code < 8; ++code)
                all.push_back({static_cast<uint8_t>(code), static_cast<uint8_t>(scale), e2m1[code] * e4m3(scale)});
        std::ranges::stable_sort(all, [](const Block& a, const Block& b) { return a.value > b.value; });
        return all;
    }();
    return values;
}

// Blocks that add up to the logit: the largest value that still fits, again and again.
std::vector<Block> blocks_of(double logit) {
    if (std::isnan(logit)) return {{kOne, kScaleNan, logit}};
    std::vector<Block> blocks;
    double left = std::fabs(logit);
    while (left > 0) {
        const auto fits = std::ranges::find_if(block_values(), [&](const Block& b) { return b.value <= left; });
        if (fits == block_values().end() || blocks.size() > 16) throw std::logic_error("logit cannot be dialled");
        blocks.push_back(*fits);
        if (logit < 0) blocks.back().code = static_cast<uint8_t>(blocks.back().code | kNegative);
        left -= fits->value;
    }
    return blocks;
}

Case empty_case(nvfp4r_score score, uint32_t top_k, uint32_t experts, uint32_t hidden, uint32_t tokens) {
    Case c;
    c.settings.experts = experts;
    c.settings.hidden = hidden;
    c.settings.top_k = top_k;
    c.settings.score = score;
    c.settings.precision = NVFP4R_PRECISION_NVFP4;
    c.tokens = tokens;
    c.w_codes.resize(size_t{experts} * hidden / 2);
    c.w_scales.resize(size_t{experts} * hidden / 16, kScaleOne);
    c.x_codes.resize(size_t{tokens} * hidden / 2);
    c.x_scales.resize(size_t{tokens} * hidden / 16, kScaleOne);
    return c;
}

void set_block(Case& c, uint32_t expert, uint32_t block, const Block& b) {
    c.w_codes[size_t{expert} * c.hidden_size() / 2 + block * 8] = b.code;  // element 0 is the low nibble
    c.w_scales[size_t{expert} * c.hidden_size() / 16 + block] = b.scale;
}

double score(nvfp4r_score which, double logit, double largest, double sum) {
    switch (which) {
        case NVFP4R_SCORE_SIGMOID: return 1.0 / (1.0 + std::exp(-logit));
        case NVFP4R_SCORE_SOFTMAX: return std::exp(logit - largest) / sum;
        case NVFP4R_SCORE_SQRTSOFTPLUS:
            return std::sqrt(logit > 0 ? logit + std::log1p(std::exp(-logit)) : std::log1p(std::exp(logit)));
        default: return logit;
    }
}

}  // namespace

std::vector<int32_t> first_ids(uint32_t count) {
    std::vector<int32_t> ids(count);
    std::iota(ids.begin(), ids.end(), 0);
    return ids;
}

std::vector<float> same(uint32_t count, float value) {
    return std::vector<float>(count, value);
}

Case dial(nvfp4r_score score_function, uint32_t top_k, const std::vector<double>& logits, uint32_t min_hidden) {
    uint32_t blocks = min_hidden / 16;
    for (const double logit : logits) blocks = std::max(blocks, static_cast<uint32_t>(blocks_of(logit).size()));
    Case c = empty_case(score_function, top_k, static_cast<uint32_t>(logits.size()), blocks * 16, 1);
    for (uint32_t j = 0; j < blocks; ++j) c.x_codes[j * 8] = kOne;
    for (uint32_t e = 0; e < logits.size(); ++e) {
        const std::vector<Block> parts = blocks_of(logits[e]);
        for (uint32_t j = 0; j < parts.size(); ++j) set_block(c, e, j, parts[j]);
    }
    return c;
}

Case columns(nvfp4r_score score_function, uint32_t top_k, uint32_t experts, uint32_t hidden, uint32_t tokens,
             uint32_t seed) {
    Case c = empty_case(score_function, top_k, experts, hidden, tokens);
    const uint32_t blocks = hidden / 16;
    std::mt19937 rng(seed);
    std::vector<std::vector<double>> logits(blocks, std::vector<double>(experts));
    for (uint32_t e = 0; e < experts; ++e) {
        for (uint32_t j = 0; j < blocks; ++j) {
            // A code of -6..6 times a scale of 1/8, 1/4 .. 1 (bytes 8 apart are a factor of 2 apart).
            const Block b{static_cast<uint8_t>(rng() % 16), static_cast<uint8_t>(kScaleOne - 8 * (rng() % 4)), 0};
            const double e2m1[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
            set_block(c, e, j, b);
            // + 0.0: a sum is never -0.
            logits[j][e] = (b.code & kNegative ? -1 : 1) * e2m1[b.code & 7] * e4m3(b.scale) + 0.0;
        }
    }
    std::vector<std::vector<double>> rows(tokens);
    for (uint32_t t = 0; t < tokens; ++t) {
        c.x_codes[size_t{t} * hidden / 2 + (t % blocks) * 8] = kOne;
        rows[t] = logits[t % blocks];
    }
    expect(c, rows);
    return c;
}

void make_token_nan(Case& c, uint32_t token) {
    c.x_scales[size_t{token} * c.hidden_size() / 16] = kScaleNan;
}

void expect(Case& c, const std::vector<std::vector<double>>& logits) {
    c.ids.clear();
    c.weights.clear();
    c.logits.clear();
    c.rank.clear();
    for (const std::vector<double>& row : logits) {
        const double largest = *std::ranges::max_element(row);
        double sum = 0;
        for (const double logit : row) sum += std::exp(logit - largest);
        std::vector<float> acts, rank;
        for (size_t e = 0; e < row.size(); ++e) {
            acts.push_back(static_cast<float>(score(c.settings.score, row[e], largest, sum)));
            rank.push_back(c.bias.empty() ? acts[e] : acts[e] + c.bias[e]);
        }
        std::vector<int32_t> order = first_ids(static_cast<uint32_t>(row.size()));
        std::ranges::stable_sort(order, [&](int32_t a, int32_t b) { return rank[a] > rank[b]; });
        order.resize(c.settings.top_k);
        double total = 0;
        for (const int32_t e : order) total += static_cast<double>(acts[e]);
        for (const int32_t e : order) {
            const double weight = static_cast<double>(acts[e]) / (c.settings.renormalise && total != 0 ? total : 1.0);
            c.ids.push_back(e);
            c.weights.push_back(static_cast<float>(weight * static_cast<double>(c.settings.routed_scaling)));
        }
        for (const double logit : row) c.logits.push_back(static_cast<float>(logit));
        c.rank.insert(c.rank.end(), rank.begin(), rank.end());
    }
}

}  // namespace contract
