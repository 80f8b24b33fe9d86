// Mutants of a TMA ring with tcgen05 multiplies: fences, barriers, descriptors, tensor memory.
#include "sim/mutation.hpp"
#include "sim/nvfp4_problem.hpp"
#include "sim/run_ptx.hpp"

using namespace nvfp4r::sim;
using namespace nvfp4r::sim::test;

namespace {

Outcome run_ring(const std::string& ptx, const GpuConfig& config) {
    constexpr uint32_t kM = 256, kN = 16, kSteps = 8, kRowBytes = 256, kThreads = 192, kShared = 53248;
    static const Nvfp4Problem problem{kM, kN, kSteps};
    static const std::vector<uint32_t> want = problem.result();
    Bench bench(config);
    const uint64_t factors_a = bench.buffer(problem.factors_a, "factors of A");
    const uint64_t factors_b = bench.buffer(problem.factors_b, "factors of B");
    const uint64_t result = bench.room(want.size() * 4, "result");
    GridLaunch launch = bench.launch_of(ptx, {kThreads, 1, 0, kShared}, {factors_a, factors_b, result}, "ring");
    append_byte_map(launch, config.sm, bench.buffer(problem.a, "A"), kRowBytes, kM, 128, TensorSwizzle::b128);
    append_byte_map(launch, config.sm, bench.buffer(problem.b, "B"), kRowBytes, kN, kN, TensorSwizzle::b128);
    const GridResult run = bench.gpu().run(std::span(&launch, 1)).front();
    return {run.ok, run.finding, bench.read<uint32_t>(result, want.size()) == want};
}

using K = FindingKind;

const std::string kIdesc = "mov.u32 %idesc, 0x08040480;";
const std::string kMma = "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16 ";
const std::string kRingDealloc = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tmem, 128;";
const std::string kRingAlloc = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [barriers+48], 128;";
const std::string kExpect = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%stage_bar], 20480;";
const std::string kLoadFactors = "[%t], [%at], 2048, [%stage_bar];";
const std::string kStagingStore = "cp.async.bulk.global.shared::cta.bulk_group [%at], [%staging], 8192;";

const std::vector<Mutation> kFences = {
    {"C28 no fence.proxy.async after the factors", "fence.proxy.async.shared::cta;  // factors", "", {K::proxy_race}},
    {"C28 no fence.proxy.async before the bulk store",
     "fence.proxy.async.shared::cta;  // staging",
     "",
     {K::proxy_race}},
    {"C05 no fence::after_thread_sync before the load",
     "tcgen05.fence::after_thread_sync;  // result",
     "",
     {K::tcgen05_order}},
    {"C05 no wait::ld", "tcgen05.wait::ld.sync.aligned;", "", {K::pending_register}},
    {"no fence::after_thread_sync before the next stage",
     "tcgen05.fence::after_thread_sync;  // stage",
     "",
     {K::tcgen05_order, K::race}},
    {"no fence::before_thread_sync after the drain",
     "tcgen05.fence::before_thread_sync;  // drained",
     "",
     {K::tcgen05_order, K::race}},
    {"C29 no fence.mbarrier_init", "fence.mbarrier_init.release.cluster;", "", {K::mbarrier_misuse}},
};

