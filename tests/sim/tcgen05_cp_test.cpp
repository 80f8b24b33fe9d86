// tcgen05.cp: every shape and multicast puts its rows where PTX ISA 9.7.16.9.2 says; strict and permissive mode.
#include <catch2/catch.hpp>
#include <numeric>

#include "sim/engine_kernel.hpp"

using namespace nvfp4r::sim;
using namespace nvfp4r::sim::test;

namespace {

constexpr uint32_t kColumns = 8;
constexpr uint32_t kEmpty = 0xffffffffu;

// Rows of 32 bytes as core matrices: 128 bytes to the next 16 bytes of a row, 256 to the next 8 rows.
uint32_t word_at(uint32_t row, uint32_t column) {
    return row / 8 * 64 + column / 4 * 32 + row % 8 * 4 + column % 4;
}

// TMEM after the copy: 128 lanes of 8 columns; cells that were not written hold kEmpty. Word w of shared memory is w.
std::vector<uint32_t> copied(const std::string& shape) {
    const uint64_t layout = uint64_t{1} << 46 | uint64_t{16} << 32 | uint64_t{8} << 16;
    const std::string body =
        copy_words(true, 0, 1024, 128, "in") +
        "fence.proxy.async.shared::cta;\nmov.u32 %r0, %tid.x;\nshr.u32 %r2, %r0, 5;\nsetp.ne.u32 %p0, %r0, 0;\n"
        "setp.ne.u32 %p1, %r2, 0;\n@%p0 bra init;\nmbarrier.init.shared::cta.b64 [mb], 1;\n"
        "fence.mbarrier_init.release.cluster;\ninit:\n@%p1 bra allocated;\n"
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [mb+32], 32;\nallocated:\nbar.sync 0;\n"
        "ld.shared.u32 %r3, [mb+32];\ntcgen05.fence::after_thread_sync;\n"
        "and.b32 %r4, %r0, 0x60;\nshl.b32 %r4, %r4, 16;\nadd.u32 %r4, %r4, %r3;\nmov.u32 %r7, 0xffffffff;\n"
        "tcgen05.st.sync.aligned.32x32b.x8.b32 [%r4], {%r7,%r7,%r7,%r7,%r7,%r7,%r7,%r7};\n"
        "tcgen05.wait::st.sync.aligned;\ntcgen05.fence::before_thread_sync;\nbar.sync 0;\n@%p0 bra issued;\n"
        "tcgen05.fence::after_thread_sync;\nmov.u32 %r10, sm;\nshr.u32 %r10, %r10, 4;\ncvt.u64.u32 %rd0, %r10;\n" +
        fmt::format("or.b64 %rd0, %rd0, {:#x};\ntcgen05.cp.cta_group::1.{} [%r3], %rd0;\n", layout, shape) +
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [mb];\nissued:\n" +
        wait_barrier(0, 0, "cp") +
        "tcgen05.fence::after_thread_sync;\n"
        "tcgen05.ld.sync.aligned.32x32b.x8.b32 {%r20,%r21,%r22,%r23,%r24,%r25,%r26,%r27}, [%r4];\n"
        "tcgen05.wait::ld.sync.aligned;\nld.param.u64 %rd1, [p1];\nmul.wide.u32 %rd2, %r0, 32;\nadd.u64 %rd1, %rd1, "
        "%rd2;\n"
        "st.global.v4.u32 [%rd1], {%r20,%r21,%r22,%r23};\nst.global.v4.u32 [%rd1+16], {%r24,%r25,%r26,%r27};\n"
        "tcgen05.fence::before_thread_sync;\nbar.sync 0;\n@%p1 bra freed;\n"
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 32;\nfreed:\n";
    EngineKernel kernel(100, body);
    std::vector<uint32_t> words(1024);
    std::iota(words.begin(), words.end(), 0u);
    kernel.argument(kernel.buffer(words, "words"));
    const uint64_t out = kernel.buffer(std::vector<uint32_t>(128 * kColumns), "cells");
    kernel.argument(out);
    const GridResult run = kernel.launch(128);
    INFO(run.finding.text);
    REQUIRE(run.ok);
    return kernel.read<uint32_t>(out, 128 * kColumns);
}

// `row_of`: the source row of a lane, or -1.
void check_copy(const std::string& shape, uint32_t columns, int (*row_of)(int lane)) {
    const std::vector<uint32_t> cells = copied(shape);
    uint32_t wrong = 0;
    for (int lane = 0; lane < 128; ++lane)
        for (uint32_t c = 0; c < kColumns; ++c) {
            const int row = row_of(lane);
            const uint32_t want = row < 0 || c >= columns ? kEmpty : word_at(static_cast<uint32_t>(row), c);
            wrong += cells[static_cast<uint32_t>(lane) * kColumns + c] != want;
        }
    CAPTURE(shape);
    CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("tcgen05.cp: rows and lanes of every shape", "[sim]") {
    check_copy("128x256b", 8, [](int lane) { return lane; });
    check_copy("128x128b", 4, [](int lane) { return lane; });
    check_copy("4x256b", 8, [](int lane) { return lane % 32 == 31 ? lane / 32 : -1; });
    check_copy("64x128b.warpx2::02_13", 4, [](int lane) { return lane % 64; });
    check_copy("64x128b.warpx2::01_23", 4, [](int lane) { return lane / 64 * 32 + lane % 32; });
    check_copy("32x128b.warpx4", 4, [](int lane) { return lane % 32; });
}

TEST_CASE("C11 permissive mode computes on after a warp touched another's lanes, and lists it", "[sim]") {
    // Warp 1 writes and reads lanes 0 to 31.
    const std::string body =
        "mov.u32 %r0, %tid.x;\nsetp.lt.u32 %p1, %r0, 32;\n@!%p1 bra allocated;\n"
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [mb+32], 32;\nallocated:\nbar.sync 0;\n"
        "ld.shared.u32 %r3, [mb+32];\ntcgen05.fence::after_thread_sync;\n@%p1 bra waiting;\n"
        "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3], {%r0};\ntcgen05.wait::st.sync.aligned;\n"
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r5}, [%r3];\ntcgen05.wait::ld.sync.aligned;\n"
        "ld.param.u64 %rd1, [p0];\nmul.wide.u32 %rd2, %r0, 4;\nadd.u64 %rd1, %rd1, %rd2;\nst.global.u32 [%rd1+-128], "
        "%r5;\n"
        "tcgen05.fence::before_thread_sync;\nwaiting:\nbar.sync 0;\n@!%p1 bra freed;\n"
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 32;\nfreed:\n";
    for (const bool strict : {true, false}) {
        EngineKernel kernel(100, body);
        kernel.config().strict = strict;
        const uint64_t out = kernel.buffer(std::vector<uint32_t>(32), "out");
        kernel.argument(out);
        const GridResult run = kernel.launch(64);
        if (strict) {
            REQUIRE_FALSE(run.ok);
            CHECK(run.finding.kind == FindingKind::tmem_owner);
            continue;
        }
        REQUIRE(run.ok);
        REQUIRE_FALSE(run.findings.empty());
        for (const Finding& found : run.findings) CHECK(found.kind == FindingKind::tmem_owner);
        const std::vector<uint32_t> got = kernel.read<uint32_t>(out, 32);
        for (uint32_t i = 0; i < 32; ++i) CHECK(got[i] == 32 + i);
    }
}
