// Bulk copies, cp.async, st.async, red.async, st.bulk and ldmatrix: data, byte counts and what faults (H200, PTX ISA).
#include <catch2/catch.hpp>
#include <numeric>

#include "sim/engine_kernel.hpp"

using namespace nvfp4r::sim;
using namespace nvfp4r::sim::test;

namespace {

constexpr uint32_t kCopiedWords = 256;

std::vector<uint32_t> counted_from(uint32_t from) {
    std::vector<uint32_t> values(kCopiedWords);
    std::iota(values.begin(), values.end(), from);
    return values;
}

const std::string kFirstThread = "mov.u32 %r0, %tid.x;\nsetp.ne.u32 %p0, %r0, 0;\nmov.u32 %r1, sm;\nmov.u32 %r2, mb;\n";

// `sm` filled from p0 and fenced, `code` run by thread 0, `sm` copied to p1.
struct Copy {
    uint32_t sm = 90;
    std::string fill_fence = "fence.proxy.async;\n";
    std::string code;   // by thread 0
    std::string after;  // by all threads
    uint32_t ctas = 1;
    std::vector<uint32_t> shared, global = std::vector<uint32_t>(kCopiedWords);

    GridResult run() {
        EngineKernel kernel(sm, copy_words(true, 0, kCopiedWords, 32, "in") + fill_fence + kFirstThread +
                                    "@%p0 bra done;\nld.param.u64 %rd0, [p2];\n" + code + "done:\nbar.sync 0;\n" +
                                    after + copy_words(false, 1, kCopiedWords, 32, "out"));
        const uint64_t out = kernel.buffer(std::vector<uint32_t>(kCopiedWords), "out");
        const uint64_t data = kernel.buffer(counted_from(5000), "data");
        kernel.argument(kernel.buffer(counted_from(100), "filler"));
        kernel.argument(out);
        kernel.argument(data);
        const GridResult result = kernel.launch(32, ctas, ctas);
        shared = kernel.read<uint32_t>(out, kCopiedWords);
        global = kernel.read<uint32_t>(data, kCopiedWords);
        return result;
    }
};

const std::string kInit = "mbarrier.init.shared::cta.b64 [mb], 1;\nfence.mbarrier_init.release.cluster;\n";

std::string expect(uint32_t bytes) {
    return kInit + fmt::format("mbarrier.arrive.expect_tx.shared::cta.b64 _, [mb], {};\n", bytes);
}

}  // namespace

TEST_CASE("cp.async.bulk: global to shared", "[sim]") {
    Copy t;
    t.code = expect(512) +
             "mov.u32 %r3, 512;\nadd.u32 %r1, %r1, 64;\n"
             "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd0+16], %r3, [%r2];\n";
    t.after = wait_barrier(0, 0, "load");
    const GridResult run = t.run();
    INFO(run.finding.text);
    REQUIRE(run.ok);
    for (uint32_t i = 0; i < kCopiedWords; ++i)
        CHECK(t.shared[i] == (i >= 16 && i < 144 ? 5000 + 4 + i - 16 : 100 + i));
}

TEST_CASE("cp.async.bulk: sizes and addresses are multiples of 16", "[sim]") {
    Copy t;
    t.code = expect(24) +
             "mov.u32 %r3, 24;\n"
             "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd0], %r3, [%r2];\n";
    CHECK(t.run().finding.kind == FindingKind::misaligned);
}

TEST_CASE("cp.async.bulk: shared to global, and its reductions", "[sim]") {
    const std::string wait = "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n";
    Copy store;
    store.code = "mov.u32 %r3, 256;\ncp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r1], %r3;\n" + wait;
    REQUIRE(store.run().ok);
    for (uint32_t i = 0; i < kCopiedWords; ++i) CHECK(store.global[i] == (i < 64 ? 100 + i : 5000 + i));
    Copy add;
    add.code =
        "mov.u32 %r3, 256;\ncp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd0], [%r1], %r3;\n" + wait;
    REQUIRE(add.run().ok);
    for (uint32_t i = 0; i < kCopiedWords; ++i) CHECK(add.global[i] == 5000 + i + (i < 64 ? 100 + i : 0));
    Copy masked;
    masked.sm = 100;
    masked.code =
        "mov.u32 %r3, 256;\nmov.u16 %h0, 0x000f;\n"
        "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd0], [%r1], %r3, %h0;\n" +
        wait;
    REQUIRE(masked.run().ok);
    for (uint32_t i = 0; i < kCopiedWords; ++i) CHECK(masked.global[i] == (i < 64 && i % 4 == 0 ? 100 + i : 5000 + i));
}