const std::vector<Mutation> kProtocol = {
    {"no commit to the empty barrier",
     "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%t];\n    setp",
     "setp",
     {K::deadlock}},
    {"no commit of the result",
     "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%t];  // result",
     "",
     {K::deadlock}},
    {"commit on another barrier",
     "add.u32 %t, %bar, 32;",
     "add.u32 %t, %bar, 16;",
     {K::deadlock, K::mbarrier_overflow, K::mbarrier_misuse, K::race}},
    {"C25 no arrive on the free accumulator", "mbarrier.arrive.shared::cta.b64 _, [barriers+40];", "", {K::deadlock}},
    {"no wait for the free accumulator",
     "mbarrier.try_wait.parity.shared::cta.b64 %done, [barriers+40], %parity;\n    @!%done bra FREE;",
     "",
     {K::race, K::tcgen05_order}},
    {"a wait for the full stage that does not repeat", "@!%done bra FULL;", "", {K::race, K::uninitialised}},
    {"no wait for the empty stage",
     "mbarrier.try_wait.parity.shared::cta.b64 %done, [%stage_bar+16], %parity;\n    @!%done bra EMPTY;",
     "",
     {K::race, K::mbarrier_misuse}},
    {"a wait for the result that does not repeat", "@!%done bra RESULT;", "", {K::race, K::uninitialised}},
    {"no barrier before the roles start", "bar.sync 0;  // start", "", {K::uninitialised, K::mbarrier_misuse, K::race}},
    {"C23 the producer starts with parity 0",
     "EMPTY:\n    and.b32 %parity, %parity, 1;",
     "EMPTY:\n    and.b32 %parity, %tile, 1;",
     {K::deadlock}},
    {"the consumer's parity is inverted",
     "FULL:\n    and.b32 %parity, %tile, 1;",
     "FULL:\n    not.b32 %parity, %tile;\n    and.b32 %parity, %parity, 1;",
     {K::race, K::uninitialised}},
    {"the drain's parity never flips",
     "DRAIN:\n    and.b32 %parity, %tile, 1;",
     "DRAIN:\n    mov.u32 %parity, 0;",
     {K::race, K::tcgen05_order, K::uninitialised}},
    {"C26 16 bytes too many expected",
     kExpect,
     "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%stage_bar], 20496;",
     {K::deadlock}},
    {"C26 16 bytes too few expected",
     kExpect,
     "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%stage_bar], 20464;",
     {K::deadlock, K::race, K::mbarrier_misuse, K::mbarrier_overflow}},
    {"C26 arrive without expect_tx",
     kExpect,
     "mbarrier.arrive.shared::cta.b64 _, [%stage_bar];",
     {K::deadlock, K::race, K::uninitialised, K::mbarrier_misuse, K::mbarrier_overflow}},
    {"expect_tx on the empty barrier",
     kExpect,
     "add.u32 %t, %stage_bar, 16;\n    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%t], 20480;",
     {K::deadlock, K::race, K::mbarrier_misuse, K::mbarrier_overflow}},
    {"a load that no one expects",
     "setp.lt.u32 %more, %step, 4;  // loads",
     "setp.lt.u32 %more, %step, 3;",
     {K::deadlock}},
    {"C34 a load in flight at exit",
     "setp.lt.u32 %more, %step, 4;  // loads",
     "setp.lt.u32 %more, %step, 5;",
     {K::in_flight_exit, K::out_of_bounds}},
    {"barrier count too high",
     "mbarrier.init.shared::cta.b64 [barriers+40], 128;",
     "mbarrier.init.shared::cta.b64 [barriers+40], 129;",
     {K::deadlock}},
    {"barrier count too low",
     "mbarrier.init.shared::cta.b64 [barriers+40], 128;",
     "mbarrier.init.shared::cta.b64 [barriers+40], 96;",
     {K::race, K::tcgen05_order}},
    {"barrier count zero",
     "mbarrier.init.shared::cta.b64 [barriers+16], 1;",
     "mbarrier.init.shared::cta.b64 [barriers+16], 0;",
     {K::mbarrier_misuse}},
    {"C31 two barriers at one address",
     "mbarrier.init.shared::cta.b64 [barriers+8], 1;",
     "mbarrier.init.shared::cta.b64 [barriers], 1;",
     {K::mbarrier_misuse}},
    {"C31 a store over a live barrier",
     "mov.u32 %tile, 0;\n    add.u32 %staging",
     "st.shared.u32 [barriers+32], %tile;\n    mov.u32 %tile, 0;\n    add.u32 %staging",
     {K::mbarrier_misuse}},
    {"the multiplier runs in every lane",
     "@!%elected bra CLOSE;  // multiplier",
     "",
     {K::mbarrier_overflow, K::mbarrier_misuse, K::race}},
    {"the loader runs in every lane",
     "@!%elected bra CLOSE;  // loader",
     "",
     {K::mbarrier_overflow, K::mbarrier_misuse, K::race}},
    {"staging written before the last store has read it", "cp.async.bulk.wait_group.read 0;", "", {K::race}},
    {"staging stored before it is full",
     "bar.sync 1, 128;  // staging full",
     "",
     {K::race, K::uninitialised, K::proxy_race}},
    {"a named barrier with too many threads", "bar.sync 1, 128;  // staging free", "bar.sync 1, 160;", {K::deadlock}},
    {"exit while the store reads staging", "cp.async.bulk.wait_group 0;", "", {K::in_flight_exit}},
};

