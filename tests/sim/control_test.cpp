// Comparison, selection, moves, branches, calls and special registers, each as a small kernel of its own.
#include "sim/evaluate.hpp"
#include "sim/exact.hpp"

using namespace nvfp4r::sim;
using namespace nvfp4r::sim::test;

TEST_CASE("setp and set: every comparison of integers and of floating point with NaN", "[sim]") {
    const Values ints = {0, 1, 5, 0x7fffffff, 0x80000000, 0xffffffff};
    const Values floats = {0, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0x7fc00000, 0x00000001};
    const auto int_pairs = combinations({ints, ints});
    const auto float_pairs = combinations({floats, floats});
    const struct {
        const char* name;
        bool less, equal, greater, unordered;
    } kCompares[] = {{"eq", 0, 1, 0, 0},  {"ne", 1, 0, 1, 0},  {"lt", 1, 0, 0, 0},  {"le", 1, 1, 0, 0},
                     {"gt", 0, 0, 1, 0},  {"ge", 0, 1, 1, 0},  {"equ", 0, 1, 0, 1}, {"neu", 1, 0, 1, 1},
                     {"ltu", 1, 0, 0, 1}, {"leu", 1, 1, 0, 1}, {"gtu", 0, 0, 1, 1}, {"geu", 0, 1, 1, 1},
                     {"num", 1, 1, 1, 0}, {"nan", 0, 0, 0, 1}};
    for (const auto& row : kCompares) {
        auto outcome = [&](auto a, auto b) {
            const bool holds = a < b ? row.less : a > b ? row.greater : a == b ? row.equal : row.unordered;
            return uint64_t{holds};
        };
        const std::string compare = row.name;
        check_instruction("setp." + compare + ".f32", "prr", float_pairs,
                          [&](const Values& v) { return outcome(as_f32(v[0]), as_f32(v[1])); });
        check_instruction("set." + compare + ".u32.f32", "rrr", float_pairs,
                          [&](const Values& v) { return outcome(as_f32(v[0]), as_f32(v[1])) * 0xffffffff; });
        if (compare.size() > 2) continue;
        check_instruction("setp." + compare + ".s32", "prr", int_pairs, [&](const Values& v) {
            return outcome(static_cast<int32_t>(v[0]), static_cast<int32_t>(v[1]));
        });
        check_instruction("setp." + compare + ".u32", "prr", int_pairs,
                          [&](const Values& v) { return outcome(v[0], v[1]); });
    }
    check_instruction("setp.hi.u32", "prr", int_pairs, [](const Values& v) { return uint64_t{v[0] > v[1]}; });
    check_instruction("setp.lt.xor.s32", "prrp", combinations({ints, ints, {0, 1}}), [](const Values& v) {
        return uint64_t{static_cast<int32_t>(v[0]) < static_cast<int32_t>(v[1])} ^ v[2];
    });
    CHECK(evaluate("setp.eq.ftz.f32", "prr", {{1}, {0}}) == Values{1});
    CHECK(evaluate("setp.lt.f16", "phh", {{0xbc00, 0x7e00}, {0x3c00, 0x3c00}}) == Values{1, 0});
    CHECK(evaluate("set.ge.f32.s32", "rrr", {{3, 1}, {2, 2}}) == Values{0x3f800000, 0});
    CHECK(evaluate("set.gt.bf16x2.bf16x2", "rrr", {{0x3f800000}, {0x00003f80}}) == Values{0x3f800000});
    CHECK_THAT(refusal_of("setp.lt.b32", "prr"), Catch::Contains("untyped bits have .eq and .ne only"));
    CHECK_THAT(refusal_of("setp.equ.s32", "prr"), Catch::Contains("an unordered comparison of integers"));
    CHECK(evaluate("selp.b64", "dddp", {{7, 7}, {9, 9}, {0, 1}}) == Values{9, 7});
    CHECK(evaluate("slct.u32.s32", "rrrr", {{7, 7}, {9, 9}, {0, 0xffffffff}}) == Values{7, 9});
    CHECK(evaluate("slct.b32.f32", "rrrr", {{7, 7, 7}, {9, 9, 9}, {0x80000000, 0xbf800000, 0x7fc00000}}) ==
          Values{7, 9, 9});
}

