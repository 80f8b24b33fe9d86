// tcgen05.mma kind::mxf4nvf4 in a whole kernel: result words of a B200 at every place of the tile, every layout.
#include <catch2/catch.hpp>

#include "arith/mxf4nvf4.hpp"
#include "sim/nvfp4_multiply.hpp"

using namespace nvfp4r::sim;
using namespace nvfp4r::sim::test;

namespace {

// Frozen results of a B200 (sf-tensor/tcgen05): 64 codes of a and b, C, four factors each, result.
struct Word {
    const char *a, *b;
    uint32_t c;
    uint8_t sa[4], sb[4];
    uint32_t result;
};
constexpr Word kWords[] = {
    {"56e6a0257a959aac7221bc1d1f25d3c1dd69bb19ff54c54dd0ec01d866402c79",
     "cc65fb01dd3122ca5ebdf507cd408b2d48d0bf9e74d585f8c693b2e47c74ebe9",
     0xb23210eb,
     {0x0c, 0x04, 0x74, 0x47},
     {0x17, 0x50, 0x24, 0x61},
     0x4429730b},
    {"27f0bd2b4d3f41a211cf03c8ad764f05ed5a3aa53e4fad3903c2604fdf6b9e1a",
     "ca2c1d615cf7d2b03a55d133f4a689f45714941325bdbfe804a29ddfe565ebc2",
     0x89769172,
     {0x66, 0x0e, 0x73, 0x0d},
     {0x16, 0x48, 0x03, 0x16},
     0xc30545d3},
    {"eeb608f9ab39f7e02615a8647c6b1c6dbb86c8c5041f16f52465a7b701adbfe7",
     "6cb289b43d299c187263d29a59f5a8608dd2cc52834ff11aba5bf3bea571178a",
     0x094e5986,
     {0x09, 0x7c, 0x6d, 0x44},
     {0x07, 0x78, 0x26, 0x79},
     0x49fcafb7},
    {"1111111111111111111111111111111111111111111111111111111111111111",
     "1111111111111111111111111111111111111111111111111111111111111111",
     0x00000000,
     {0x7f, 0x38, 0x38, 0x38},
     {0x38, 0x38, 0x38, 0x38},
     0x7fffffff},
};
constexpr uint32_t kWordCount = 4;

ScaledRow row_of(const char* codes, const uint8_t* scales) {
    ScaledRow row;
    const auto digit = [](char c) { return static_cast<uint8_t>(c <= '9' ? c - '0' : c - 'a' + 10); };
    for (size_t i = 0; i < 32; ++i)
        row.codes[i] = static_cast<uint8_t>(digit(codes[2 * i]) | digit(codes[2 * i + 1]) << 4);
    std::memcpy(row.scales, scales, 4);
    return row;
}

// Row r holds word (r + shift) % 4 and column n word n % 4: where they meet the result is the word's.
void check_words(Nvfp4Multiply t, uint32_t shift) {
    for (uint32_t r = 0; r < t.m; ++r)
        t.a.push_back(row_of(kWords[(r + shift) % kWordCount].a, kWords[(r + shift) % kWordCount].sa));
    for (uint32_t n = 0; n < t.n; ++n) t.b.push_back(row_of(kWords[n % kWordCount].b, kWords[n % kWordCount].sb));
    t.c.resize(size_t{t.m} * t.n);
    for (uint32_t r = 0; r < t.m; ++r)
        for (uint32_t n = 0; n < t.n; ++n) t.c[r * t.n + n] = kWords[n % kWordCount].c;
    std::vector<uint32_t> out;
    const GridResult run = t.run(out);
    INFO(run.finding.text);
    REQUIRE(run.ok);
    uint32_t wrong = 0;
    for (uint32_t r = 0; r < t.m; ++r)
        for (uint32_t n = 0; n < t.n; ++n) {
            if ((r + shift) % kWordCount != n % kWordCount) continue;
            wrong += out[t.cell(r, n)] != kWords[n % kWordCount].result;
        }
    CHECK(wrong == 0);
}

uint32_t next_random(uint32_t& state) {
    return state = state * 1664525u + 1013904223u;
}

// Random finite operands: every cell against the multiply of one row and one column.
Nvfp4Multiply random_multiply(Nvfp4Multiply t, uint32_t seed) {
    const auto fill = [&seed](ScaledRow& row) {
        for (uint8_t& code : row.codes) code = static_cast<uint8_t>(next_random(seed) >> 24);
        for (uint8_t& scale : row.scales) scale = static_cast<uint8_t>((next_random(seed) >> 24) % 0x7f);
    };
    t.a.resize(t.m);
    t.b.resize(t.n);
    for (ScaledRow& row : t.a) fill(row);
    for (ScaledRow& row : t.b) fill(row);
    t.c.assign(size_t{t.m} * t.n, 0);
    return t;
}

}  // namespace