const std::vector<Mutation> kDescriptors = {
    {"swizzle code 3",
     "or.b64 %a_desc, %wide, 0x4000404000000000;",
     "or.b64 %a_desc, %wide, 0x6000404000000000;",
     {K::illegal_descriptor}},
    {"a wgmma descriptor without the constant",
     "or.b64 %a_desc, %wide, 0x4000404000000000;",
     "or.b64 %a_desc, %wide, 0x4000004000000000;",
     {K::illegal_descriptor}},
    {"base offset 1",
     "or.b64 %b_desc, %wide, 0x4000404000000000;",
     "or.b64 %b_desc, %wide, 0x4002404000000000;",
     {K::illegal_descriptor}},
    {"stride past the end of shared memory",
     "or.b64 %a_desc, %wide, 0x4000404000000000;",
     "or.b64 %a_desc, %wide, 0x40007fff00000000;",
     {K::out_of_bounds}},
    {"C13 a tile that starts 128 bytes late",
     "or.b64 %b_desc, %wide, 0x4000404000000000;",
     "add.u64 %wide, %wide, 8;\n    or.b64 %b_desc, %wide, 0x4000404000000000;\n    sub.u64 %wide, %wide, 8;",
     {}},
    {"64-byte swizzle over a 128-byte image",
     "or.b64 %a_desc, %wide, 0x4000404000000000;",
     "or.b64 %a_desc, %wide, 0x8000404000000000;",
     {}},
    {"stride of the factors",
     "or.b64 %sa_desc, %wide, 0x0000400800000000;",
     "or.b64 %sa_desc, %wide, 0x0000401000000000;",
     {K::race, K::uninitialised}},
    {"M 64", kIdesc, "mov.u32 %idesc, 0x00040480;", {K::illegal_descriptor}},
    {"M 256 in one CTA", kIdesc, "mov.u32 %idesc, 0x10040480;", {K::illegal_descriptor}},
    {"C19 N 264", kIdesc, "mov.u32 %idesc, 0x08420480;", {K::illegal_descriptor}},
    {"N 0", kIdesc, "mov.u32 %idesc, 0x08000480;", {K::illegal_descriptor}},
    {"N 8: half the columns stay unwritten", kIdesc, "mov.u32 %idesc, 0x08020480;", {K::uninitialised}},
    {"E2M1 by the f8f6f4 code", kIdesc, "mov.u32 %idesc, 0x08041680;", {K::illegal_descriptor}},
    {"C17 scale factor id 2", kIdesc, "mov.u32 %idesc, 0x48040480;", {K::illegal_descriptor}},
    {"transposed B", kIdesc, "mov.u32 %idesc, 0x08050480;", {K::illegal_descriptor}},
    {"sparsity bit", kIdesc, "mov.u32 %idesc, 0x08040484;", {K::illegal_descriptor}},
    {"K 96", kIdesc, "mov.u32 %idesc, 0x88040480;", {K::illegal_descriptor}},
    {"UE8M0 factors", kIdesc, "mov.u32 %idesc, 0x08840480;", {}},
};

