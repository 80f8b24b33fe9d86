// TMEM: allocation and its traps, who may touch what, the shapes of ld, st and cp, and the order that PTX demands.
#include <catch2/catch.hpp>
#include <numeric>
#include <set>

#include "sim/nvfp4_multiply.hpp"

using namespace nvfp4r::sim;
using namespace nvfp4r::sim::test;

namespace {

const std::string kAlloc64 = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [mb+32], 64;\n";
const std::string kBase = "bar.sync 0;\nld.shared.u32 %r3, [mb+32];\ntcgen05.fence::after_thread_sync;\n";
const std::string kDealloc64 = "bar.sync 0;\ntcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 64;\n";

// One warp.
GridResult run_warp(const std::string& body, uint32_t sm = 100) {
    EngineKernel kernel(sm, "mov.u32 %r0, %tid.x;\nmov.u32 %r1, 1;\n" + body);
    return kernel.launch(32);
}
FindingKind tcgen05_finding(const std::string& body) {
    const GridResult run = run_warp(body);
    INFO(body);
    REQUIRE_FALSE(run.ok);
    return run.finding.kind;
}
bool runs(const std::string& body) {
    const GridResult run = run_warp(body);
    INFO(run.finding.text);
    CHECK(run.ok);
    return run.ok;
}

const std::string kStoreOne = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3], {%r1};\n";
const std::string kWaitStore = "tcgen05.wait::st.sync.aligned;\n";
const std::string kLoadOne = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r5}, [%r3];\n";
const std::string kWaitLoad = "tcgen05.wait::ld.sync.aligned;\n";

// Lane (of 32) and column of thread t's register i, PTX ISA 9.7.16.8.
struct Cell {
    uint32_t lane, column;
};
Cell cell_of(const std::string& shape, uint32_t t, uint32_t i, uint32_t split) {
    if (shape == "32x32b") return {t, i};
    if (shape == "16x64b") return {t / 4 + 8 * (t % 2), t / 2 % 2 + 2 * i};
    if (shape == "16x128b") return {t / 4 + 8 * (i % 2), t % 4 + 4 * (i / 2)};
    if (shape == "16x256b") return {t / 4 + 8 * (i / 2 % 2), 2 * (t % 4) + i % 2 + 8 * (i / 4)};
    return {t % 16, i + t / 16 * split};
}

std::string registers(const char* before, uint32_t count, uint32_t first) {
    std::string text = std::string(before) + "{";
    for (uint32_t i = 0; i < count; ++i) text += fmt::format("{}%r{}", i ? "," : "", first + i);
    return text + "}";
}

}  // namespace

TEST_CASE("C07 tcgen05.alloc: sizes that are not powers of two from 32 to 512", "[sim]") {
    for (const uint32_t columns : {0u, 16u, 48u, 136u, 144u, 160u, 1024u})
        CHECK(tcgen05_finding(fmt::format(
                  "mov.u32 %r2, {};\ntcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [mb+32], %r2;\n",
                  columns)) == FindingKind::tmem_alloc);
}

TEST_CASE("C10 TMEM that is not freed is a leak", "[sim]") {
    CHECK(runs(kAlloc64 + kBase + kDealloc64));
    CHECK(tcgen05_finding(kAlloc64 + kBase) == FindingKind::tmem_leak);
}

TEST_CASE("tcgen05.dealloc of what alloc did not return", "[sim]") {
    CHECK(tcgen05_finding(kAlloc64 + kBase +
                          "add.u32 %r3, %r3, 32;\ntcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 32;\n") ==
          FindingKind::tmem_dealloc_foreign);
    CHECK(tcgen05_finding(kAlloc64 + kBase + "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 32;\n") ==
          FindingKind::tmem_dealloc_foreign);
    CHECK(tcgen05_finding(kAlloc64 + kBase + kDealloc64 + kDealloc64) == FindingKind::tmem_dealloc_unallocated);
}