TEST_CASE("cp.async.bulk: a store of generic writes without fence.proxy.async", "[sim]") {
    Copy t;
    t.fill_fence = "";
    t.code =
        "mov.u32 %r3, 256;\ncp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r1], %r3;\n"
        "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n";
    CHECK(t.run().finding.kind == FindingKind::proxy_race);
}

TEST_CASE("cp.async.bulk: shared to the own CTA works in a cluster and faults without one", "[sim]") {
    Copy t;
    t.code = expect(128) +
             "mov.u32 %r3, 128;\nadd.u32 %r4, %r1, 512;\n"
             "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r4], [%r1], %r3, [%r2];\n";
    t.after = wait_barrier(0, 0, "copy");
    CHECK(t.run().finding.kind == FindingKind::illegal_instruction);
    // Rank 0's data lands in rank 0; both CTAs write the same result to p1, so only the fault is looked at here.
}

TEST_CASE("st.async and red.async need a cluster launch", "[sim]") {
    Copy t;
    t.code = expect(4) + "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r1], %r0, [%r2];\n";
    CHECK(t.run().finding.kind == FindingKind::illegal_instruction);
}

TEST_CASE("st.async and red.async count their bytes on the mbarrier of the destination", "[sim]") {
    // Rank 0 sends to rank 1: 4 + 8 + 16 bytes stored, 4 added. Rank 1 waits for exactly 32.
    const std::string body =
        "mov.u32 %r0, %tid.x;\nmov.u32 %r9, %cluster_ctarank;\nsetp.ne.u32 %p0, %r0, 0;\nmov.u32 %r1, sm;\nmov.u32 "
        "%r2, mb;\n"
        "@%p0 bra ready;\nmbarrier.init.shared::cta.b64 [mb], 1;\nfence.mbarrier_init.release.cluster;\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [mb], 32;\nmov.u32 %r5, 7;\nst.shared.u32 [sm+64], %r5;\nready:\n"
        "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n"
        "setp.ne.u32 %p1, %r9, 0;\nor.pred %p1, %p1, %p0;\n@%p1 bra sent;\n"
        "mapa.shared::cluster.u32 %r3, %r1, 1;\nmapa.shared::cluster.u32 %r4, %r2, 1;\nmov.u32 %r10, 11;\nmov.u32 "
        "%r11, 12;\n"
        "mov.b64 %rd1, {%r10, %r11};\n"
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r3], %r10, [%r4];\n"
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%r3+8], %rd1, [%r4];\n"
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r3+16], {%r10, %r11, %r10, %r11}, [%r4];\n"
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r3+64], %r10, [%r4];\nsent:\n"
        "setp.eq.u32 %p2, %r9, 0;\nor.pred %p2, %p2, %p0;\n@%p2 bra finish;\n" +
        wait_barrier(0, 0, "data") +
        "ld.param.u64 %rd0, [p0];\nld.shared.u32 %r20, [sm];\nst.global.u32 [%rd0], %r20;\n"
        "ld.shared.v4.u32 {%r21, %r22, %r23, %r24}, [sm+16];\nst.global.v4.u32 [%rd0+16], {%r21, %r22, %r23, %r24};\n"
        "ld.shared.v2.u32 {%r25, %r26}, [sm+8];\nst.global.v2.u32 [%rd0+8], {%r25, %r26};\n"
        "ld.shared.u32 %r27, [sm+64];\nst.global.u32 [%rd0+4], %r27;\nfinish:\n"
        "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n";
    for (const Policy policy : {Policy::round_robin, Policy::eager, Policy::late, Policy::random}) {
        EngineKernel kernel(90, body);
        kernel.config().policy = policy;
        const uint64_t out = kernel.buffer(std::vector<uint32_t>(8), "out");
        kernel.argument(out);
        GridResult run;
        // Rank 1 waits with one thread, rank 0 with none: the mbarrier of rank 0 stays open.
        run = kernel.launch(32, 2, 2);
        INFO(run.finding.text);
        REQUIRE(run.ok);
        CHECK(kernel.read<uint32_t>(out, 8) == std::vector<uint32_t>{11, 18, 11, 12, 11, 12, 11, 12});
    }
}