namespace {

/// Runs `entry k(out)` of a module on one CTA; thread t's word is at out + 4 t.
std::vector<uint32_t> run_control(const std::string& functions, const std::string& body, uint32_t threads = 32,
                                  Dim3 grid = {}, Dim3 cluster = {}) {
    const std::string text =
        ".version 8.8\n.target sm_100a\n.address_size 64\n" + functions +
        "\n.visible .entry k(.param .u64 out) {\n.reg .b64 base, offset; .reg .b32 thread, value, cta; .reg .pred p, "
        "q;\n"
        "mov.u32 thread, %tid.x; mov.u32 cta, %ctaid.x; mov.u32 value, %ntid.x; mad.lo.u32 thread, cta, value, "
        "thread;\n"
        "ld.param.u64 base, [out]; mul.wide.u32 offset, thread, 4; add.u64 base, base, offset; mov.b32 value, 0;\n" +
        body + "\nst.global.b32 [base], value;\nret;\n}\n";
    GpuConfig config = gpu_of("sm_100a");
    const auto gpu = Gpu::create(config);
    const auto module = gpu->load(text);
    std::vector<uint32_t> out(threads * grid.count(), 0);
    const uint64_t address = gpu->allocate(out.size() * 4, 256, "out");
    REQUIRE(gpu->write(address, out.data(), out.size() * 4));
    GridLaunch launch;
    launch.program = module->entry("k");
    REQUIRE(launch.program);
    launch.grid = grid;
    launch.block.x = threads;
    launch.cluster = cluster;
    launch.explicit_cluster = cluster.count() > 1;
    launch.params.resize(8);
    std::memcpy(launch.params.data(), &address, 8);
    const auto results = gpu->run(std::span(&launch, 1));
    INFO(results.at(0).finding.text);
    REQUIRE(results.at(0).ok);
    REQUIRE(gpu->read(address, out.data(), out.size() * 4));
    return out;
}

}  // namespace

TEST_CASE("mov: halves, bytes, addresses, 128 bits", "[sim]") {
    CHECK(run_control(
              "", "{ .reg .b16 a, b; mov.b32 value, 0x11223344; mov.b32 {a, b}, value; mov.b32 value, {b, a}; }")[0] ==
          0x33441122);
    CHECK(run_control(
              "",
              "{ .reg .b8 a, b, c, d; mov.b32 value, 0x11223344; mov.b32 {a, b, c, d}, value; mov.b32 value, {d, c, b, "
              "a}; }")[0] == 0x44332211);
    CHECK(run_control(
              "",
              "{ .reg .b128 w; .reg .b64 a, b; mov.b64 a, 5; mov.b64 b, 7; mov.b128 w, {a, b}; mov.b128 {b, a}, w;"
              " cvt.u32.u64 value, a; }")[0] == 7);
    // The first .shared byte lies at 0x400 (measured on H200); the second variable follows with its alignment.
    CHECK(run_control(".shared .b8 first[3]; .shared .align 8 .b8 second[8];",
                      "mov.u32 value, second+4; mov.u32 cta, first;")[0] == 0x40c);
    CHECK(run_control("", "mov.pred p, %is_explicit_cluster; selp.b32 value, 1, 0, p;")[0] == 0);
    CHECK(run_control("", "mov.b32 value, (1 << 4) | WARP_SZ;")[0] == 48);
}

TEST_CASE("setp writes both predicates, the second from the negated comparison", "[sim]") {
    const auto got = run_control("",
                                 "{ .reg .pred c; setp.ge.u32 c, thread, 16; setp.lt.and.u32 p|q, thread, 24, c;"
                                 " selp.b32 value, 1, 0, p; @q add.u32 value, value, 2; }");
    for (uint32_t t = 0; t < 32; ++t) CHECK(got[t] == (t < 16 ? 0u : t < 24 ? 1u : 2u));
}

TEST_CASE("branches: divergence, indexed branches, loops, labels at the end", "[sim]") {
    const auto parity =
        run_control("",
                    "and.b32 cta, thread, 1; setp.eq.u32 p, cta, 0; @p bra EVEN; mov.b32 value, 7; bra.uni DONE;"
                    " EVEN: mov.b32 value, 4; DONE: add.u32 value, value, 1;");
    for (uint32_t t = 0; t < 32; ++t) CHECK(parity[t] == (t % 2 ? 8u : 5u));
    const auto table =
        run_control("",
                    "T: .branchtargets A, B, C; rem.u32 cta, thread, 3; brx.idx cta, T;"
                    " A: mov.b32 value, 10; bra E; B: mov.b32 value, 20; bra E; C: mov.b32 value, 30; E:");
    for (uint32_t t = 0; t < 32; ++t) CHECK(table[t] == 10 * (t % 3 + 1));
    // Each lane leaves the loop after its own number of rounds.
    const auto loop =
        run_control("",
                    "mov.u32 cta, thread; L: setp.eq.u32 p, cta, 0; @p bra OUT; add.u32 value, value, cta;"
                    " sub.u32 cta, cta, 1; bra L; OUT:");
    for (uint32_t t = 0; t < 32; ++t) CHECK(loop[t] == t * (t + 1) / 2);
    const auto left = run_control("", "setp.lt.u32 p, thread, 16; @p exit; mov.b32 value, 9;");
    for (uint32_t t = 0; t < 32; ++t) CHECK(left[t] == (t < 16 ? 0u : 9u));
}

