// tcgen05.mma kind::f16: layouts D and F, transposed and negated operands, A in TMEM, lanes left out, against integers.
#include <catch2/catch.hpp>

#include "format/number.hpp"
#include "sim/engine_kernel.hpp"

using namespace nvfp4r::sim;
using namespace nvfp4r::sim::test;

namespace {

// Small integers: every sum is exact, so that only the places of rows, columns and k are tested.
int a_value(uint32_t row, uint32_t k) {
    return static_cast<int>((row * 7 + k * 3) % 11) - 5;
}
int b_value(uint32_t column, uint32_t k) {
    return static_cast<int>((column * 5 + k * 2) % 9) - 4;
}

struct DenseMultiply {
    uint32_t m = 128, n = 32;
    bool transpose_a = false, transpose_b = false;  // MN-major in shared memory
    bool negate_a = false;
    bool a_in_tmem = false;
    bool skip_lane_5 = false;

    static constexpr uint32_t kB = 8192, kBytes = 16384, kTmemA = 128;

    // Core matrices of 8 x 16 bytes. K-major: 8 rows; 128 bytes to the next k, 256 to the next rows. MN-major: 8 k of 8
    // rows; 128 bytes to the next 8 k, 256 to the next rows.
    static uint32_t address(uint32_t row, uint32_t k, bool transposed) {
        if (!transposed) return row / 8 * 256 + k / 8 * 128 + row % 8 * 16 + k % 8 * 2;
        return row / 8 * 256 + k / 8 * 128 + k % 8 * 16 + row % 8 * 2;
    }
    std::vector<uint8_t> image() const {
        std::vector<uint8_t> out(kBytes);
        const auto put = [&out](uint32_t at, int value) {
            const uint16_t bits = nvfp4r::f32_to_f16(static_cast<float>(value));
            std::memcpy(&out[at], &bits, 2);
        };
        for (uint32_t k = 0; k < 16; ++k) {
            for (uint32_t r = 0; r < m; ++r) put(address(r, k, transpose_a), a_value(r, k));
            for (uint32_t r = 0; r < n; ++r) put(kB + address(r, k, transpose_b), b_value(r, k));
        }
        return out;
    }
    uint32_t lane(uint32_t row) const { return m == 64 ? row % 16 + row / 16 * 32 : row; }