TEST_CASE("cp.async: sizes, zero fill, groups and mbarrier", "[sim]") {
    Copy t;
    t.code =
        "mov.u32 %r5, 5;\ncp.async.cg.shared.global [%r1], [%rd0], 16;\n"
        "cp.async.ca.shared.global [%r1+32], [%rd0+32], 8, 4;\ncp.async.commit_group;\n"
        "cp.async.ca.shared.global [%r1+64], [%rd0+64], 4;\ncp.async.commit_group;\ncp.async.wait_group 0;\n";
    const GridResult run = t.run();
    INFO(run.finding.text);
    REQUIRE(run.ok);
    std::vector<uint32_t> want = counted_from(100);
    for (const uint32_t i : {0u, 1u, 2u, 3u, 8u, 16u}) want[i] = 5000 + i;
    want[9] = 0;
    CHECK(t.shared == want);

    Copy pending;
    pending.code = "cp.async.cg.shared.global [%r1], [%rd0], 16;\ncp.async.commit_group;\n";
    pending.after = "bar.sync 0;\n";
    CHECK(pending.run().finding.kind == FindingKind::race);

    Copy barrier;
    barrier.code = kInit +
                   "cp.async.cg.shared.global [%r1], [%rd0], 16;\n"
                   "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [mb];\n";
    barrier.after = wait_barrier(0, 0, "copied");
    REQUIRE(barrier.run().ok);
    CHECK(barrier.shared[3] == 5003);
}

TEST_CASE("st.bulk fills with zeros", "[sim]") {
    Copy t;
    t.sm = 100;
    t.code = "mov.u64 %rd5, 64;\nst.bulk.weak.shared::cta [%r1], %rd5, 0;\n";
    REQUIRE(t.run().ok);
    for (uint32_t i = 0; i < kCopiedWords; ++i) CHECK(t.shared[i] == (i < 16 ? 0 : 100 + i));
}

TEST_CASE("ldmatrix and stmatrix: fragments of 8 x 8 matrices, plain and transposed", "[sim]") {
    for (const bool transposed : {false, true}) {
        const std::string trans = transposed ? ".trans" : "";
        // Lane l gives row l % 8 of matrix l / 8; four matrices of 128 bytes each.
        const std::string body =
            copy_words(true, 0, 128, 32, "in") +
            "mov.u32 %r0, %tid.x;\nshl.b32 %r1, %r0, 4;\nmov.u32 %r2, sm;\nadd.u32 %r2, %r2, %r1;\n"
            "ldmatrix.sync.aligned.m8n8.x4" +
            trans +
            ".shared.b16 {%r10,%r11,%r12,%r13}, [%r2];\nld.param.u64 %rd0, [p1];\n"
            "mul.wide.u32 %rd1, %r0, 16;\nadd.u64 %rd0, %rd0, %rd1;\n"
            "st.global.v4.u32 [%rd0], {%r10,%r11,%r12,%r13};\nbar.sync 0;\n"
            "stmatrix.sync.aligned.m8n8.x4" +
            trans + ".shared.b16 [%r2], {%r10,%r11,%r12,%r13};\nbar.sync 0;\n" + copy_words(false, 2, 128, 32, "out");
        EngineKernel kernel(90, body);
        std::vector<uint16_t> data(256);
        std::iota(data.begin(), data.end(), static_cast<uint16_t>(1000));
        const uint64_t fragments = kernel.buffer(std::vector<uint16_t>(256), "fragments");
        const uint64_t back = kernel.buffer(std::vector<uint16_t>(256), "back");
        kernel.argument(kernel.buffer(data, "matrices"));
        kernel.argument(fragments);
        kernel.argument(back);
        const GridResult run = kernel.launch(32);
        INFO(run.finding.text);
        REQUIRE(run.ok);
        const std::vector<uint16_t> got = kernel.read<uint16_t>(fragments, 256);
        for (uint32_t lane = 0; lane < 32; ++lane)
            for (uint32_t j = 0; j < 4; ++j)
                for (uint32_t e = 0; e < 2; ++e) {
                    const uint32_t major = lane / 4, minor = 2 * (lane % 4) + e;
                    const uint32_t row = transposed ? minor : major, column = transposed ? major : minor;
                    CHECK(got[lane * 8 + j * 2 + e] == 1000 + j * 64 + row * 8 + column);
                }
        CHECK(kernel.read<uint16_t>(back, 256) == data);
    }
}