TEST_CASE("calls: arguments and results by value, nested, under divergence and a guard", "[sim]") {
    const std::string functions =
        ".func (.param .b32 r) twice(.param .b32 a) { .reg .b32 x; ld.param.b32 x, [a]; add.u32 x, x, x; st.param.b32 "
        "[r], x; ret; }\n"
        ".func (.reg .b32 r) sum(.reg .b32 a, .param .align 8 .b8 s[16]) { .reg .b32 x; .param .b32 p0, p1;\n"
        " ld.param.b32 x, [s+12]; add.u32 r, a, x; st.param.b32 [p0], r; call (p1), twice, (p0); ld.param.b32 r, [p1]; "
        "ret; }\n";
    const auto got =
        run_control(functions,
                    "{ .param .align 8 .b8 s[16]; st.param.b32 [s+12], 100;\n"
                    "and.b32 cta, thread, 1; setp.eq.u32 p, cta, 0;\n"
                    "@p call (value), sum, (thread, s); @!p call (value), sum, (5, s); }\n"
                    "{ .param .b32 a, b; st.param.b32 [a], value; setp.lt.u32 q, thread, 4; mov.b32 value, 1;\n"
                    " @q call.uni (b), twice, (a); @q ld.param.b32 value, [b]; }");
    for (uint32_t t = 0; t < 32; ++t) {
        const uint32_t sum = 2 * (100 + (t % 2 ? 5 : t));
        CHECK(got[t] == (t < 4 ? 2 * sum : 1));
    }
}

TEST_CASE("special registers of threads, CTAs and clusters", "[sim]") {
    auto lanes = [](const std::string& name) { return run_control("", "mov.u32 value, " + name + ";"); };
    CHECK(lanes("%laneid")[5] == 5);
    CHECK(lanes("%lanemask_eq")[5] == 0x20);
    CHECK(lanes("%lanemask_le")[5] == 0x3f);
    CHECK(lanes("%lanemask_lt")[5] == 0x1f);
    CHECK(lanes("%lanemask_ge")[5] == 0xffffffe0);
    CHECK(lanes("%lanemask_gt")[31] == 0);
    CHECK(lanes("%lanemask_le")[31] == 0xffffffff);
    CHECK(lanes("%nctaid.x")[0] == 1);
    CHECK(lanes("%nsmid")[0] == 148);
    // Ranks and ids of hopper-facts 4: rank = x + nx (y + ny z) of the id in the cluster.
    const std::string pack =
        "{ .reg .b32 a; mov.u32 value, %cluster_ctarank; mov.u32 a, %clusterid.x; shl.b32 a, a, 8;"
        " or.b32 value, value, a; mov.u32 a, %nclusterid.x; shl.b32 a, a, 16; or.b32 value, value, a;"
        " mov.u32 a, %cluster_nctarank; shl.b32 a, a, 24; or.b32 value, value, a; }";
    const auto ranks = run_control("", pack, 32, {6, 1, 1}, {2, 1, 1});
    for (uint32_t cta = 0; cta < 6; ++cta) CHECK(ranks[cta * 32] == (2u << 24 | 3u << 16 | (cta / 2) << 8 | cta % 2));
    const auto clock = run_control(
        "",
        "{ .reg .b64 a, b; mov.u64 a, %clock64; add.u32 value, value, 1; mov.u64 b, %clock64; sub.u64 b, b, a;"
        " cvt.u32.u64 value, b; }");
    CHECK(clock[0] > 0);
}

TEST_CASE("trap stops the launch and names the line", "[sim]") {
    const auto gpu = Gpu::create(gpu_of("sm_100a"));
    const auto module =
        gpu->load(".version 8.8\n.target sm_100a\n.address_size 64\n.entry k() {\n.loc 1 7 0\ntrap;\nret;\n}\n");
    GridLaunch launch;
    launch.program = module->entry("k");
    launch.block.x = 32;
    const auto results = gpu->run(std::span(&launch, 1));
    CHECK_FALSE(results[0].ok);
    CHECK(results[0].finding.kind == FindingKind::trap);
    CHECK_THAT(results[0].finding.text, Catch::Contains("trap"));
}