TEST_CASE("tcgen05.alloc after relinquish, growing requests, and two groups in one kernel", "[sim]") {
    const std::string relinquish = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n";
    CHECK(runs(kAlloc64 + relinquish + kBase + kDealloc64));
    CHECK(tcgen05_finding(kAlloc64 + relinquish + kAlloc64) == FindingKind::tmem_alloc_phase);
    CHECK(tcgen05_finding(kAlloc64 + "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [mb+40], 128;\n") ==
          FindingKind::tmem_alloc);
    CHECK(tcgen05_finding(kAlloc64 + "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;\n") ==
          FindingKind::illegal_instruction);
}

TEST_CASE("C08 tcgen05.alloc by a warp with an exited lane", "[sim]") {
    CHECK(tcgen05_finding("setp.eq.u32 %p0, %r0, 31;\n@%p0 ret;\n" + kAlloc64) == FindingKind::divergence);
}

TEST_CASE("TMEM accesses outside the allocation, the memory, the warp's lanes and their alignment", "[sim]") {
    CHECK(runs(kAlloc64 + kBase + kStoreOne + kWaitStore + kLoadOne + kWaitLoad + kDealloc64));
    const auto at = [](const std::string& change) {
        return tcgen05_finding(kAlloc64 + kBase + change + kStoreOne + kWaitStore);
    };
    CHECK(at("add.u32 %r3, %r3, 64;\n") == FindingKind::tmem_unallocated);
    CHECK(at("add.u32 %r3, %r3, 512;\n") == FindingKind::tmem_bounds);
    CHECK(at("add.u32 %r3, %r3, 0x100000;\n") == FindingKind::tmem_alignment);  // lane 16
    CHECK(at("add.u32 %r3, %r3, 0x200000;\n") == FindingKind::tmem_owner);      // C11: lane 32 from warp 0
}

TEST_CASE("TMEM at an address that was guessed, not waited for", "[sim]") {
    // Warp 1 takes the first allocation to be at 0, as it is, and warp 0 to have made it.
    const std::string first = "mov.u32 %r0, %tid.x;\nmov.u32 %r1, 1;\nsetp.ge.u32 %p1, %r0, 32;\n@%p1 bra second;\n";
    const std::string later =
        "second:\nmov.u32 %r4, 0;\nwait:\nadd.u32 %r4, %r4, 1;\nsetp.lt.u32 %p2, %r4, 1000;\n@%p2 bra wait;\n";
    const std::string use =
        "mov.u32 %r3, 0x200000;\n" + kStoreOne + kWaitStore + "tcgen05.fence::before_thread_sync;\n";
    const std::string end =
        "end:\nbar.sync 0;\n@%p1 bra out;\nld.shared.u32 %r3, [mb+32];\n"
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 64;\nout:\n";
    const auto run = [&](const std::string& order) {
        EngineKernel kernel(100, first + kAlloc64 + order + "bra end;\n" + later + order + use + end);
        return kernel.launch(64);
    };
    const GridResult ordered = run("bar.sync 1, 64;\n"), guessed = run("");
    INFO(ordered.finding.text << guessed.finding.text);
    CHECK(ordered.ok);
    REQUIRE_FALSE(guessed.ok);
    CHECK(guessed.finding.kind == FindingKind::race);
    CHECK_THAT(guessed.finding.text, Catch::Matchers::Contains("tcgen05.alloc"));
}

TEST_CASE("C17 a read of TMEM that nobody has written", "[sim]") {
    CHECK(tcgen05_finding(kAlloc64 + kBase + kLoadOne + kWaitLoad) == FindingKind::uninitialised);
}

TEST_CASE("C05 registers of an unfinished tcgen05.ld, and a load before wait::st", "[sim]") {
    CHECK(tcgen05_finding(kAlloc64 + kBase + kStoreOne + kWaitStore + kLoadOne + "add.u32 %r6, %r5, 1;\n") ==
          FindingKind::pending_register);
    CHECK(tcgen05_finding(kAlloc64 + kBase + kStoreOne + kLoadOne + kWaitLoad + kWaitStore + kDealloc64) ==
          FindingKind::race);
}