    std::string body() const {
        const uint32_t idesc = 1u << 4 | (negate_a ? 1u << 13 : 0) | (transpose_a ? 1u << 15 : 0) |
                               (transpose_b ? 1u << 16 : 0) | n / 8 << 17 | m / 16 << 24;
        // LBO and SBO change places: SBO steps the rows unless MN-major (PTX ISA 9.7.16.3.3, no swizzle).
        const uint64_t layout = uint64_t{1} << 46 | uint64_t{16} << 32 | uint64_t{8} << 16;
        std::string text = copy_words(true, 0, kBytes / 4, 128, "in") + "fence.proxy.async.shared::cta;\n";
        text +=
            "mov.u32 %r0, %tid.x;\nshr.u32 %r2, %r0, 5;\nsetp.ne.u32 %p0, %r0, 0;\nsetp.ne.u32 %p1, %r2, 0;\n@%p0 bra "
            "init;\n"
            "mbarrier.init.shared::cta.b64 [mb], 1;\nfence.mbarrier_init.release.cluster;\ninit:\n@%p1 bra allocated;\n"
            "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [mb+32], 256;\nallocated:\nbar.sync 0;\n"
            "ld.shared.u32 %r3, [mb+32];\ntcgen05.fence::after_thread_sync;\n"
            "and.b32 %r4, %r0, 0x60;\nshl.b32 %r4, %r4, 16;\nadd.u32 %r4, %r4, %r3;\n";
        // D starts as 1000 + column in every lane; A goes to TMEM as eight cells of two f16 each.
        text +=
            "mov.u32 %r6, 0;\nfill:\nadd.u32 %r7, %r6, 1000;\ncvt.rn.f32.u32 %r7, %r7;\nadd.u32 %r8, %r4, %r6;\n"
            "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r8], {%r7};\nadd.u32 %r6, %r6, 1;\n" +
            fmt::format("setp.lt.u32 %p2, %r6, {};\n@%p2 bra fill;\n", n);
        if (a_in_tmem)
            for (uint32_t c = 0; c < 8; ++c)
                text += fmt::format(
                    "shr.u32 %r9, %r0, 3;\nmul.lo.u32 %r9, %r9, 256;\nand.b32 %r10, %r0, 7;\nshl.b32 %r10, %r10, 4;\n"
                    "add.u32 %r9, %r9, %r10;\nmov.u32 %r10, sm;\nadd.u32 %r9, %r9, %r10;\n"
                    "ld.shared.u32 %r7, [%r9+{}];\nadd.u32 %r8, %r4, {};\n"
                    "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r8], {{%r7}};\n",
                    c / 4 * 128 + c % 4 * 4, kTmemA + c);
        text +=
            "tcgen05.wait::st.sync.aligned;\ntcgen05.fence::before_thread_sync;\nbar.sync 0;\n@%p0 bra multiplied;\n"
            "tcgen05.fence::after_thread_sync;\nmov.u32 %r10, sm;\n" +
            fmt::format(
                "shr.u32 %r11, %r10, 4;\ncvt.u64.u32 %rd0, %r11;\nor.b64 %rd0, %rd0, {0:#x};\n"
                "add.u64 %rd1, %rd0, {1};\nmov.u32 %r14, {2:#x};\nsetp.eq.u32 %p4, %r14, %r14;\n"
                "add.u32 %r15, %r3, {3};\nmov.u32 %r16, {4};\nmov.u32 %r17, 0;\n",
                layout, kB >> 4, idesc, kTmemA, skip_lane_5 ? 1 << 5 : 0);
        text += fmt::format("tcgen05.mma.cta_group::1.kind::f16 [%r3], {}, %rd1, %r14, {}%p4;\n",
                            a_in_tmem ? "[%r15]" : "%rd0", skip_lane_5 ? "{%r16, %r17, %r17, %r17}, " : "");
        text += "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [mb];\nmultiplied:\n" +
                wait_barrier(0, 0, "mma") + "tcgen05.fence::after_thread_sync;\nld.param.u64 %rd2, [p1];\n" +
                fmt::format(
                    "mul.wide.u32 %rd3, %r0, {};\nadd.u64 %rd2, %rd2, %rd3;\nmov.u32 %r6, 0;\ndrain:\n"
                    "add.u32 %r8, %r4, %r6;\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r7}}, [%r8];\n"
                    "tcgen05.wait::ld.sync.aligned;\nst.global.u32 [%rd2], %r7;\nadd.u64 %rd2, %rd2, 4;\n"
                    "add.u32 %r6, %r6, 1;\nsetp.lt.u32 %p2, %r6, {};\n@%p2 bra drain;\n",
                    n * 4, n) +
                "tcgen05.fence::before_thread_sync;\nbar.sync 0;\n@%p1 bra freed;\n"
                "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 256;\nfreed:\n";
        return text;
    }

    void check() const {
        EngineKernel kernel(100, body());
        kernel.argument(kernel.buffer(image(), "image"));
        const uint64_t result = kernel.buffer(std::vector<float>(128 * n), "D");
        kernel.argument(result);
        const GridResult run = kernel.launch(128);
        INFO(run.finding.text);
        REQUIRE(run.ok);
        const std::vector<float> d = kernel.read<float>(result, 128 * n);
        uint32_t wrong = 0;
        for (uint32_t r = 0; r < m; ++r)
            for (uint32_t c = 0; c < n; ++c) {
                int sum = 0;
                for (uint32_t k = 0; k < 16; ++k) sum += a_value(r, k) * b_value(c, k);
                if (negate_a) sum = -sum;
                if (skip_lane_5 && lane(r) == 5) sum = 0;
                wrong += d[lane(r) * n + c] != static_cast<float>(1000 + static_cast<int>(c) + sum);
            }
        CHECK(wrong == 0);
    }
};

}  // namespace

TEST_CASE("tcgen05.mma kind::f16: shapes, transposes, negation, A in TMEM and lanes left out", "[sim]") {
    DenseMultiply plain;
    plain.check();
    DenseMultiply half = plain;  // layout F
    half.m = 64;
    half.check();
    DenseMultiply a = plain;
    a.transpose_a = true;
    a.negate_a = true;
    a.check();
    DenseMultiply b = plain;
    b.transpose_b = true;
    b.n = 64;
    b.check();
    DenseMultiply tmem = plain;
    tmem.a_in_tmem = true;
    tmem.check();
    DenseMultiply masked = plain;
    masked.skip_lane_5 = true;
    masked.check();
}
