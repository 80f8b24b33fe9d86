// Mutants of kernels on clusters: a tcgen05 multiply of a CTA pair, and an exchange over distributed shared memory.
#include "sim/mutation.hpp"
#include "sim/nvfp4_problem.hpp"
#include "sim/run_ptx.hpp"

using namespace nvfp4r::sim;
using namespace nvfp4r::sim::test;

namespace {

using K = FindingKind;

Outcome run_pair(const std::string& ptx, const GpuConfig& config) {
    constexpr uint32_t kM = 256, kN = 32, kSteps = 4, kRowBytes = 128, kThreads = 128, kShared = 22528;
    constexpr uint32_t kFactorRows = Nvfp4Problem::kAtom * kSteps / kRowBytes;  // of one CTA, as a byte matrix
    static const Nvfp4Problem problem{kM, kN, kSteps};
    static const std::vector<uint32_t> want = problem.result();
    Bench bench(config);
    const uint64_t result = bench.room(want.size() * 4, "result");
    GridLaunch launch = bench.launch_of(ptx, {kThreads, 2, 2, kShared}, {result}, "pair");
    const auto map = [&](const std::vector<uint8_t>& bytes, const char* name, uint32_t box_rows,
                         TensorSwizzle swizzle) {
        const auto rows = static_cast<uint32_t>(bytes.size()) / kRowBytes;
        append_byte_map(launch, config.sm, bench.buffer(bytes, name), kRowBytes, rows, box_rows, swizzle);
    };
    map(problem.a, "A", kM / 2, TensorSwizzle::b128);
    map(problem.b, "B", kN / 2, TensorSwizzle::b128);
    map(problem.factors_a, "factors of A", kFactorRows, TensorSwizzle::none);
    map(problem.factors_b, "factors of B", kFactorRows, TensorSwizzle::none);
    const GridResult run = bench.gpu().run(std::span(&launch, 1)).front();
    return {run.ok, run.finding, bench.read<uint32_t>(result, want.size()) == want};
}

Outcome run_exchange(const std::string& ptx, const GpuConfig& config) {
    constexpr uint32_t kCtas = 4, kThreads = 64;
    std::vector<uint32_t> source(32), want;
    for (uint32_t i = 0; i < source.size(); ++i) source[i] = 7000 + 13 * i;
    for (uint32_t rank = 0; rank < kCtas; ++rank)
        for (uint32_t thread = 0; thread < kThreads; ++thread) {
            const uint32_t lane = thread % 32, last = (rank + 3) % kCtas, far = (rank + 2) % kCtas;
            want.push_back(source[lane] + 2 * (last * 100 + lane) + far * 100 + lane);
        }
    Bench bench(config);
    const uint64_t in = bench.buffer(source, "source");
    const uint64_t out = bench.room(want.size() * 4, "result");
    const GridLaunch launch = bench.launch_of(ptx, {kThreads, kCtas, kCtas, 0}, {in, out}, "exchange");
    const GridResult run = bench.gpu().run(std::span(&launch, 1)).front();
    return {run.ok, run.finding, bench.read<uint32_t>(out, want.size()) == want};
}

std::string cluster_barrier(const char* tag) {
    return std::string("barrier.cluster.arrive.release.aligned;  // ") + tag +
           "\n    barrier.cluster.wait.acquire.aligned;  // " + tag + "\n";
}

const std::string kPairExpect = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [barriers], 45056;";
const std::string kPairIdesc = "mov.u32 %idesc, 0x10080480;";
const std::string kPairDealloc = "tcgen05.dealloc.cta_group::2.sync.aligned.b32 %tmem, 64;";

const std::vector<Mutation> kPair = {
    {"C01 no cluster barrier before dealloc",
     cluster_barrier("close"),
     "",
     {K::race, K::tcgen05_order, K::tmem_alloc_phase, K::tmem_unallocated}},
    {"C02 the alloc slot is read before it is written",
     cluster_barrier("start"),
     "",
     {K::uninitialised, K::race, K::mbarrier_misuse}},
    {"C26 the even CTA expects only its own bytes",
     kPairExpect,
     "mbarrier.arrive.expect_tx.shared::cta.b64 _, [barriers], 22528;",
     {K::mbarrier_misuse, K::mbarrier_overflow, K::race, K::uninitialised, K::deadlock}},
    {"C26 16 bytes too many expected",
     kPairExpect,
     "mbarrier.arrive.expect_tx.shared::cta.b64 _, [barriers], 45072;",
     {K::deadlock}},
    {"C35 the odd CTA signals its own barrier",
     "and.b32 %full, %full, 0xfeffffff;",
     "",
     {K::deadlock, K::mbarrier_misuse}},
    {"the factors reach only the even CTA",
     "mov.u16 %both, 3;  // multicast",
     "mov.u16 %both, 1;  // multicast",
     {K::deadlock}},
    {"multicast to a CTA that is not there",
     "mov.u16 %both, 3;  // multicast",
     "mov.u16 %both, 7;  // multicast",
     {K::illegal_instruction}},
    {"the commit reaches only the even CTA",
     "mov.u16 %both, 3;  // commit",
     "mov.u16 %both, 1;  // commit",
     {K::deadlock}},
    {"commit to a CTA that is not there",
     "mov.u16 %both, 3;  // commit",
     "mov.u16 %both, 5;  // commit",
     {K::illegal_instruction}},
    {"the load for one CTA",
     "complete_tx::bytes.cta_group::2 [%base], [%map, {%x, %y}], [%full];",
     "complete_tx::bytes [%base], [%map, {%x, %y}], [%full];",
     {K::mbarrier_misuse}},
    {"both CTAs multiply",
     "@%skip bra DRAIN;\n    mov.b64 %map, map_sb;",
     "mov.b64 %map, map_sb;",
     {K::mbarrier_misuse, K::mbarrier_overflow, K::race, K::illegal_instruction, K::deadlock}},
    {"M 64 a CTA", kPairIdesc, "mov.u32 %idesc, 0x08080480;", {K::uninitialised}},
    {"N 24", kPairIdesc, "mov.u32 %idesc, 0x10060480;", {K::illegal_descriptor}},
    {"a multiply for one CTA", "tcgen05.mma.cta_group::2", "tcgen05.mma.cta_group::1", {K::illegal_instruction}},
    {"a commit for one CTA", "tcgen05.commit.cta_group::2", "tcgen05.commit.cta_group::1", {K::illegal_instruction}},
    {"only the even CTA allocates",
     "setp.ne.u32 %skip, %warp, 0;\n    @%skip bra ALLOCATED;",
     "or.b32 %t, %warp, %rank;\n    setp.ne.u32 %skip, %t, 0;\n    @%skip bra ALLOCATED;",
     {K::deadlock}},
    {"only the even CTA frees",
     "setp.ne.u32 %skip, %warp, 0;\n    @%skip bra END;",
     "or.b32 %t, %warp, %rank;\n    setp.ne.u32 %skip, %t, 0;\n    @%skip bra END;",
     {K::deadlock, K::tmem_leak}},
    {"no dealloc", kPairDealloc, "", {K::tmem_leak}},
    {"C29 no fence.mbarrier_init", "fence.mbarrier_init.release.cluster;", "", {K::mbarrier_misuse}},
    {"C05 no fence::after_thread_sync", "tcgen05.fence::after_thread_sync;  // result", "", {K::tcgen05_order}},
    {"C05 no wait::ld", "tcgen05.wait::ld.sync.aligned;", "", {K::pending_register}},
    {"the odd CTA's half of A in the wrong place", "shl.b32 %y, %rank, 7;", "mov.u32 %y, 0;", {}},
    {"no wait for the operands",
     "FULL:\n    mbarrier.try_wait.parity.shared::cta.b64 %done, [barriers], 0;\n    @!%done bra FULL;",
     "",
     {K::race, K::uninitialised}},
};

const std::string kRemoteArrive = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%remote_bar];";
const std::string kInboxExpect = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [barriers+8], 128;";
const std::string kLettersWait = "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %done, [barriers+16], 0;";

