// Tensor copies in a cluster: multicast, and which mbarrier counts them with .cta_group::1 and ::2.
#include <catch2/catch.hpp>

#include "sim/engine_kernel.hpp"

using namespace nvfp4r::sim;
using namespace nvfp4r::sim::test;

namespace {

constexpr uint32_t kBoxWords = 128;

// `sender` loads with `form`; each rank waits for `expects[rank]` bytes on its own barrier (0: it waits for nothing) and
// then copies its box to the result.
GridResult run_load(uint32_t sm, const std::string& form, const std::string& barrier_address, uint32_t sender,
                    const std::vector<uint32_t>& expects, std::vector<uint32_t>& out) {
    std::string text =
        "mov.u32 %r0, %tid.x;\nmov.u32 %r9, %cluster_ctarank;\nsetp.ne.u32 %p0, %r0, 0;\nmov.u32 %r3, sm;\nmov.u32 "
        "%r4, mb;\n"
        "@%p0 bra ready;\nmbarrier.init.shared::cta.b64 [mb], 1;\nfence.mbarrier_init.release.cluster;\n";
    for (uint32_t rank = 0; rank < expects.size(); ++rank)
        if (expects[rank])
            text +=
                fmt::format("setp.eq.u32 %p5, %r9, {};\n@%p5 mbarrier.arrive.expect_tx.shared::cta.b64 _, [mb], {};\n",
                            rank, expects[rank]);
    text += "ready:\nbarrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n";
    text += fmt::format(
        "setp.ne.u32 %p1, %r9, {};\nor.pred %p1, %p1, %p0;\n@%p1 bra sent;\nmov.b64 %rd0, map0;\n"
        "cvta.param.u64 %rd0, %rd0;\nmov.u32 %r1, 0;\nmov.u16 %h0, 3;\n{}",
        sender, barrier_address);
    text += form + "sent:\n";
    for (uint32_t rank = 0; rank < expects.size(); ++rank)
        if (expects[rank])
            text += fmt::format("setp.ne.u32 %p6, %r9, {0};\n@%p6 bra skip_{0};\n", rank) +
                    wait_barrier(0, 0, std::to_string(rank)) + fmt::format("skip_{}:\n", rank);
    text += "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n";
    text += fmt::format(
        "shl.b32 %r10, %r9, 7;\nadd.u32 %r10, %r10, %r0;\nmul.wide.u32 %rd5, %r10, 4;\nld.param.u64 %rd6, [p0];\n"
        "add.u64 %rd6, %rd6, %rd5;\nshl.b32 %r11, %r0, 2;\nadd.u32 %r11, %r11, %r3;\n"
        "setp.ge.u32 %p7, %r9, {};\n@%p7 bra end;\nld.shared.u32 %r12, [%r11];\nst.global.u32 [%rd6], %r12;\nend:\n",
        expects.size());
    EngineKernel kernel(sm, text);
    std::vector<uint32_t> data(kBoxWords);
    for (uint32_t i = 0; i < kBoxWords; ++i) data[i] = 70 + i;
    const uint64_t result = kernel.buffer(std::vector<uint32_t>(2 * kBoxWords), "result");
    kernel.argument(result);
    const uint64_t dims[] = {kBoxWords};
    const uint32_t box[] = {kBoxWords}, steps[] = {1};
    TensorMapRequest request;
    request.type = 2;
    request.rank = 1;
    request.address = kernel.buffer(data, "tensor");
    request.dims = dims;
    request.box = box;
    request.element_strides = steps;
    kernel.map(request);
    const GridResult run = kernel.launch(kBoxWords, 2, 2);
    out = kernel.read<uint32_t>(result, 2 * kBoxWords);
    return run;
}

constexpr uint32_t kBytes = kBoxWords * 4;

}  // namespace

TEST_CASE("TMA multicast fills every CTA of the mask and signals each one's own barrier", "[sim]") {
    std::vector<uint32_t> out;
    const GridResult run = run_load(90,
                                    "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes."
                                    "multicast::cluster [%r3], [%rd0, {%r1}], "
                                    "[%r4], %h0;\n",
                                    "", 1, {kBytes, kBytes}, out);
    INFO(run.finding.text);
    REQUIRE(run.ok);
    for (uint32_t i = 0; i < 2 * kBoxWords; ++i) CHECK(out[i] == 70 + i % kBoxWords);
}

TEST_CASE("TMA .cta_group::2 multicast signals the leader's barrier for both CTAs", "[sim]") {
    const std::string operands = " [%r3], [%rd0, {%r1}], [%r4], %h0;\n";
    // The ISA's place of .cta_group, and the other that ptxas takes.
    for (const char* load : {"cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes."
                             "multicast::cluster.cta_group::2",
                             "cp.async.bulk.tensor.1d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes."
                             "multicast::cluster"}) {
        std::vector<uint32_t> out;
        const GridResult run =
            run_load(100, load + operands, "and.b32 %r4, %r4, 0xfeffffff;\n", 1, {2 * kBytes, 0}, out);
        INFO(run.finding.text);
        REQUIRE(run.ok);
        for (uint32_t i = 0; i < 2 * kBoxWords; ++i) CHECK(out[i] == 70 + i % kBoxWords);
    }
}

TEST_CASE("TMA with an mbarrier in another CTA is refused without .cta_group::2", "[sim]") {
    std::vector<uint32_t> out;
    const GridResult run = run_load(
        100,
        "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd0, {%r1}], [%r4];\n",
        "and.b32 %r4, %r4, 0xfeffffff;\n", 1, {kBytes, 0}, out);
    REQUIRE_FALSE(run.ok);
    CHECK(run.finding.kind == FindingKind::mbarrier_misuse);
}