const std::vector<Mutation> kTensorMemory = {
    {"C10 no dealloc", kRingDealloc, "", {K::tmem_leak}},
    {"C10 dealloc before the drain is over",
     "bar.sync 0;  // close",
     "",
     {K::race, K::tmem_unallocated, K::tcgen05_order}},
    {"trap: dealloc of a column alloc did not return",
     kRingDealloc,
     "add.u32 %tmem, %tmem, 32;\n    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tmem, 32;",
     {K::tmem_dealloc_foreign}},
    {"trap: dealloc of another size",
     kRingDealloc,
     "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tmem, 64;",
     {K::tmem_dealloc_foreign}},
    {"trap: dealloc of unallocated columns",
     kRingDealloc,
     "add.u32 %tmem, %tmem, 256;\n    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tmem, 128;",
     {K::tmem_dealloc_unallocated}},
    {"trap: dealloc twice", kRingDealloc, kRingDealloc + "\n    " + kRingDealloc, {K::tmem_dealloc_unallocated}},
    {"C07 alloc of 160 columns",
     kRingAlloc,
     "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [barriers+48], 160;",
     {K::tmem_alloc}},
    {"alloc of 16 columns",
     kRingAlloc,
     "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [barriers+48], 16;",
     {K::tmem_alloc}},
    {"alloc that grows",
     kRingAlloc,
     "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [barriers+48], 64;\n    " + kRingAlloc,
     {K::tmem_alloc}},
    {"trap: alloc after relinquish",
     "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
     "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n    " + kRingAlloc,
     {K::tmem_alloc_phase}},
    {"alloc of too few columns for the factors",
     kRingAlloc,
     "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [barriers+48], 64;",
     {K::tmem_unallocated}},
    {"C08 a lane leaves before alloc",
     kRingAlloc,
     "and.b32 %t, %thread, 31;\n    setp.eq.u32 %skip, %t, 31;\n    @%skip exit;\n    " + kRingAlloc,
     {K::divergence}},
    {"trap: the lanes of another warp", "add.u32 %from, %tmem, %quarter;", "mov.u32 %from, %tmem;", {K::tmem_owner}},
    {"C08 a different column in each lane",
     "add.u32 %from, %tmem, %quarter;",
     "and.b32 %t, %thread, 1;\n    add.u32 %from, %tmem, %quarter;\n    add.u32 %from, %from, %t;",
     {K::divergence, K::illegal_instruction}},
    {"load from columns never written",
     "add.u32 %from, %tmem, %quarter;",
     "add.u32 %from, %tmem, %quarter;\n    add.u32 %from, %from, 100;",
     {K::uninitialised}},
    {"load from unallocated columns",
     "add.u32 %from, %tmem, %quarter;",
     "add.u32 %from, %tmem, %quarter;\n    add.u32 %from, %from, 200;",
     {K::tmem_unallocated}},
    {"trap: load past the last column",
     "add.u32 %from, %tmem, %quarter;",
     "add.u32 %from, %tmem, %quarter;\n    add.u32 %from, %from, 500;",
     {K::tmem_bounds}},
    {"D in unallocated columns",
     kMma + "[%tmem]",
     "add.u32 %t, %tmem, 300;\n    " + kMma + "[%t]",
     {K::tmem_unallocated}},
    {"trap: D at lane 16", kMma + "[%tmem]", "add.u32 %t, %tmem, 0x100000;\n    " + kMma + "[%t]", {K::tmem_alignment}},
    {"C17 the first multiply accumulates",
     "setp.ne.u32 %accumulate, %t, 0;",
     "setp.ge.u32 %accumulate, %t, 0;",
     {K::uninitialised}},
    {"no multiply accumulates", "setp.ne.u32 %accumulate, %t, 0;", "setp.lt.u32 %accumulate, %t, 0;", {}},
    {"factors from a column never written",
     "[%a_column], [%b_column], %accumulate;",
     "[%a_column+16], [%b_column+16], %accumulate;",
     {K::uninitialised, K::race}},
    {"factors not copied to every quarter",
     "tcgen05.cp.cta_group::1.32x128b.warpx4 [%a_column], %sa_desc;",
     "tcgen05.cp.cta_group::1.128x128b [%a_column], %sa_desc;",
     {K::scale_copies}},
    {"no copy of the factors of B",
     "tcgen05.cp.cta_group::1.32x128b.warpx4 [%b_column], %sb_desc;",
     "",
     {K::uninitialised}},
    {"factors overwritten while a multiply may read them",
     "shl.b32 %t, %stage, 5;  // columns of the stage",
     "mov.u32 %t, 0;",
     {K::race}},
};

