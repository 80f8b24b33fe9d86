#include <catch2/catch.hpp>

#include "core/error.hpp"
#include "run_ptx.hpp"

using namespace nvfp4r::sim;
using namespace nvfp4r::sim::test;

namespace {

/// %rd0 = %a<param> + 4 * thread
std::string lane_address(const char* reg, int param) {
    return fmt::format("mul.wide.u32 {0}, %tid_x, 4;\nadd.u64 {0}, {0}, %a{1};\n", reg, param);
}

}  // namespace

TEST_CASE("loads extend by type and stores truncate", "[sim]") {
    Bench bench;
    const uint64_t in = bench.buffer<uint32_t>({0x8081f2f3u, 0x01020304u});
    const uint64_t out = bench.buffer(std::vector<uint32_t>(6, 0xeeeeeeee));
    GridResult result = bench.run(R"(
        setp.ne.u32 %p0, %tid_x, 0;
        @%p0 bra done;
        ld.global.s8 %r0, [%a0];
        st.global.u32 [%a1], %r0;
        ld.global.u8 %r0, [%a0];
        st.global.u32 [%a1+4], %r0;
        ld.global.s16 %r0, [%a0+2];
        st.global.u32 [%a1+8], %r0;
        st.global.u8 [%a1+12], %r0;
        ld.global.v2.u32 {%r1, %r2}, [%a0];
        st.global.v2.u32 [%a1+16], {%r2, %r1};
    done:)",
                                  {}, {in, out});
    INFO(result.finding.text);
    REQUIRE(result.ok);
    CHECK(bench.read<uint32_t>(out, 6) ==
          std::vector<uint32_t>{0xfffffff3u, 0xf3u, 0xffff8081u, 0xeeeeee81u, 0x01020304u, 0x8081f2f3u});
}

TEST_CASE("an access past an allocation names it and the distance", "[sim]") {
    Bench bench;
    const uint64_t in = bench.buffer(std::vector<uint32_t>(31), "logits");
    GridResult result = bench.run(lane_address("%rd0", 0) + "ld.global.u32 %r0, [%rd0];", {}, {in});
    REQUIRE_FALSE(result.ok);
    CHECK(result.finding.kind == FindingKind::out_of_bounds);
    CHECK(result.finding.text.find("0 bytes past the end of `logits`") != std::string::npos);
    CHECK(result.finding.text.find("ld.global.u32") != std::string::npos);
}

TEST_CASE("misaligned, unwritten and freed memory are refused by name", "[sim]") {
    Bench bench;
    const uint64_t in = bench.buffer(std::vector<uint32_t>(32), "in");
    const uint64_t fresh = bench.room(128, "fresh");
    CHECK(bench.run("ld.global.u32 %r0, [%a0+2];", {}, {in}).finding.kind == FindingKind::misaligned);
    CHECK(bench.run("ld.global.u32 %r0, [%a0];", {}, {fresh}).finding.kind == FindingKind::uninitialised);
    bench.gpu().release(in);
    GridResult result = bench.run("ld.global.u32 %r0, [%a0];", {}, {in});
    CHECK(result.finding.kind == FindingKind::out_of_bounds);
    CHECK(result.finding.text.find("freed `in`") != std::string::npos);
}

TEST_CASE("two threads that write one word without order race", "[sim]") {
    Bench bench;
    const uint64_t word = bench.buffer<uint32_t>({0, 0});
    CHECK(bench.run("st.global.u32 [%a0], %tid_x;", {64}, {word}).finding.kind == FindingKind::race);
    CHECK(bench.run("st.relaxed.gpu.global.u32 [%a0], %tid_x;", {64}, {word}).ok);
}

