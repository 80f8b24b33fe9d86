#include <catch2/catch.hpp>

#include "run_ptx.hpp"

using namespace nvfp4r::sim;
using namespace nvfp4r::sim::test;

namespace {

/// Runs `body` on one warp; each lane's %r9 is the result.
std::vector<uint32_t> each_lane(const std::string& body, uint32_t sm = 100) {
    Bench bench(GpuConfig::for_sm(sm));
    const uint64_t out = bench.room(32 * 4, "out");
    GridResult result = bench.run(body + R"(
        mul.wide.u32 %rd0, %tid_x, 4;
        add.u64 %rd0, %rd0, %a0;
        st.global.u32 [%rd0], %r9;)",
                                  {}, {out});
    INFO(result.finding.text);
    REQUIRE(result.ok);
    return bench.read<uint32_t>(out, 32);
}

std::vector<uint32_t> lanes(uint32_t (*value)(uint32_t)) {
    std::vector<uint32_t> all(32);
    for (uint32_t lane = 0; lane < 32; ++lane) all[lane] = value(lane);
    return all;
}

}  // namespace

TEST_CASE("shfl.sync moves values within its segment and says who was in range", "[sim]") {
    CHECK(each_lane("shfl.sync.bfly.b32 %r9, %tid_x, 5, 31, -1;") == lanes([](uint32_t l) { return l ^ 5; }));
    CHECK(each_lane("shfl.sync.up.b32 %r9, %tid_x, 3, 0, -1;") == lanes([](uint32_t l) { return l < 3 ? l : l - 3; }));
    CHECK(each_lane("shfl.sync.down.b32 %r9|%p0, %tid_x, 3, 31, -1;\n@!%p0 mov.u32 %r9, 99;") ==
          lanes([](uint32_t l) { return l > 28 ? 99 : l + 3; }));
    // Segments of 8 lanes: c = 0x18 << 8 | 31.
    CHECK(each_lane("shfl.sync.idx.b32 %r9, %tid_x, 2, 0x181f, -1;") == lanes([](uint32_t l) { return (l & 24) + 2; }));
}

TEST_CASE("votes, match, redux and elect agree over the member mask", "[sim]") {
    const std::string odd = "and.b32 %r0, %tid_x, 1;\nsetp.eq.u32 %p0, %r0, 1;\n";
    CHECK(each_lane(odd + "vote.sync.ballot.b32 %r9, %p0, -1;") == std::vector<uint32_t>(32, 0xaaaaaaaa));
    CHECK(each_lane(odd + "vote.sync.any.pred %p1, %p0, -1;\nselp.u32 %r9, 1, 0, %p1;") ==
          std::vector<uint32_t>(32, 1));
    CHECK(each_lane(odd + "vote.sync.all.pred %p1, !%p0, -1;\nselp.u32 %r9, 1, 0, %p1;") ==
          std::vector<uint32_t>(32, 0));
    CHECK(each_lane("shr.u32 %r0, %tid_x, 3;\nmatch.any.sync.b32 %r9, %r0, -1;") ==
          lanes([](uint32_t l) { return 0xffu << (l & 24); }));
    CHECK(each_lane("redux.sync.add.u32 %r9, %tid_x, -1;") == std::vector<uint32_t>(32, 496));
    CHECK(each_lane("sub.s32 %r0, %tid_x, 7;\nredux.sync.min.s32 %r9, %r0, -1;") ==
          std::vector<uint32_t>(32, 0xfffffff9u));
    CHECK(each_lane("cvt.rn.f32.u32 %f0, %tid_x;\nredux.sync.max.f32 %f1, %f0, -1;\nmov.b32 %r9, %f1;") ==
          std::vector<uint32_t>(32, 0x41f80000));
    CHECK(each_lane("mov.u32 %r9, 0;\nelect.sync %r1|%p0, -1;\n@%p0 mov.u32 %r9, 1;") ==
          lanes([](uint32_t l) { return l == 0 ? 1u : 0u; }));
    CHECK_THROWS(each_lane("redux.sync.max.f32 %f1, %f0, -1;", 90));
}

TEST_CASE("lanes named by a mask meet from two branches; one that never comes is reported", "[sim]") {
    CHECK(each_lane(R"(
        setp.lt.u32 %p0, %tid_x, 10;
        mov.u32 %r9, 1;
        @%p0 bra low;
        mov.u32 %r9, 2;
    low:
        redux.sync.add.u32 %r9, %r9, -1;)") == std::vector<uint32_t>(32, 10 + 44));
    Bench bench;
    GridResult result = bench.run(R"(
        setp.lt.u32 %p0, %tid_x, 10;
        @%p0 bra low;
        bar.warp.sync 0xfffffc00;
        bra last;
    low:
        bar.warp.sync -1;
    last:
        bar.warp.sync -1;)",
                                  {}, {});
    CHECK_FALSE(result.ok);
}

TEST_CASE("named barriers hold back only whom they name, and order producer and consumer", "[sim]") {
    Bench bench;
    const uint64_t out = bench.room(128, "out");
    // Warp 0 produces and arrives, warp 1 consumes, warp 2 has nothing to do with it.
    GridResult result = bench.run(R"(
        mov.u32 %r0, words;
        and.b32 %r1, %tid_x, 31;
        mul.lo.u32 %r1, %r1, 4;
        add.u32 %r0, %r0, %r1;
        setp.lt.u32 %p0, %tid_x, 32;
        setp.ge.u32 %p1, %tid_x, 64;
        @%p1 bra done;
        @%p0 bra producer;
        bar.sync 3, 64;
        ld.shared.u32 %r2, [%r0];
        cvt.u64.u32 %rd0, %r1;
        add.u64 %rd0, %rd0, %a0;
        st.global.u32 [%rd0], %r2;
        bra done;
    producer:
        st.shared.u32 [%r0], %tid_x;
        bar.arrive 3, 64;
    done:)",
                                  {96}, {out}, ".shared .align 4 .b8 words[128];");
    INFO(result.finding.text);
    REQUIRE(result.ok);
    CHECK(bench.read<uint32_t>(out, 32)[31] == 31);
}

TEST_CASE("bar.red counts predicates of the whole CTA", "[sim]") {
    Bench bench;
    const uint64_t out = bench.room(4, "out");
    GridResult result = bench.run(R"(
        setp.lt.u32 %p0, %tid_x, 37;
        bar.red.popc.u32 %r0, 1, %p0;
        setp.eq.u32 %p1, %tid_x, 0;
        @%p1 st.global.u32 [%a0], %r0;)",
                                  {64}, {out});
    INFO(result.finding.text);
    REQUIRE(result.ok);
    CHECK(bench.read<uint32_t>(out, 1)[0] == 37);
}

TEST_CASE("movmatrix transposes an 8 x 8 matrix that the warp holds two elements a thread", "[sim]") {
    // Thread t holds elements 2 t and 2 t + 1 in row order (PTX ISA 9.7.14.5.17): element (r, c) is 8 r + c.
    CHECK(each_lane(R"(
        shl.b32 %r0, %tid_x, 1;
        add.u32 %r1, %r0, 1;
        shl.b32 %r1, %r1, 16;
        or.b32 %r0, %r0, %r1;
        movmatrix.sync.aligned.m8n8.trans.b16 %r9, %r0;)") == lanes([](uint32_t l) {
              const uint32_t row = l / 4, column = l % 4 * 2;
              return (8 * column + row) | (8 * (column + 1) + row) << 16;
          }));
}
