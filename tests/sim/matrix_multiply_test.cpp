// mma.sync and wgmma on random data, against a plain formulation of the fused dot-add measured on an H200.
#include <catch2/catch.hpp>
#include <cmath>

#include "format/number.hpp"
#include "sim/engine_kernel.hpp"

using namespace nvfp4r::sim;
using namespace nvfp4r::sim::test;

namespace {

// 16 products and C, each truncated to a multiple of 2^(emax - 25), added, truncated to fp32. Finite f16 inputs.
float fused_dot_add(const uint16_t* a, const uint16_t* b, float c) {
    const auto parts = [](uint16_t bits, double& significand) {
        const int field = bits >> 10 & 31;
        significand = std::ldexp((field ? 1024 : 0) + (bits & 1023), -10) * (bits >> 15 ? -1 : 1);
        return (field ? field : 1) - 15;
    };
    double terms[17];
    int exponents[17], largest = -133;
    for (int k = 0; k < 16; ++k) {
        double x, y;
        exponents[k] = parts(a[k], x) + parts(b[k], y);
        terms[k] = std::ldexp(x * y, exponents[k]);
        if (terms[k] != 0) largest = std::max(largest, exponents[k]);
    }
    terms[16] = c;
    if (c != 0) largest = std::max(largest, std::max(std::ilogb(c), -126));
    double sum = 0;  // on the grid: exact
    for (const double term : terms) sum += std::trunc(std::ldexp(term, 25 - largest));
    if (sum == 0) return 0.0f;
    const int leading = std::max(std::ilogb(sum) + largest - 25, -126);
    return static_cast<float>(std::ldexp(std::trunc(std::ldexp(sum, largest - 25 - leading + 23)), leading - 23));
}

struct Random {
    uint32_t state = 12345;
    uint32_t next() { return (state = state * 1664525u + 1013904223u) >> 8; }
    uint16_t half() {  // any finite f16, exponents within a few of each other half of the time
        const uint32_t bits = next();
        const uint32_t exponent = bits & 1 ? 12 + (bits >> 1 & 7) : (bits >> 1) % 31;
        return static_cast<uint16_t>((bits >> 7 & 1) << 15 | exponent << 10 | (bits >> 8 & 1023));
    }
    float number() {
        return std::ldexp(static_cast<float>(next() & 0xffffff) - 8388608.0f, static_cast<int>(next() % 40) - 40);
    }
};

struct Tile {
    uint32_t m, n;
    std::vector<uint16_t> a, b;  // rows of A and columns of B, 16 k each
    std::vector<float> c;        // m * n

    Tile(uint32_t rows, uint32_t columns, uint32_t seed) : m(rows), n(columns) {
        Random random{seed};
        for (uint32_t i = 0; i < m * 16; ++i) a.push_back(random.half());
        for (uint32_t i = 0; i < n * 16; ++i) b.push_back(random.half());
        for (uint32_t i = 0; i < m * n; ++i) c.push_back(random.number());
    }
    std::vector<float> expected() const {
        std::vector<float> out(c.size());
        for (uint32_t i = 0; i < m; ++i)
            for (uint32_t j = 0; j < n; ++j) out[i * n + j] = fused_dot_add(&a[i * 16], &b[j * 16], c[i * n + j]);
        return out;
    }
};

uint32_t differing(const std::vector<float>& x, const std::vector<float>& y) {
    uint32_t count = 0;
    for (size_t i = 0; i < x.size(); ++i) count += std::memcmp(&x[i], &y[i], 4) != 0;
    return count;
}

// Each lane loads its fragments from global memory as PTX ISA 9.7.14.5.8 lays them out.
std::string mma_sync_body() {
    std::string text =
        "mov.u32 %r0, %tid.x;\nshr.u32 %r1, %r0, 2;\nand.b32 %r2, %r0, 3;\n"
        "ld.param.u64 %rd0, [p0];\nld.param.u64 %rd1, [p1];\nld.param.u64 %rd2, [p2];\nld.param.u64 %rd3, [p3];\n"
        "mul.wide.u32 %rd10, %r1, 32;\nmul.wide.u32 %rd11, %r2, 4;\nadd.u64 %rd12, %rd10, %rd11;\n"
        "add.u64 %rd4, %rd0, %rd12;\nadd.u64 %rd5, %rd1, %rd12;\n"
        "ld.global.u32 %r10, [%rd4];\nld.global.u32 %r11, [%rd4+256];\nld.global.u32 %r12, [%rd4+16];\n"
        "ld.global.u32 %r13, [%rd4+272];\nld.global.u32 %r14, [%rd5];\nld.global.u32 %r15, [%rd5+16];\n"
        "mul.wide.u32 %rd13, %r2, 8;\nadd.u64 %rd12, %rd10, %rd13;\nadd.u64 %rd6, %rd2, %rd12;\nadd.u64 %rd7, %rd3, "
        "%rd12;\n"
        "ld.global.u32 %r20, [%rd6];\nld.global.u32 %r21, [%rd6+4];\nld.global.u32 %r22, [%rd6+256];\n"
        "ld.global.u32 %r23, [%rd6+260];\n"
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r20,%r21,%r22,%r23}, {%r10,%r11,%r12,%r13}, {%r14,%r15}, "
        "{%r20,%r21,%r22,%r23};\n"
        "st.global.u32 [%rd7], %r20;\nst.global.u32 [%rd7+4], %r21;\nst.global.u32 [%rd7+256], %r22;\n"
        "st.global.u32 [%rd7+260], %r23;\n";
    return text;
}