TEST_CASE("tcgen05.mma: the words of a B200 at every row and column of the tile", "[sim]") {
    for (const uint32_t n : {8u, 16u, 40u, 136u})
        for (uint32_t shift = 0; shift < kWordCount; ++shift) {
            CAPTURE(n, shift);
            Nvfp4Multiply t;
            t.n = n;
            t.swizzled = shift % 2 == 1;
            check_words(t, shift);
        }
}

TEST_CASE("tcgen05.mma: the words of a B200 from scale factors in other columns", "[sim]") {
    for (uint32_t column = 16; column < 480; column += 58) {
        CAPTURE(column);
        Nvfp4Multiply t;
        t.sfa_column = column;
        t.sfb_column = column + 6;
        check_words(t, 0);
    }
}

TEST_CASE("tcgen05.mma: the words of a B200 in both layouts of a CTA pair", "[sim]") {
    for (const uint32_t m : {256u, 128u})
        for (const uint32_t n : {16u, 96u}) {
            CAPTURE(m, n);
            Nvfp4Multiply t;
            t.group = 2;
            t.m = m;
            t.n = n;
            t.swizzled = true;
            check_words(t, 1);
        }
}

TEST_CASE("tcgen05.mma: random rows and columns land in their cells", "[sim]") {
    for (const uint32_t group : {1u, 2u}) {
        Nvfp4Multiply shape;
        shape.group = group;
        shape.m = 128 * group;
        shape.n = 48;
        const Nvfp4Multiply t = random_multiply(shape, 7 + group);
        std::vector<uint32_t> out;
        const GridResult run = t.run(out);
        INFO(run.finding.text);
        REQUIRE(run.ok);
        uint32_t wrong = 0;
        for (uint32_t r = 0; r < t.m; ++r)
            for (uint32_t n = 0; n < t.n; ++n)
                wrong += out[t.cell(r, n)] !=
                         nvfp4r::arith::mxf4nvf4_step(nvfp4r::arith::mxf4_decode(t.a[r].codes, t.a[r].scales),
                                                      nvfp4r::arith::mxf4_decode(t.b[n].codes, t.b[n].scales), 0);
        CHECK(wrong == 0);
    }
}

TEST_CASE("C05 tcgen05.ld without fence::after_thread_sync is found", "[sim]") {
    Nvfp4Multiply t = random_multiply({}, 3);
    t.between = "// no fence\n";
    std::vector<uint32_t> out;
    const GridResult run = t.run(out);
    REQUIRE_FALSE(run.ok);
    CHECK(run.finding.kind == FindingKind::tcgen05_order);
}

TEST_CASE("tcgen05: the same bits under every policy", "[sim]") {
    const Nvfp4Multiply t = random_multiply({}, 11);
    std::vector<uint32_t> first;
    REQUIRE(t.run(first).ok);
    for (const Policy policy : {Policy::eager, Policy::late, Policy::random, Policy::hold_warp, Policy::hold_cta}) {
        std::vector<uint32_t> out;
        const GridResult run = t.run(out, 100, policy);
        INFO(run.finding.text);
        REQUIRE(run.ok);
        CHECK(out == first);
    }
}