const std::vector<Mutation> kExchange = {
    {"no cluster barrier at the start",
     cluster_barrier("start"),
     "",
     {K::mbarrier_misuse, K::race, K::uninitialised, K::exited_cta}},
    {"no cluster barrier at the end", cluster_barrier("close"), "", {K::exited_cta, K::in_flight_exit}},
    {"a wait without an arrive",
     "barrier.cluster.arrive.release.aligned;  // close",
     "",
     {K::deadlock, K::illegal_instruction, K::exited_cta}},
    {"relaxed arrive of the start barrier",
     "barrier.cluster.arrive.release.aligned;  // start",
     "barrier.cluster.arrive.relaxed.aligned;",
     {K::race}},
    {"a warp that skips the cluster barrier",
     "barrier.cluster.arrive.release.aligned;  // start",
     "@!%second barrier.cluster.arrive.release.aligned;",
     {K::deadlock, K::illegal_instruction}},
    {"C29 no fence.mbarrier_init", "fence.mbarrier_init.release.cluster;", "", {K::mbarrier_misuse}},
    {"st.async data and barrier in different CTAs",
     "mapa.shared::cluster.u32 %remote_bar, %t, %next;\n    st.async",
     "mapa.shared::cluster.u32 %remote_bar, %t, %far;\n    st.async",
     {K::mbarrier_misuse, K::deadlock}},
    {"C26 4 bytes too many expected",
     kInboxExpect,
     "mbarrier.arrive.expect_tx.shared::cta.b64 _, [barriers+8], 132;",
     {K::deadlock}},
    {"C26 4 bytes too few expected",
     kInboxExpect,
     "mbarrier.arrive.expect_tx.shared::cta.b64 _, [barriers+8], 124;",
     {K::race, K::mbarrier_misuse, K::uninitialised, K::in_flight_exit, K::mbarrier_overflow}},
    {"C26 no expect_tx", kInboxExpect, "", {K::deadlock, K::mbarrier_misuse}},
    {"no remote arrive", kRemoteArrive, "", {K::deadlock}},
    {"relaxed remote arrive",
     kRemoteArrive,
     "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%remote_bar];",
     {K::race}},
    {"relaxed wait",
     kLettersWait,
     "mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 %done, [barriers+16], 0;",
     {K::race}},
    {"remote arrive of CTA scope",
     kRemoteArrive,
     "mbarrier.arrive.release.cta.shared::cluster.b64 _, [%remote_bar];",
     {K::race}},
    {"wait of CTA scope",
     kLettersWait,
     "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %done, [barriers+16], 0;",
     {K::race}},
    {"no wait for st.async",
     "INBOX:\n    mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %done, [barriers+8], 0;\n    @!%done bra "
     "INBOX;",
     "",
     {K::race, K::uninitialised}},
    {"multicast leaves one CTA out", "mov.u16 %all, 15;", "mov.u16 %all, 7;", {K::deadlock}},
    {"multicast to a CTA that is not there", "mov.u16 %all, 15;", "mov.u16 %all, 31;", {K::illegal_instruction}},
    {"a rank that is not there",
     "mapa.shared::cluster.u32 %remote, %at, %far;",
     "mapa.shared::cluster.u32 %remote, %at, 9;",
     {K::out_of_bounds}},
    {"a remote address in .shared",
     "ld.shared::cluster.u32 %t, [%remote];",
     "ld.shared.u32 %t, [%remote];",
     {K::out_of_bounds}},
    {"the letter is read from the wrong CTA",
     "mapa.shared::cluster.u32 %remote, %at, %far;",
     "mapa.shared::cluster.u32 %remote, %at, %next;",
     {}},
    {"a peer leaves at once",
     "bar.warp.sync 0xffffffff;\n    mad.lo.u32",
     "setp.eq.u32 %done, %rank, 3;\n    @%done exit;\n    bar.warp.sync 0xffffffff;\n    mad.lo.u32",
     {K::exited_cta, K::deadlock}},
    {"misaligned multicast", "[%t], [%from], 128, [%at], %all;", "[%t+8], [%from], 128, [%at], %all;", {K::misaligned}},
};

}  // namespace

TEST_CASE("mutants: the multiply of a CTA pair is clean and right under every schedule", "[sim][mutation]") {
    check_clean(ptx_of("nvfp4_pair.ptx"), 100, run_pair);
}

TEST_CASE("mutants: the multiply of a CTA pair", "[sim][mutation]") {
    check_mutants(ptx_of("nvfp4_pair.ptx"), 100, run_pair, kPair);
}

TEST_CASE("mutants: the exchange of a cluster is clean and right under every schedule", "[sim][mutation]") {
    check_clean(ptx_of("cluster_exchange.ptx"), 90, run_exchange);
}

TEST_CASE("mutants: the exchange of a cluster", "[sim][mutation]") {
    check_mutants(ptx_of("cluster_exchange.ptx"), 90, run_exchange, kExchange);
}