// A (64 rows) and B (N rows) as unswizzled core matrices, or in the 128-byte swizzle, in `sm`.
struct WarpgroupMultiply {
    uint32_t n = 16;
    bool swizzled = false;
    bool transpose_b = false;     // MN-major core matrices; not swizzled here
    bool a_in_registers = false;  // from p3
    std::string fence = "wgmma.fence.sync.aligned;\n", wait = "wgmma.wait_group.sync.aligned 0;\n", before;

    static constexpr uint32_t kB = 8192, kBytes = kB + 32768;
    // Register j holds row 16 w + l / 4 + 8 (j % 2), k = 2 (l % 4) + 8 (j / 2) of A in global memory.
    static constexpr const char* kLoadA =
        "ld.param.u64 %rd4, [p3];\nmul.wide.u32 %rd5, %r2, 32;\nadd.u64 %rd4, %rd4, %rd5;\nmul.wide.u32 %rd5, %r4, 2;\n"
        "add.u64 %rd4, %rd4, %rd5;\nld.global.u32 %r50, [%rd4];\nld.global.u32 %r51, [%rd4+256];\n"
        "ld.global.u32 %r52, [%rd4+16];\nld.global.u32 %r53, [%rd4+272];\n";

    uint32_t address(uint32_t offset, uint32_t row, uint32_t k_byte) const {
        if (!swizzled) return offset + row / 8 * 256 + k_byte / 16 * 128 + row % 8 * 16 + k_byte % 16;
        const uint32_t linear = kDynamicOffset + offset + row * 128 + k_byte;
        return (linear ^ (linear >> 7 & 7u) << 4) - kDynamicOffset;
    }
    uint32_t b_address(uint32_t row, uint32_t k) const {
        if (!transpose_b) return address(kB, row, 2 * k);
        return kB + row / 8 * 256 + k / 8 * 128 + k % 8 * 16 + row % 8 * 2;
    }
    std::string body() const {
        const uint64_t layout =
            swizzled ? uint64_t{1} << 62 | uint64_t{64} << 32 : uint64_t{16} << 32 | uint64_t{8} << 16;
        const uint32_t registers = n / 2;
        std::string list, loads, stores;
        for (uint32_t i = 0; i < registers; ++i) {
            const uint32_t at = (i / 2 % 2 * 8 * n + i / 4 * 8 + i % 2) * 4;
            list += fmt::format("{}%r{}", i ? "," : "", 100 + i);
            loads += fmt::format("ld.global.u32 %r{}, [%rd2+{}];\n", 100 + i, at);
            stores += fmt::format("st.global.u32 [%rd3+{}], %r{};\n", at, 100 + i);
        }
        const auto descriptor = [layout](const char* reg, uint32_t offset) {
            return fmt::format(
                "add.u32 %r20, %r10, {};\nshr.u32 %r20, %r20, 4;\ncvt.u64.u32 {}, %r20;\nor.b64 {}, {}, {:#x};\n",
                offset, reg, reg, reg, layout);
        };
        // Thread t of warp w: row 16 w + l / 4, column 2 (l % 4).
        return copy_words(true, 0, kBytes / 4, 128, "in") + "fence.proxy.async;\nbar.sync 0;\nmov.u32 %r0, %tid.x;\n" +
               fmt::format(
                   "and.b32 %r1, %r0, 31;\nshr.u32 %r2, %r0, 5;\nshr.u32 %r3, %r1, 2;\nshl.b32 %r2, %r2, 4;\n"
                   "add.u32 %r2, %r2, %r3;\nand.b32 %r4, %r1, 3;\nmul.lo.u32 %r5, %r2, {0};\nshl.b32 %r4, %r4, 1;\n"
                   "add.u32 %r5, %r5, %r4;\nmul.wide.u32 %rd10, %r5, 4;\nld.param.u64 %rd2, [p1];\n"
                   "add.u64 %rd2, %rd2, %rd10;\nld.param.u64 %rd3, [p2];\nadd.u64 %rd3, %rd3, %rd10;\nmov.u32 %r10, "
                   "sm;\n",
                   n) +
               descriptor("%rd0", 0) + descriptor("%rd1", kB) + loads + (a_in_registers ? kLoadA : "") + fence +
               before +
               fmt::format("wgmma.mma_async.sync.aligned.m64n{}k16.f32.f16.f16 {{{}}}, {}, %rd1, 1, 1, 1{}, {};\n", n,
                           list, a_in_registers ? "{%r50,%r51,%r52,%r53}" : "%rd0", a_in_registers ? "" : ", 0",
                           transpose_b ? 1 : 0) +
               "wgmma.commit_group.sync.aligned;\n" + wait + stores;
    }
    GridResult run(const Tile& t, std::vector<float>& out) const {
        std::vector<uint8_t> image(kBytes);
        for (uint32_t k = 0; k < 16; ++k) {
            for (uint32_t r = 0; r < 64; ++r) std::memcpy(&image[address(0, r, 2 * k)], &t.a[r * 16 + k], 2);
            for (uint32_t r = 0; r < n; ++r) std::memcpy(&image[b_address(r, k)], &t.b[r * 16 + k], 2);
        }
        EngineKernel kernel(90, body());
        kernel.argument(kernel.buffer(image, "image"));
        kernel.argument(kernel.buffer(t.c, "C"));
        const uint64_t result = kernel.buffer(std::vector<float>(t.c.size()), "D");
        kernel.argument(result);
        kernel.argument(kernel.buffer(t.a, "A"));
        GridResult run = kernel.launch(128);
        out = kernel.read<float>(result, t.c.size());
        return run;
    }
};

}  // namespace

