// prefetch, prefetchu, createpolicy, applypriority, discard (PTX ISA 9.7.9.13 to .17).
#include <catch2/catch.hpp>

#include "evaluate.hpp"
#include "run_ptx.hpp"

using namespace nvfp4r::sim;
using namespace nvfp4r::sim::test;

namespace {

constexpr uint32_t kLineWords = 32;

std::vector<uint32_t> counted_words(uint32_t words) {
    std::vector<uint32_t> out(words);
    for (uint32_t i = 0; i < words; ++i) out[i] = 100 + i;
    return out;
}

std::string refusal_of_statement(const std::string& statement) {
    return refusal_of(statement + ";\nmov.b64 v0, v1;", "dd");
}

}  // namespace

TEST_CASE("prefetches and priorities leave memory as it is", "[sim]") {
    Bench bench;
    const std::vector<uint32_t> data = counted_words(kLineWords);
    const uint64_t in = bench.buffer(data, "in");
    const GridResult result = bench.run(R"(
        prefetch.global.L1 [%a0];
        prefetch.global.L2 [%a0];
        prefetch.global.L2::evict_last [%a0];
        prefetch.global.L2::evict_normal [%a0];
        prefetch.L2 [%a0];
        prefetchu.L1 [%a0];
        applypriority.global.L2::evict_normal [%a0], 128;
        applypriority.L2::evict_normal [%a0], 128;)",
                                        {}, {in});
    INFO(result.finding.text);
    REQUIRE(result.ok);
    CHECK(bench.read<uint32_t>(in, kLineWords) == data);
    CHECK(bench.run("applypriority.global.L2::evict_normal [%a0+64], 128;", {}, {in}).finding.kind ==
          FindingKind::misaligned);
    CHECK(refusal_of_statement("prefetch.global.L3 [v1]").find("L3") != std::string::npos);
    CHECK(refusal_of_statement("applypriority.global.L2::evict_normal [v1], 64").find("128") != std::string::npos);
    CHECK(refusal_of_statement("applypriority.global.L2::evict_last [v1], 128").find("evict_last") !=
          std::string::npos);
}

TEST_CASE("a policy from createpolicy goes with loads, stores and atomics and changes none of them", "[sim]") {
    Bench bench;
    const uint64_t words = bench.buffer(counted_words(kLineWords), "words");
    const GridResult result = bench.run(R"(
        createpolicy.fractional.L2::evict_last.b64 %rd0, 0f3F000000;
        createpolicy.fractional.L2::evict_first.b64 %rd1;
        createpolicy.fractional.L2::evict_normal.L2::evict_unchanged.b64 %rd2, 1.0;
        createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %rd3, [%a0], 64, 128;
        createpolicy.cvt.L2.b64 %rd4, 0x12f0000000000000;
        setp.ne.u32 %p0, %tid_x, 0;
        @%p0 bra done;
        ld.global.L2::cache_hint.u32 %r0, [%a0], %rd0;
        st.global.L2::cache_hint.u32 [%a0+4], %r0, %rd1;
        atom.global.add.L2::cache_hint.u32 %r1, [%a0+8], 5, %rd2;
        red.global.add.L2::cache_hint.u32 [%a0+12], 7, %rd3;
        ld.global.L2::cache_hint.u32 %r2, [%a0], %rd4;
        st.global.u32 [%a0+16], %r2;
    done:)",
                                        {}, {words});
    INFO(result.finding.text);
    REQUIRE(result.ok);
    CHECK(bench.read<uint32_t>(words, 5) == std::vector<uint32_t>{100, 100, 107, 110, 100});
    CHECK(refusal_of_statement("createpolicy.fractional.L2::evict_last.b64 v0, 1.0, 2").find("operand") !=
          std::string::npos);
    CHECK(refusal_of_statement("createpolicy.range.L2::evict_last.b64 v0, [v1], 64").find("operand") !=
          std::string::npos);
    CHECK(refusal_of_statement("createpolicy.fractional.L1::evict_last.b64 v0").find("L1::evict_last") !=
          std::string::npos);
}

TEST_CASE("what is discarded counts as unwritten, its neighbours do not", "[sim]") {
    Bench bench;
    const uint64_t in = bench.buffer(counted_words(2 * kLineWords), "in");
    const std::string discard = "setp.eq.u32 %p0, %tid_x, 0;\n@%p0 discard.global.L2 [%a0], 128;\nbar.warp.sync -1;\n";
    CHECK(bench.run(discard + "ld.global.u32 %r0, [%a0+128];", {}, {in}).ok);
    const GridResult read =
        bench.run(discard + "ld.global.u32 %r0, [%a0+124];\nst.global.u32 [%a0+128], %r0;", {1}, {in});
    CHECK(read.finding.kind == FindingKind::uninitialised);
    CHECK(bench.run("discard.global.L2 [%a0], 128;", {64}, {in}).finding.kind == FindingKind::race);
    CHECK(bench.run("discard.L2 [%a0+32], 128;", {1}, {in}).finding.kind == FindingKind::misaligned);
    CHECK(bench.run("discard.global.L2 [%a0+256], 128;", {1}, {in}).finding.kind == FindingKind::out_of_bounds);
    CHECK(refusal_of_statement("discard.global.L2 [v1], 256").find("128") != std::string::npos);
    CHECK(refusal_of_statement("discard.shared.L2 [v1], 128").find("global") != std::string::npos);
}
