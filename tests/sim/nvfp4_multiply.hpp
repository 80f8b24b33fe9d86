// A whole tcgen05 kernel around one NVFP4 multiply: operands to shared memory, scales to TMEM by tcgen05.cp, C by
// tcgen05.st, mma, commit, tcgen05.ld. One CTA of M = 128, or a pair of M = 128 or 256.
#pragma once

#include "sim/engine_kernel.hpp"

namespace nvfp4r::sim::test {

/// One row of A or column of B: 64 e2m1 codes, k ascending, the even k in the low nibble, and four factors.
struct ScaledRow {
    uint8_t codes[32] = {};
    uint8_t scales[4] = {};
};

struct Nvfp4Multiply {
    uint32_t group = 1, m = 128, n = 16;
    bool swizzled = false;                        // operands in the 128-byte swizzle
    uint32_t sfa_column = 256, sfb_column = 264;  // relative to the allocation
    std::string before_mma, between;              // PTX put in front of the multiply, and in front of the loads
    std::vector<ScaledRow> a, b;                  // m rows, n columns
    std::vector<uint32_t> c;                      // m * n, row-major

    uint32_t rows() const { return m / group; }               // of A and D in one CTA
    uint32_t local_n() const { return n / group; }            // rows of B in one CTA
    bool split() const { return group == 2 && m == 128; }     // layout B
    uint32_t columns() const { return split() ? n / 2 : n; }  // of D in one lane

    static constexpr uint32_t kAOffset = 0, kBOffset = 16384, kSfaOffset = kBOffset + 32768,
                              kSfbOffset = kSfaOffset + 1024;
    static constexpr uint32_t kImageBytes = kSfbOffset + 1024;

    /// CTA, lane and column of D[m][n] (PTX ISA 9.7.16.10.5, layouts A, B and D), as an index of C and the result.
    size_t cell(uint32_t row, uint32_t column) const {
        const uint32_t cta = row / rows();
        const uint32_t lane = row % rows() + (split() ? column / columns() * 64 : 0);
        return (size_t{cta} * 128 + lane) * columns() + column % columns();
    }
    uint32_t operand_address(uint32_t offset, uint32_t row, uint32_t k_byte) const {
        if (!swizzled) return offset + row / 8 * 256 + k_byte / 16 * 128 + row % 8 * 16 + k_byte % 16;
        const uint32_t linear = kDynamicOffset + offset + row * 128 + k_byte;
        return (linear ^ (linear >> 7 & 7u) << 4) - kDynamicOffset;
    }

    /// Shared memory of each CTA, one after the other.
    std::vector<uint8_t> image() const {
        std::vector<uint8_t> out(size_t{kImageBytes} * group);
        for (uint32_t cta = 0; cta < group; ++cta) {
            uint8_t* base = out.data() + size_t{cta} * kImageBytes;
            for (uint32_t r = 0; r < rows(); ++r)
                for (uint32_t i = 0; i < 32; ++i) base[operand_address(kAOffset, r, i)] = a[cta * rows() + r].codes[i];
            for (uint32_t r = 0; r < local_n(); ++r)
                for (uint32_t i = 0; i < 32; ++i)
                    base[operand_address(kBOffset, r, i)] = b[cta * local_n() + r].codes[i];
            for (uint32_t r = 0; r < rows(); ++r)
                std::memcpy(base + kSfaOffset + r % 32 * 16 + r / 32 * 4, a[cta * rows() + r].scales, 4);
            for (uint32_t r = 0; r < n; ++r) {
                const uint32_t half = split() ? r / (n / 2) : 0, at = split() ? r % (n / 2) : r;
                const uint32_t atom = split() ? half * 512 : at / 128 * 512;
                std::memcpy(base + kSfbOffset + atom + at % 32 * 16 + at % 128 / 32 * 4, b[r].scales, 4);
            }
        }
        return out;
    }
    uint32_t instruction_descriptor() const { return 0x480u | n / 8 << 17 | m / 128 << 27; }