TEST_CASE("mma.sync m16n8k16 f16 on random tiles", "[sim]") {
    for (uint32_t seed = 1; seed <= 8; ++seed) {
        const Tile t(16, 8, seed);
        EngineKernel kernel(90, mma_sync_body());
        kernel.argument(kernel.buffer(t.a, "A"));
        kernel.argument(kernel.buffer(t.b, "B"));
        kernel.argument(kernel.buffer(t.c, "C"));
        const uint64_t result = kernel.buffer(std::vector<float>(t.c.size()), "D");
        kernel.argument(result);
        const GridResult run = kernel.launch(32);
        INFO(run.finding.text);
        REQUIRE(run.ok);
        CHECK(differing(kernel.read<float>(result, t.c.size()), t.expected()) == 0);
    }
}

TEST_CASE("wgmma m64nNk16 f16 on random tiles", "[sim]") {
    for (const uint32_t n : {8u, 24u, 128u, 256u})
        for (const bool swizzled : {false, true}) {
            CAPTURE(n, swizzled);
            WarpgroupMultiply multiply;
            multiply.n = n;
            multiply.swizzled = swizzled;
            const Tile t(64, n, n);
            std::vector<float> out;
            const GridResult run = multiply.run(t, out);
            INFO(run.finding.text);
            REQUIRE(run.ok);
            CHECK(differing(out, t.expected()) == 0);
        }
}

TEST_CASE("wgmma with A in registers and with B transposed", "[sim]") {
    for (const bool registers : {false, true}) {
        WarpgroupMultiply multiply;
        multiply.n = 40;
        multiply.a_in_registers = registers;
        multiply.transpose_b = true;
        const Tile t(64, 40, 17);
        std::vector<float> out;
        const GridResult run = multiply.run(t, out);
        INFO(run.finding.text);
        REQUIRE(run.ok);
        CHECK(differing(out, t.expected()) == 0);
    }
}

TEST_CASE("wgmma: a missing fence, a write behind the fence and a missing wait are found", "[sim]") {
    const Tile t(64, 16, 5);
    std::vector<float> out;
    WarpgroupMultiply no_fence;
    no_fence.fence = "";
    CHECK(no_fence.run(t, out).finding.kind == FindingKind::wgmma_fence);
    WarpgroupMultiply late_write;
    late_write.before = "add.u32 %r100, %r100, 1;\n";
    CHECK(late_write.run(t, out).finding.kind == FindingKind::wgmma_fence);
    WarpgroupMultiply no_wait;
    no_wait.wait = "";
    CHECK(no_wait.run(t, out).finding.kind == FindingKind::pending_register);
}