TEST_CASE("permissive mode lists a missing wait::ld and gives the loaded value, as hardware does", "[sim]") {
    EngineKernel kernel(100, "mov.u32 %r0, %tid.x;\nmov.u32 %r1, 41;\n" + kAlloc64 + kBase + kStoreOne + kWaitStore +
                                 kLoadOne + "add.u32 %r6, %r5, 1;\n" + kWaitLoad +
                                 "setp.eq.u32 %p0, %r0, 0;\nld.param.u64 %rd0, [p0];\n"
                                 "@%p0 st.global.u32 [%rd0], %r6;\n" +
                                 kDealloc64);
    kernel.config().strict = false;
    kernel.config().policy = Policy::late;
    const uint64_t out = kernel.buffer<uint32_t>({0}, "out");
    kernel.argument(out);
    const GridResult run = kernel.launch(32);
    INFO(run.finding.text);
    REQUIRE(run.ok);
    REQUIRE(run.findings.size() == 1);
    CHECK(run.findings[0].kind == FindingKind::pending_register);
    CHECK(kernel.read<uint32_t>(out, 1)[0] == 42);
}

TEST_CASE("tcgen05.ld and .st: every shape and count", "[sim]") {
    for (const std::string shape : {"32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"})
        for (uint32_t count = 1; count <= 32; count *= 2) {
            const uint32_t each = shape == "16x128b" ? 2 : shape == "16x256b" ? 4 : 1;
            const uint32_t columns = shape == "16x64b"    ? 2 * count
                                     : shape == "16x128b" ? 4 * count
                                     : shape == "16x256b" ? 8 * count
                                                          : count;
            const uint32_t split = shape == "16x32bx2" ? 64 : 0, words = each * count;
            const std::string half = split ? ", 64" : "";
            // st by the shape, ld by 32x32b: the whole rectangle comes back lane by lane.
            const uint32_t seen = split ? split + columns : columns;
            if (seen > 256) continue;
            std::string body =
                "mov.u32 %r0, %tid.x;\n"
                "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [mb+32], 256;\n" +
                kBase;
            body +=
                "mov.u32 %r4, 0;\nmov.u32 %r1, 0;\nzero:\nadd.u32 %r5, %r3, %r4;\n"
                "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r5], {%r1};\nadd.u32 %r4, %r4, 1;\nsetp.lt.u32 %p0, %r4, "
                "256;\n"
                "@%p0 bra zero;\ntcgen05.wait::st.sync.aligned;\n";
            for (uint32_t i = 0; i < words; ++i)
                body += fmt::format("mad.lo.u32 %r{}, %r0, 1000, {};\n", 100 + i, i + 1);
            body += registers(fmt::format("tcgen05.st.sync.aligned.{}.x{}.b32 [%r3]{}, ", shape, count, half).c_str(),
                              words, 100) +
                    ";\n";
            body += "tcgen05.wait::st.sync.aligned;\n";
            body += registers(fmt::format("tcgen05.ld.sync.aligned.{}.x{}.b32 ", shape, count).c_str(), words, 250) +
                    ", [%r3]" + half + ";\n";
            body += "tcgen05.wait::ld.sync.aligned;\n";
            for (uint32_t i = 0; i < words; ++i)
                body += fmt::format("setp.ne.u32 %p1, %r{}, %r{};\n@%p1 trap;\n", 100 + i, 250 + i);
            body += fmt::format(
                "ld.param.u64 %rd0, [p0];\nmul.wide.u32 %rd1, %r0, 1024;\nadd.u64 %rd0, %rd0, %rd1;\nmov.u32 %r4, 0;\n"
                "drain:\nadd.u32 %r5, %r3, %r4;\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r6}}, [%r5];\n"
                "tcgen05.wait::ld.sync.aligned;\nst.global.u32 [%rd0], %r6;\nadd.u64 %rd0, %rd0, 4;\n"
                "add.u32 %r4, %r4, 1;\nsetp.lt.u32 %p0, %r4, {};\n@%p0 bra drain;\nbar.sync 0;\n"
                "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 256;\n",
                seen);
            EngineKernel kernel(100, body);
            const uint64_t out = kernel.buffer(std::vector<uint32_t>(32 * 256), "cells");
            kernel.argument(out);
            const GridResult run = kernel.launch(32);
            CAPTURE(shape, count);
            INFO(run.finding.text);
            REQUIRE(run.ok);
            const std::vector<uint32_t> cells = kernel.read<uint32_t>(out, 32 * 256);
            uint32_t wrong = 0;
            for (uint32_t t = 0; t < 32; ++t)
                for (uint32_t i = 0; i < words; ++i) {
                    const Cell cell = cell_of(shape, t, i, split);
                    wrong += cells[cell.lane * 256 + cell.column] != t * 1000 + i + 1;
                }
            CHECK(wrong == 0);
        }
}

