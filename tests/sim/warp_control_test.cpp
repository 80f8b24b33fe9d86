// setmaxnreg (PTX ISA 9.7.19.5), nanosleep (9.7.12).
#include <catch2/catch.hpp>

#include "evaluate.hpp"
#include "run_ptx.hpp"

using namespace nvfp4r::sim;
using namespace nvfp4r::sim::test;

TEST_CASE("setmaxnreg takes 24 to 256 registers in steps of 8 and keeps their values", "[sim]") {
    Bench bench;
    constexpr uint32_t kThreads = 256;
    const uint64_t out = bench.room(kThreads * 4, "out");
    const GridResult result = bench.run(R"(
        mul.lo.u32 %r0, %tid_x, 3;
        setp.lt.u32 %p0, %tid_x, 128;
        @%p0 bra few;
        setmaxnreg.inc.sync.aligned.u32 232;
        bra done;
    few:
        setmaxnreg.dec.sync.aligned.u32 24;
    done:
        mul.wide.u32 %rd0, %tid_x, 4;
        add.u64 %rd0, %rd0, %a0;
        st.global.u32 [%rd0], %r0;)",
                                        {kThreads}, {out});
    INFO(result.finding.text);
    REQUIRE(result.ok);
    std::vector<uint32_t> want(kThreads);
    for (uint32_t i = 0; i < kThreads; ++i) want[i] = 3 * i;
    CHECK(bench.read<uint32_t>(out, kThreads) == want);

    const auto refusal = [](const std::string& count, const std::string& target = "sm_100a") {
        return refusal_of("setmaxnreg.inc.sync.aligned.u32 " + count + ";\nmov.b64 v0, v1;", "dd", "", target);
    };
    for (const char* count : {"24", "40", "256"}) CHECK(refusal(count) == "accepted");
    for (const char* count : {"16", "100", "264", "v1"})
        CHECK(refusal(count).find("a multiple of 8") != std::string::npos);
    CHECK(refusal("24", "sm_100").find("`a` target") != std::string::npos);
}

TEST_CASE("setmaxnreg by a part of a warp is reported", "[sim]") {
    Bench bench;
    const GridResult result = bench.run(R"(
        setp.lt.u32 %p0, %tid_x, 16;
        @%p0 setmaxnreg.dec.sync.aligned.u32 24;)",
                                        {128}, {});
    CHECK_FALSE(result.ok);
    CHECK(result.finding.kind == FindingKind::divergence);
}

TEST_CASE("nanosleep lasts at most twice its duration, and a poll that sleeps sees the flag", "[sim]") {
    Bench bench;
    constexpr uint32_t kNanoseconds = 2000;
    const uint64_t out = bench.buffer<uint64_t>({0, 0}, "out");
    const GridResult slept = bench.run(fmt::format(R"(
        mov.u64 %rd0, %globaltimer;
        nanosleep.u32 {};
        mov.u64 %rd1, %globaltimer;
        sub.u64 %rd1, %rd1, %rd0;
        mov.u32 %r0, 0;
        nanosleep.u32 %r0;
        st.global.u64 [%a0], %rd1;)",
                                                   kNanoseconds),
                                       {1}, {out});
    INFO(slept.finding.text);
    REQUIRE(slept.ok);
    constexpr uint64_t kReadingTimes = 100;
    const uint64_t lasted = bench.read<uint64_t>(out, 1)[0];
    CHECK(lasted > 0);
    CHECK(lasted <= 2 * kNanoseconds + kReadingTimes);

    const GridResult polled = bench.run(R"(
        setp.eq.u32 %p0, %tid_x, 0;
        @%p0 bra poll;
        setp.eq.u32 %p1, %tid_x, 32;
        @%p1 st.release.gpu.global.u32 [%a0+8], 1;
        bra done;
    poll:
        nanosleep.u32 100;
        ld.acquire.gpu.global.u32 %r0, [%a0+8];
        setp.eq.u32 %p1, %r0, 0;
        @%p1 bra poll;
    done:)",
                                        {64}, {out});
    INFO(polled.finding.text);
    CHECK(polled.ok);
    CHECK(refusal_of("nanosleep.u64 5;\nmov.b64 v0, v1;", "dd").find("u64") != std::string::npos);
}
