#include "sim/machine/mbarrier.hpp"

#include <catch2/catch.hpp>

#include "run_ptx.hpp"

using namespace nvfp4r::sim;
using namespace nvfp4r::sim::test;

namespace {

constexpr const char* kBarrier = ".shared .align 8 .b8 mb[16];";

/// One thread; the instructions see the barrier's address in %r0 and store %r9 at the end.
GridResult run_mbarrier(Bench& bench, uint64_t out, const std::string& body) {
    return bench.run("setp.ne.u32 %p39, %tid_x, 0;\n@%p39 bra done;\nmov.u32 %r0, mb;\nmov.u32 %r9, 0;\n" + body +
                         "\nst.global.u32 [%a0], %r9;\ndone:",
                     {}, {out}, kBarrier);
}

uint32_t value(const std::string& body) {
    Bench bench;
    const uint64_t out = bench.room(4, "out");
    GridResult result = run_mbarrier(bench, out, body);
    INFO(result.finding.text);
    REQUIRE(result.ok);
    return bench.read<uint32_t>(out, 1)[0];
}

FindingKind mbarrier_finding(const std::string& body) {
    Bench bench;
    GridResult result = run_mbarrier(bench, bench.room(4, "out"), body);
    REQUIRE_FALSE(result.ok);
    return result.finding.kind;
}

const std::string kInit1 = "mbarrier.init.shared::cta.b64 [%r0], 1;\n";
const std::string kInit3 = "mbarrier.init.shared::cta.b64 [%r0], 3;\n";
const std::string kArrive = "mbarrier.arrive.shared::cta.b64 _, [%r0];\n";

std::string asks(int parity) {
    return fmt::format("mbarrier.test_wait.parity.shared::cta.b64 %p0, [%r0], {};\nselp.u32 %r9, 1, 0, %p0;\n", parity);
}

}  // namespace

TEST_CASE("mbarrier parity tests answer as an H200 does", "[sim]") {
    CHECK(value(kInit1 + asks(0)) == 0);
    CHECK(value(kInit1 + asks(1)) == 1);
    CHECK(value(kInit1 + asks(3)) == 1);  // only bit 0 counts
    CHECK(value(kInit1 + kArrive + asks(0)) == 1);
    CHECK(value(kInit1 + kArrive + asks(1)) == 0);
    CHECK(value(kInit1 + kArrive + kArrive + asks(0)) == 0);  // two phases behind aliases
}

TEST_CASE("an mbarrier phase needs its arrivals and its bytes, in any order", "[sim]") {
    const auto expect = [](int bytes) {
        return fmt::format("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r0], {};\n", bytes);
    };
    const auto complete = [](int bytes) {
        return fmt::format("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r0], {};\n", bytes);
    };
    CHECK(value(kInit1 + complete(64) + kArrive + asks(0)) == 0);
    CHECK(value(kInit1 + complete(64) + kArrive + expect(64) + asks(0)) == 1);
    CHECK(value(kInit1 + expect(100) + complete(40) + complete(60) + asks(0)) == 0);
    CHECK(value(kInit1 + expect(100) + complete(40) + complete(60) + kArrive + asks(0)) == 1);
    // Two drops and an arrive end the phase; the next one needs one arrival.
    const std::string drop = "mbarrier.arrive_drop.shared::cta.b64 _, [%r0];\n";
    CHECK(value(kInit3 + drop + drop + kArrive + kArrive + asks(1)) == 1);
    CHECK(value(kInit3 + "mbarrier.arrive.shared::cta.b64 %rd1, [%r0];\nmbarrier.pending_count.b64 %r9, %rd1;\n") == 3);
}

TEST_CASE("what faults on an H200 is mbarrier misuse by name", "[sim]") {
    CHECK(mbarrier_finding(kArrive) == FindingKind::mbarrier_misuse);
    CHECK(mbarrier_finding("mbarrier.init.shared::cta.b64 [%r0], 0;\n") == FindingKind::mbarrier_misuse);
    CHECK(mbarrier_finding("mbarrier.init.shared::cta.b64 [%r0], 1048576;\n") == FindingKind::mbarrier_misuse);
    CHECK(mbarrier_finding(kInit3 + "mbarrier.arrive.shared::cta.b64 _, [%r0], 4;\n") ==
          FindingKind::mbarrier_overflow);
    CHECK(mbarrier_finding(kInit1 + "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r0], 16;\n" + kArrive) ==
          FindingKind::mbarrier_misuse);
    CHECK(mbarrier_finding(kInit1 + "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r0], 1048576;\n") ==
          FindingKind::mbarrier_overflow);
    CHECK(mbarrier_finding("mbarrier.arrive.shared::cta.b64 _, [%r0+4];\n") == FindingKind::misaligned);
}

TEST_CASE("C31 memory of a live mbarrier is not for other uses", "[sim]") {
    CHECK(mbarrier_finding(kInit1 + "st.shared.u32 [%r0], 0;\n") == FindingKind::mbarrier_misuse);
    CHECK(mbarrier_finding(kInit1 + kInit1) == FindingKind::mbarrier_misuse);
    CHECK(value(kInit1 +
                "mbarrier.inval.shared::cta.b64 [%r0];\nst.shared.u32 [%r0], 5;\nld.shared.u32 %r9, [%r0];\n") == 5);
}

TEST_CASE("a token two phases old is a stale wait", "[sim]") {
    CHECK(mbarrier_finding(kInit1 + "mbarrier.arrive.shared::cta.b64 %rd1, [%r0];\n" + kArrive +
                           "mbarrier.test_wait.shared::cta.b64 %p0, [%r0], %rd1;\n") == FindingKind::stale_phase);
}

TEST_CASE("a parity wait that comes two phases late hangs as a stale wait", "[sim]") {
    const std::string wait = "wait:\nmbarrier.try_wait.parity.shared::cta.b64 %p0, [%r0], 0;\n@!%p0 bra wait;\n";
    CHECK(mbarrier_finding(kInit1 + kArrive + kArrive + wait) == FindingKind::stale_phase);
    CHECK(mbarrier_finding(kInit1 + wait) == FindingKind::deadlock);
    CHECK(value(kInit1 + kArrive + wait) == 0);
}

TEST_CASE("C29 a remote arrive on an mbarrier without fence.mbarrier_init is reported", "[sim]") {
    for (bool fenced : {true, false}) {
        Bench bench;
        GridResult result = bench.run(fmt::format(R"(
            mov.u32 %r0, mb;
            setp.ne.u32 %p0, %tid_x, 0;
            @%p0 bra ready;
            mbarrier.init.shared::cta.b64 [%r0], 1;
            {}
        ready:
            barrier.cluster.arrive.aligned;
            barrier.cluster.wait.aligned;
            @%p0 bra last;
            xor.b32 %r1, %cta_x, 1;
            mapa.shared::cluster.u32 %r2, %r0, %r1;
            mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r2];
        wait:
            mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r0], 0;
            @!%p1 bra wait;
        last:
            barrier.cluster.arrive.aligned;
            barrier.cluster.wait.aligned;)",
                                                  fenced ? "fence.mbarrier_init.release.cluster;" : ""),
                                      {32, 2, 2}, {}, kBarrier);
        INFO(result.finding.text);
        CHECK(result.ok == fenced);
        if (!fenced) CHECK(result.finding.kind == FindingKind::mbarrier_misuse);
    }
}