TEST_CASE("scale factors whose copies in the four lane quarters differ", "[sim]") {
    Nvfp4Multiply t;
    t.a.resize(t.m);
    t.b.resize(t.n);
    t.c.assign(size_t{t.m} * t.n, 0);
    for (uint32_t r = 0; r < t.m; ++r) t.a[r].scales[0] = static_cast<uint8_t>(r);
    // A copy without multicast puts rows 0 to 127 of the atoms into lanes 0 to 127: quarters differ.
    t.before_mma = "add.u32 %r11, %r11, 32;\ntcgen05.cp.cta_group::1.128x128b [%r11], %rd2;\n";
    std::vector<uint32_t> out;
    const GridResult run = t.run(out);
    REQUIRE_FALSE(run.ok);
    CHECK(run.finding.kind == FindingKind::scale_copies);
}

TEST_CASE("a tcgen05.cp over scale columns that an earlier multiply reads", "[sim]") {
    Nvfp4Multiply t;
    t.a.resize(t.m);
    t.b.resize(t.n);
    t.c.assign(size_t{t.m} * t.n, 0);
    t.before_mma = fmt::format(
        "mov.u32 %r14, {:#x};\nsetp.eq.u32 %p4, %r14, %r14;\n"
        "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16 [%r3], %rd0, %rd1, %r14, [%r11], "
        "[%r12], %p4;\ntcgen05.cp.cta_group::1.32x128b.warpx4 [%r11], %rd2;\n",
        t.instruction_descriptor());
    std::vector<uint32_t> out;
    const GridResult strict = t.run(out);
    REQUIRE_FALSE(strict.ok);
    CHECK(strict.finding.kind == FindingKind::race);
    CHECK(t.run(out, 100, Policy::round_robin, true).ok);  // as production kernels rely on it
}

TEST_CASE("collector::a::use needs the A that a fill has left", "[sim]") {
    Nvfp4Multiply t;
    t.a.resize(t.m);
    t.b.resize(t.n);
    t.c.assign(size_t{t.m} * t.n, 0);
    const auto multiply = [&t](const char* collector) {
        return fmt::format(
            "mov.u32 %r14, {:#x};\nsetp.eq.u32 %p4, %r14, %r14;\n"
            "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16.collector::a::{} [%r3], %rd0, %rd1, "
            "%r14, [%r11], [%r12], %p4;\n",
            t.instruction_descriptor(), collector);
    };
    std::vector<uint32_t> out;
    t.before_mma = multiply("fill") + multiply("lastuse");
    CHECK(t.run(out).ok);
    t.before_mma = multiply("use");
    CHECK(t.run(out).finding.kind == FindingKind::illegal_instruction);
}

TEST_CASE("C01 dealloc of a pair while the other CTA is still in alloc", "[sim]") {
    const std::string body = "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [mb+32], 64;\n" + kBase +
                             "tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r3, 64;\n";
    std::set<FindingKind> kinds;
    bool clean = false;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
        EngineKernel kernel(100, body);
        kernel.config().policy = Policy::hold_cta;
        kernel.config().seed = seed;
        const GridResult run = kernel.launch(32, 2, 2);
        if (run.ok)
            clean = true;
        else
            kinds.insert(run.finding.kind);
    }
    CAPTURE(clean);
    CHECK(kinds == std::set<FindingKind>{FindingKind::tmem_alloc_phase});
}