const std::vector<Mutation> kAccesses = {
    {"store past the end of shared memory",
     "st.shared.v4.b32 [%row], {%d0",
     "st.shared.v4.b32 [%row+8192], {%d0",
     {K::out_of_bounds}},
    {"misaligned vector store", "st.shared.v4.b32 [%row], {%d0", "st.shared.v4.b32 [%row+4], {%d0", {K::misaligned}},
    {"load past the end of a buffer",
     "ld.global.v4.b32 {%s4, %s5, %s6, %s7}, [%at+16];",
     "ld.global.v4.b32 {%s4, %s5, %s6, %s7}, [%at+4096];",
     {K::out_of_bounds}},
    {"bulk store past the end of the result",
     "mul.wide.u32 %wide, %tile, 8192;",
     "mul.wide.u32 %wide, %tile, 8208;",
     {K::out_of_bounds}},
    {"bulk copy of 8 bytes more", kLoadFactors, "[%t], [%at], 2056, [%stage_bar];", {K::misaligned}},
    {"bulk copy of 16 bytes less", kLoadFactors, "[%t], [%at], 2032, [%stage_bar];", {K::deadlock}},
    {"TMA destination at 64 bytes", "add.u32 %t, %stage_base, 0;", "add.u32 %t, %stage_base, 64;", {K::misaligned}},
    {"TMA coordinate not on 16 bytes",
     "shl.b32 %x, %stage, 7;",
     "shl.b32 %x, %stage, 7;\n    add.u32 %x, %x, 8;",
     {K::illegal_instruction}},
    {"TMA of the wrong K panel", "shl.b32 %x, %stage, 7;", "shl.b32 %x, %stage, 6;", {}},
    {"two stages that overlap",
     "mul.lo.u32 %t, %stage, 20480;\n    add.u32 %stage_base, %base, %t;\nEMPTY",
     "mul.lo.u32 %t, %stage, 16384;\n    add.u32 %stage_base, %base, %t;\nEMPTY",
     {K::race, K::uninitialised}},
    {"an mbarrier at an odd word",
     "add.u32 %stage_bar, %bar, %t;\n    mul.lo.u32 %t, %stage, 20480;\n    add.u32 %stage_base, %base, %t;\nEMPTY",
     "add.u32 %stage_bar, %bar, 4;\n    mul.lo.u32 %t, %stage, 20480;\n    add.u32 %stage_base, %base, %t;\nEMPTY",
     {K::misaligned, K::mbarrier_misuse}},
};

}  // namespace

TEST_CASE("mutants: the ring of tcgen05 multiplies is clean and right under every schedule", "[sim][mutation]") {
    check_clean(ptx_of("nvfp4_ring.ptx"), 100, run_ring);
}

TEST_CASE("mutants: fences of the ring", "[sim][mutation]") {
    check_mutants(ptx_of("nvfp4_ring.ptx"), 100, run_ring, kFences);
}

TEST_CASE("mutants: barriers of the ring", "[sim][mutation]") {
    check_mutants(ptx_of("nvfp4_ring.ptx"), 100, run_ring, kProtocol);
}

TEST_CASE("mutants: descriptors of the ring", "[sim][mutation]") {
    check_mutants(ptx_of("nvfp4_ring.ptx"), 100, run_ring, kDescriptors);
}

TEST_CASE("mutants: tensor memory of the ring", "[sim][mutation]") {
    check_mutants(ptx_of("nvfp4_ring.ptx"), 100, run_ring, kTensorMemory);
}

TEST_CASE("mutants: addresses of the ring", "[sim][mutation]") {
    check_mutants(ptx_of("nvfp4_ring.ptx"), 100, run_ring, kAccesses);
}