TEST_CASE("release and acquire order what they enclose, also as fences around relaxed accesses", "[sim]") {
    // Thread 0 writes data and raises the flag, thread 32 waits for the flag and reads the data.
    const auto body = [](const char* raise, const char* look, const char* after) {
        return fmt::format(R"(
        setp.eq.u32 %p0, %tid_x, 0;
        setp.eq.u32 %p1, %tid_x, 32;
        @%p0 bra writer;
        @%p1 bra poll;
        bra done;
    writer:
        st.global.u32 [%a0], 7;
        {}
        bra done;
    poll:
        {} %r0, [%a0+4];
        setp.eq.u32 %p2, %r0, 0;
        @%p2 bra poll;
        {}
        ld.global.u32 %r1, [%a0];
        st.global.u32 [%a0+8], %r1;
    done:)",
                           raise, look, after);
    };
    const auto run = [&](const std::string& text) {
        Bench bench;
        const uint64_t words = bench.buffer<uint32_t>({0, 0, 0});
        GridResult result = bench.run(text, {64}, {words});
        if (result.ok) CHECK(bench.read<uint32_t>(words, 3)[2] == 7);
        return result;
    };
    CHECK(run(body("st.release.gpu.global.u32 [%a0+4], 1;", "ld.acquire.gpu.global.u32", "")).ok);
    CHECK(run(body("fence.acq_rel.gpu;\nst.relaxed.gpu.global.u32 [%a0+4], 1;", "ld.relaxed.gpu.global.u32",
                   "fence.acq_rel.gpu;"))
              .ok);
    CHECK(run(body("st.relaxed.gpu.global.u32 [%a0+4], 1;", "ld.relaxed.gpu.global.u32", "fence.acq_rel.gpu;"))
              .finding.kind == FindingKind::race);
    CHECK(run(body("st.release.gpu.global.u32 [%a0+4], 1;", "ld.relaxed.gpu.global.u32", "")).finding.kind ==
          FindingKind::race);
}

TEST_CASE("atomics return the old value and combine by type", "[sim]") {
    Bench bench;
    const uint64_t words = bench.buffer<uint32_t>({10, 5, 0x3f800000, 0xfffffff0u, 3, 0x3c003c00u, 0});
    GridResult result = bench.run(R"(
        setp.ne.u32 %p0, %tid_x, 0;
        atom.global.add.u32 %r0, [%a0], 2;
        @%p0 bra done;
        atom.global.cas.b32 %r1, [%a0+4], 5, 9;
        red.global.add.f32 [%a0+8], 0f40000000;
        red.global.max.s32 [%a0+12], 4;
        atom.global.inc.u32 %r2, [%a0+16], 3;
        mov.b32 %r3, 0x3c004000;
        red.global.add.noftz.f16x2 [%a0+20], %r3;
        st.global.u32 [%a0+24], %r1;
    done:)",
                                  {}, {words});
    INFO(result.finding.text);
    REQUIRE(result.ok);
    CHECK(bench.read<uint32_t>(words, 7) == std::vector<uint32_t>{74, 9, 0x40400000, 4, 0, 0x40004200u, 5});
}

TEST_CASE("128-bit values load, store, are exchanged and compared as one", "[sim]") {
    const std::string registers = ".reg .b128 %q<4>;\n.shared .align 16 .b8 slot[16];\n";
    Bench bench;
    const uint64_t in = bench.buffer<uint64_t>({1, 2, 30, 40, 1, 3});
    const uint64_t out = bench.room(8 * 8, "out");
    const GridResult result = bench.run(R"(
        ld.global.b128 %q0, [%a0];
        ld.global.b128 %q1, [%a0+16];
        ld.global.b128 %q2, [%a0+32];
        st.shared.b128 [slot], %q0;
        atom.shared.cas.b128 %q3, [slot], %q2, %q1;   // differs in the upper half: stays
        st.global.b128 [%a1], %q3;
        atom.shared.cas.b128 %q3, [slot], %q0, %q1;
        st.global.b128 [%a1+16], %q3;
        atom.shared.exch.b128 %q3, [slot], %q2;
        st.global.b128 [%a1+32], %q3;
        ld.shared.b128 %q3, [slot];
        mov.b128 {%rd0, %rd1}, %q3;
        st.global.v2.u64 [%a1+48], {%rd1, %rd0};)",
                                        {1}, {in, out}, registers);
    INFO(result.finding.text);
    REQUIRE(result.ok);
    CHECK(bench.read<uint64_t>(out, 8) == std::vector<uint64_t>{1, 2, 1, 2, 30, 40, 3, 1});
    CHECK(bench.run("ld.global.b128 %q0, [%a0+8];", {1}, {in}, registers).finding.kind == FindingKind::misaligned);
    const auto refusal = [&](const std::string& body) {
        try {
            Bench().run(body, {1}, {in}, registers);
        } catch (const nvfp4r::Error& error) {
            return std::string(error.what());
        }
        return std::string("accepted");
    };
    CHECK(refusal("ld.global.v2.b128 {%q0, %q1}, [%a0];").find("vectors of .b128") != std::string::npos);
    CHECK(refusal("ld.global.b128 %rd0, [%a0];").find("128 bits") != std::string::npos);
    CHECK(refusal("atom.global.add.b128 %q0, [%a0], %q1;").find("does not fit") != std::string::npos);
}
