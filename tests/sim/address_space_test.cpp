// cvta, isspacep, mapa, getctarank (PTX ISA 9.7.9.18 to .20, 9.7.9.24; generic addresses: 6.4.1).
#include <catch2/catch.hpp>

#include "evaluate.hpp"
#include "run_ptx.hpp"

using namespace nvfp4r::sim;
using namespace nvfp4r::sim::test;

namespace {

const std::string kVariables = ".shared .align 8 .b8 own[16];\n.local .align 8 .b8 mine[16];\n";

/// The words that one thread leaves in a buffer of `words`.
std::vector<uint32_t> words_of(const std::string& body, size_t words) {
    Bench bench;
    const uint64_t out = bench.room(words * 4, "out");
    const GridResult result = bench.run(body, {1}, {out}, kVariables);
    INFO(result.finding.text);
    REQUIRE(result.ok);
    return bench.read<uint32_t>(out, words);
}

}  // namespace

TEST_CASE("cvta gives the generic address of a variable, cvta.to takes it back", "[sim]") {
    const std::vector<uint32_t> got = words_of(R"(
        mov.u64 %rd0, own;
        cvta.shared.u64 %rd1, %rd0;
        st.shared.u32 [own+4], 11;
        ld.u32 %r0, [%rd1+4];
        st.global.u32 [%a0], %r0;
        cvta.to.shared.u64 %rd2, %rd1;
        setp.eq.u64 %p0, %rd2, %rd0;
        selp.u32 %r1, 1, 0, %p0;
        st.global.u32 [%a0+4], %r1;

        mov.u64 %rd0, mine;
        cvta.local.u64 %rd1, %rd0;
        st.u32 [%rd1+8], 22;
        ld.local.u32 %r0, [mine+8];
        st.global.u32 [%a0+8], %r0;
        cvta.to.local.u64 %rd2, %rd1;
        setp.eq.u64 %p0, %rd2, %rd0;
        selp.u32 %r1, 1, 0, %p0;
        st.global.u32 [%a0+12], %r1;

        cvta.global.u64 %rd1, %a0;
        mov.u32 %r0, 33;
        st.u32 [%rd1+16], %r0;
        cvta.to.global.u64 %rd2, %rd1;
        setp.eq.u64 %p0, %rd2, %a0;
        selp.u32 %r1, 1, 0, %p0;
        st.global.u32 [%a0+20], %r1;

        mov.b64 %rd0, p0;
        cvta.param.u64 %rd1, %rd0;
        ld.u64 %rd2, [%rd1];
        setp.eq.u64 %p0, %rd2, %a0;
        selp.u32 %r1, 1, 0, %p0;
        st.global.u32 [%a0+24], %r1;)",
                                               7);
    CHECK(got == std::vector<uint32_t>{11, 1, 22, 1, 33, 1, 1});
}

TEST_CASE("isspacep tells the window of a generic address; the parameters' lies in the global one", "[sim]") {
    const auto windows = [](const std::string& address) {
        std::string body = address;
        const char* spaces[] = {"shared", "local", "global", "param", "shared::cluster"};
        for (size_t i = 0; i < std::size(spaces); ++i)
            body += fmt::format("isspacep.{} %p1, %rd1;\nselp.u32 %r1, 1, 0, %p1;\nst.global.u32 [%a0+{}], %r1;\n",
                                spaces[i], 4 * i);
        return words_of(body, std::size(spaces));
    };
    using Words = std::vector<uint32_t>;
    CHECK(windows("mov.u64 %rd0, own;\ncvta.shared.u64 %rd1, %rd0;\n") == Words{1, 0, 0, 0, 1});
    CHECK(windows("mov.u64 %rd0, mine;\ncvta.local.u64 %rd1, %rd0;\n") == Words{0, 1, 0, 0, 0});
    CHECK(windows("cvta.global.u64 %rd1, %a0;\n") == Words{0, 0, 1, 0, 0});
    CHECK(windows("mov.b64 %rd0, p0;\ncvta.param.u64 %rd1, %rd0;\n") == Words{0, 0, 1, 1, 0});
    CHECK(refusal_of("isspacep.const", "pd").find("constants have no window") != std::string::npos);
    CHECK(refusal_of("isspacep", "pd").find("a state space is missing") != std::string::npos);
}

TEST_CASE("getctarank names the CTA of a shared address, also of one that mapa made; isspacep tells own from peer",
          "[sim]") {
    Bench bench;
    constexpr uint32_t kCtas = 4, kWords = 5;
    const uint64_t out = bench.room(kCtas * kWords * 4, "out");
    const GridResult result = bench.run(R"(
        mul.wide.u32 %rd5, %cta_x, 20;
        add.u64 %rd5, %rd5, %a0;
        mov.u32 %r0, own;
        getctarank.shared::cluster.u32 %r1, %r0;
        st.global.u32 [%rd5], %r1;
        add.u32 %r2, %cta_x, 1;
        and.b32 %r2, %r2, 3;
        mapa.shared::cluster.u32 %r3, %r0, %r2;
        getctarank.shared::cluster.u32 %r1, %r3;
        st.global.u32 [%rd5+4], %r1;
        mov.u64 %rd0, own;
        cvta.shared.u64 %rd1, %rd0;
        mapa.u64 %rd2, %rd1, %r2;
        getctarank.u64 %r1, %rd2;
        st.global.u32 [%rd5+8], %r1;
        isspacep.shared::cta %p0, %rd2;
        selp.u32 %r1, 1, 0, %p0;
        st.global.u32 [%rd5+12], %r1;
        isspacep.shared::cluster %p0, %rd2;
        selp.u32 %r1, 1, 0, %p0;
        st.global.u32 [%rd5+16], %r1;)",
                                        {1, kCtas, kCtas}, {out}, kVariables);
    INFO(result.finding.text);
    REQUIRE(result.ok);
    std::vector<uint32_t> want;
    for (uint32_t rank = 0; rank < kCtas; ++rank) {
        const uint32_t next = (rank + 1) % kCtas;
        want.insert(want.end(), {rank, next, next, 0, 1});
    }
    CHECK(bench.read<uint32_t>(out, kCtas * kWords) == want);
}