    std::string body() const {
        const std::string g = fmt::format("cta_group::{}", group);
        const std::string barrier =
            group == 2 ? "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n"
                       : "bar.sync 0;\n";
        const uint64_t layout = swizzled ? uint64_t{2} << 61 | uint64_t{1} << 46 | uint64_t{64} << 32
                                         : uint64_t{1} << 46 | uint64_t{16} << 32 | uint64_t{8} << 16;
        const uint64_t scale_layout = uint64_t{1} << 46 | uint64_t{8} << 32;
        const auto descriptor = [](const char* reg, uint32_t offset, uint64_t bits) {
            return fmt::format(
                "add.u32 %r20, %r10, {};\nand.b32 %r20, %r20, 0x3ffff;\nshr.u32 %r20, %r20, 4;\n"
                "cvt.u64.u32 {}, %r20;\nor.b64 {}, {}, {:#x};\n",
                offset, reg, reg, reg, bits);
        };
        std::string text;
        // Each CTA's part of the image, C and the result.
        text += fmt::format(
            "mov.u32 %r1, %cluster_ctarank;\nld.param.u64 %rd50, [p0];\nmul.wide.u32 %rd40, %r1, {};\n"
            "add.u64 %rd50, %rd50, %rd40;\nmov.u32 %r300, %tid.x;\n",
            kImageBytes);
        text += fmt::format(
            "copy_in:\nsetp.ge.u32 %p18, %r300, {};\n@%p18 bra done_in;\nshl.b32 %r301, %r300, 2;\n"
            "mov.u32 %r302, sm;\nadd.u32 %r302, %r302, %r301;\ncvt.u64.u32 %rd51, %r301;\n"
            "add.u64 %rd51, %rd50, %rd51;\nld.global.u32 %r303, [%rd51];\nst.shared.u32 [%r302], %r303;\n"
            "add.u32 %r300, %r300, 128;\nbra copy_in;\ndone_in:\nfence.proxy.async.shared::cta;\n",
            kImageBytes / 4);
        text +=
            "mov.u32 %r0, %tid.x;\nshr.u32 %r2, %r0, 5;\nsetp.ne.u32 %p0, %r0, 0;\nsetp.ne.u32 %p1, %r2, 0;\n"
            "@%p0 bra init_done;\nmbarrier.init.shared::cta.b64 [mb], 1;\nfence.mbarrier_init.release.cluster;\n"
            "init_done:\n@%p1 bra alloc_done;\n";
        text += fmt::format("tcgen05.alloc.{}.sync.aligned.shared::cta.b32 [mb+32], 512;\n", g);
        text += "alloc_done:\n" + barrier + "ld.shared.u32 %r3, [mb+32];\ntcgen05.fence::after_thread_sync;\n";
        // %r4: the warp's lanes of D; %rd41, %rd42: the thread's row of C and of the result.
        text += fmt::format(
            "and.b32 %r4, %r0, 0x60;\nshl.b32 %r4, %r4, 16;\nadd.u32 %r4, %r4, %r3;\n"
            "shl.b32 %r5, %r1, 7;\nadd.u32 %r5, %r5, %r0;\nmul.wide.u32 %rd43, %r5, {0};\n"
            "ld.param.u64 %rd41, [p1];\nadd.u64 %rd41, %rd41, %rd43;\n"
            "ld.param.u64 %rd42, [p2];\nadd.u64 %rd42, %rd42, %rd43;\nmov.u32 %r6, 0;\n"
            "fill:\nld.global.u32 %r7, [%rd41];\nadd.u32 %r8, %r4, %r6;\n"
            "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r8], {{%r7}};\nadd.u64 %rd41, %rd41, 4;\n"
            "add.u32 %r6, %r6, 1;\nsetp.lt.u32 %p2, %r6, {1};\n@%p2 bra fill;\n"
            "tcgen05.wait::st.sync.aligned;\ntcgen05.fence::before_thread_sync;\n",
            columns() * 4, columns());
        text += barrier;
        // The multiply, by thread 0 of the even CTA.
        text +=
            "setp.ne.u32 %p3, %r1, 0;\nor.pred %p3, %p3, %p0;\n@%p3 bra multiply_done;\n"
            "tcgen05.fence::after_thread_sync;\nmov.u32 %r10, sm;\n";
        text += descriptor("%rd0", kAOffset, layout) + descriptor("%rd1", kBOffset, layout);
        text += descriptor("%rd2", kSfaOffset, scale_layout) + descriptor("%rd3", kSfbOffset, scale_layout);
        text += fmt::format("add.u32 %r11, %r3, {};\nadd.u32 %r12, %r3, {};\n", sfa_column, sfb_column);
        text += fmt::format("tcgen05.cp.{}.32x128b.warpx4 [%r11], %rd2;\n", g);
        if (split()) {
            text += fmt::format("tcgen05.cp.{}.64x128b.warpx2::01_23 [%r12], %rd3;\n", g);
        } else {
            text += fmt::format("tcgen05.cp.{}.32x128b.warpx4 [%r12], %rd3;\n", g);
            if (n > 128)
                text += fmt::format(
                    "add.u64 %rd3, %rd3, 32;\nadd.u32 %r13, %r12, 4;\n"
                    "tcgen05.cp.{}.32x128b.warpx4 [%r13], %rd3;\n",
                    g);
        }
        text += before_mma;
        text += fmt::format(
            "mov.u32 %r14, {:#x};\nsetp.eq.u32 %p4, %r14, %r14;\n"
            "tcgen05.mma.{}.kind::mxf4nvf4.block_scale.block16 [%r3], %rd0, %rd1, %r14, [%r11], [%r12], %p4;\n",
            instruction_descriptor(), g);
        if (group == 2)
            text +=
                "mov.u16 %h0, "
                "3;\ntcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 "
                "[mb], %h0;\n";
        else
            text += "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [mb];\n";
        text += "multiply_done:\n" + wait_barrier(0, 0, "mma");
        text += between.empty() ? "tcgen05.fence::after_thread_sync;\n" : between;
        text += fmt::format(
            "mov.u32 %r6, 0;\ndrain:\nadd.u32 %r8, %r4, %r6;\n"
            "tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r7}}, [%r8];\ntcgen05.wait::ld.sync.aligned;\n"
            "st.global.u32 [%rd42], %r7;\nadd.u64 %rd42, %rd42, 4;\nadd.u32 %r6, %r6, 1;\n"
            "setp.lt.u32 %p2, %r6, {};\n@%p2 bra drain;\ntcgen05.fence::before_thread_sync;\n",
            columns());
        text += barrier;
        text +=
            fmt::format("@%p1 bra dealloc_done;\ntcgen05.dealloc.{}.sync.aligned.b32 %r3, 512;\ndealloc_done:\n", g);
        return text;
    }

    /// The result in the order of cell(). `out` receives D.
    GridResult run(std::vector<uint32_t>& out, uint32_t sm = 100, Policy policy = Policy::round_robin,
                   bool order_mma_cp = false) const {
        EngineKernel kernel(sm, body());
        kernel.config().policy = policy;
        kernel.config().order_mma_cp = order_mma_cp;
        const size_t cells = size_t{group} * 128 * columns();
        std::vector<uint32_t> placed(cells);
        for (uint32_t row = 0; row < m; ++row)
            for (uint32_t column = 0; column < n; ++column) placed[cell(row, column)] = c[row * n + column];
        const uint64_t result = kernel.buffer(std::vector<uint32_t>(cells), "result");
        kernel.argument(kernel.buffer(image(), "image"));
        kernel.argument(kernel.buffer(placed, "C"));
        kernel.argument(result);
        GridResult run = kernel.launch(128, group, group);
        out = kernel.read<uint32_t>(result, cells);
        return run;
    }
};

}  // namespace nvfp4r::sim::test
