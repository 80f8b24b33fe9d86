// Mutants of kernels without tensor memory: wgmma, a mailbox in global memory, dependent launch, warp instructions.
#include <numeric>

#include "format/number.hpp"
#include "sim/engine/tensor_map.hpp"
#include "sim/mutation.hpp"
#include "sim/run_ptx.hpp"

using namespace nvfp4r::sim;
using namespace nvfp4r::sim::test;

namespace {

using K = FindingKind;

// bf16 holds every integer up to 256: the sums below are exact in any order.
uint16_t bf16_of(int value) {
    return static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16);
}

Outcome run_tile(const std::string& ptx, const GpuConfig& config) {
    constexpr uint32_t kM = 64, kN = 8, kK = 64, kThreads = 128, kShared = 9216;
    const auto a_of = [](uint32_t m, uint32_t k) { return static_cast<int>((m * 5 + k * 3) % 17) - 8; };
    const auto b_of = [](uint32_t n, uint32_t k) { return static_cast<int>((n * 7 + k) % 13) - 6; };
    std::vector<uint16_t> a, b;
    for (uint32_t m = 0; m < kM; ++m)
        for (uint32_t k = 0; k < kK; ++k) a.push_back(bf16_of(a_of(m, k)));
    for (uint32_t n = 0; n < kN; ++n)
        for (uint32_t k = 0; k < kK; ++k) b.push_back(bf16_of(b_of(n, k)));
    std::vector<float> want;
    for (uint32_t thread = 0; thread < kThreads; ++thread)
        for (uint32_t i = 0; i < 4; ++i) {  // PTX ISA 9.7.15.5.1.1.1, the D fragment
            const uint32_t lane = thread % 32;
            const uint32_t m = thread / 32 * 16 + lane / 4 + i / 2 * 8, n = lane % 4 * 2 + i % 2;
            int sum = 0;
            for (uint32_t k = 0; k < kK; ++k) sum += a_of(m, k) * b_of(n, k);
            want.push_back(static_cast<float>(sum));
        }
    Bench bench(config);
    const uint64_t in = bench.buffer(b, "B"), out = bench.room(want.size() * 4, "result");
    GridLaunch launch = bench.launch_of(ptx, {kThreads, 1, 0, kShared}, {in, out}, "tile");
    const uint64_t dims[] = {kK, kM}, strides[] = {kK * 2};
    const uint32_t box[] = {kK, kM}, steps[] = {1, 1};
    TensorMapRequest request;
    request.type = 9;  // BFLOAT16
    request.rank = 2;
    request.address = bench.buffer(a, "A");
    request.dims = dims;
    request.strides = strides;
    request.box = box;
    request.element_strides = steps;
    request.swizzle = 3;  // 128 bytes
    TensorMap map{};
    REQUIRE(encode_tensor_map(request, config.sm, map).empty());
    launch.params.resize(64);
    const auto* bytes = reinterpret_cast<const uint8_t*>(&map);
    launch.params.insert(launch.params.end(), bytes, bytes + sizeof(map));
    const GridResult run = bench.gpu().run(std::span(&launch, 1)).front();
    return {run.ok, run.finding, bench.read<float>(out, want.size()) == want};
}

Outcome run_mailbox(const std::string& ptx, const GpuConfig& config) {
    std::vector<uint32_t> source(32);
    std::iota(source.begin(), source.end(), 500u);
    Bench bench(config);
    const uint64_t in = bench.buffer(source, "source"), box = bench.room(128, "box");
    const uint64_t flag = bench.buffer(std::vector<uint32_t>(2), "flag"), out = bench.room(128, "result");
    const GridLaunch launch = bench.launch_of(ptx, {32, 2, 0, 0}, {in, box, flag, out}, "mailbox");
    const GridResult run = bench.gpu().run(std::span(&launch, 1)).front();
    const bool counted = bench.read<uint32_t>(flag, 2) == std::vector<uint32_t>{1, 2};
    return {run.ok, run.finding, counted && bench.read<uint32_t>(out, 32) == source};
}

Outcome run_dependent(const std::string& ptx, const GpuConfig& config) {
    std::vector<uint32_t> source(32), want;
    std::iota(source.begin(), source.end(), 40u);
    for (const uint32_t value : source) want.push_back(3 * value);
    Bench bench(config);
    const uint64_t in = bench.buffer(source, "source"), doubled = bench.room(128, "doubled");
    const uint64_t out = bench.room(128, "result");
    std::vector<GridLaunch> grids{bench.launch_of(ptx, {}, {in, doubled}, "doubles"),
                                  bench.launch_of(ptx, {}, {doubled, in, out}, "adds")};
    grids[1].after = {0};
    grids[1].programmatic = true;
    const std::vector<GridResult> runs = bench.gpu().run(grids);
    const GridResult& run = runs[0].ok ? runs[1] : runs[0];
    return {run.ok, run.finding, bench.read<uint32_t>(out, 32) == want};
}

Outcome run_reverse(const std::string& ptx, const GpuConfig& config) {
    std::vector<uint32_t> in(64), reversed, want;
    for (uint32_t i = 0; i < in.size(); ++i) in[i] = i * i % 101 * 3;
    reversed.assign(in.rbegin(), in.rend());
    uint32_t most[2] = {};
    const auto pair_sum = [&](uint32_t thread) { return reversed[thread] + reversed[thread ^ 16u]; };
    for (uint32_t thread = 0; thread < 64; ++thread)
        most[thread / 32] = std::max(most[thread / 32], pair_sum(thread) + pair_sum(thread ^ 8u));
    for (uint32_t warp = 0; warp < 2; ++warp) {
        const auto first = reversed.begin() + warp * 32;
        const auto votes = std::count_if(first, first + 32, [&](uint32_t value) { return most[warp] > value; });
        for (uint32_t lane = 0; lane < 32; ++lane)
            want.push_back(first[lane] + static_cast<uint32_t>(votes) + (warp == 0 ? most[1] : 0));
    }
    Bench bench(config);
    const uint64_t from = bench.buffer(in, "in"), to = bench.room(256, "out");
    const GridLaunch launch = bench.launch_of(ptx, {64, 1, 0, 0}, {from, to}, "reverse");
    const GridResult run = bench.gpu().run(std::span(&launch, 1)).front();
    return {run.ok, run.finding, bench.read<uint32_t>(to, 64) == want};
}

const std::string kADesc = "or.b64 %a_desc, %wide, 0x4000004000000000;";

const std::vector<Mutation> kTile = {
    {"no wgmma.fence", "wgmma.fence.sync.aligned;", "", {K::wgmma_fence}},
    {"no wait_group", "wgmma.wait_group.sync.aligned 0;", "", {K::pending_register}},
    {"wait_group leaves one group",
     "wgmma.wait_group.sync.aligned 0;",
     "wgmma.wait_group.sync.aligned 1;",
     {K::pending_register}},
    {"no commit_group", "wgmma.commit_group.sync.aligned;", "", {K::pending_register}},
    {"an accumulator written between multiplies",
     "wgmma.commit_group.sync.aligned;",
     "mov.f32 %d1, 0f3f800000;\n    wgmma.commit_group.sync.aligned;",
     {K::pending_register, K::wgmma_fence}},
    {"C28 no fence.proxy.async", "fence.proxy.async.shared::cta;", "", {K::proxy_race}},
    {"no barrier after the generic writes", "bar.sync 0;", "", {K::race, K::mbarrier_misuse, K::uninitialised}},
    {"no wait for A",
     "FULL:\n    mbarrier.try_wait.parity.shared::cta.b64 %done, [barrier], 0;\n    @!%done bra FULL;",
     "",
     {K::race, K::uninitialised}},
    {"a tcgen05 descriptor", kADesc, "or.b64 %a_desc, %wide, 0x4000404000000000;", {K::illegal_descriptor}},
    {"tcgen05's code of the 128-byte swizzle", kADesc, "or.b64 %a_desc, %wide, 0x8000004000000000;", {}},
    {"reserved bit 61", kADesc, "or.b64 %a_desc, %wide, 0x6000004000000000;", {K::illegal_descriptor}},
    {"A past the end of shared memory", kADesc, "or.b64 %a_desc, %wide, 0x40003fff00000000;", {K::out_of_bounds}},
    {"C13 B starts 128 bytes late",
     "add.u64 %wide, %wide, 512;",
     "add.u64 %wide, %wide, 520;",
     {K::out_of_bounds, K::uninitialised}},
    {"one warp of the group leaves",
     "wgmma.fence.sync.aligned;",
     "setp.ge.u32 %skip, %thread, 96;\n    @%skip exit;\n    wgmma.fence.sync.aligned;",
     {K::divergence, K::deadlock, K::illegal_instruction}},
    {"wgmma in half a warp",
     "wgmma.fence.sync.aligned;",
     "and.b32 %t, %thread, 16;\n    setp.ne.u32 %skip, %t, 0;\n    @%skip exit;\n    wgmma.fence.sync.aligned;",
     {K::divergence}},
    {"K steps of 16 bytes",
     "add.u64 %b_desc, %b_desc, 2;\n    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%d0, %d1, %d2, %d3}, "
     "%a_desc, %b_desc, 1, 1, 1, 0, 0;  // step 1",
     "add.u64 %b_desc, %b_desc, 1;\n    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%d0, %d1, %d2, %d3}, "
     "%a_desc, %b_desc, 1, 1, 1, 0, 0;  // step 1",
     {}},
};

const std::string kFlagStore = "st.relaxed.gpu.global.u32 [%signal], 1;";
const std::string kPoll = "ld.acquire.gpu.global.u32 %seen, [%signal];";
const std::string kCount = "atom.acq_rel.gpu.global.add.u32 %count, [%signal+4], 1;";

const std::vector<Mutation> kMailbox = {
    {"no fence before the flag", "fence.acq_rel.gpu;", "", {K::race}},
    {"a fence of CTA scope", "fence.acq_rel.gpu;", "fence.acq_rel.cta;", {K::race}},
    {"a weak store of the flag", kFlagStore, "st.global.u32 [%signal], 1;", {K::race}},
    {"a flag of CTA scope", kFlagStore, "st.relaxed.cta.global.u32 [%signal], 1;", {K::race}},
    {"a relaxed poll", kPoll, "ld.relaxed.gpu.global.u32 %seen, [%signal];", {K::race}},
    {"a weak poll", kPoll, "ld.global.u32 %seen, [%signal];", {K::race}},
    {"a poll of CTA scope", kPoll, "ld.acquire.cta.global.u32 %seen, [%signal];", {K::race}},
    {"a count of CTA scope", kCount, "atom.acq_rel.cta.global.add.u32 %count, [%signal+4], 1;", {K::race}},
    {"the flag is never raised", kFlagStore, "", {K::deadlock}},
    {"the flag's neighbour is raised", kFlagStore, "st.relaxed.gpu.global.u32 [%signal+8], 1;", {K::out_of_bounds}},
    {"the flag is raised before the box is full", "bar.sync 0;  // filled", "", {K::race, K::uninitialised}},
    {"threads that did not wait read the box", "bar.sync 0;  // seen", "", {K::race, K::uninitialised}},
    {"the poll does not repeat", "@%again bra POLL;", "", {K::race, K::uninitialised}},
    {"a count that is not atomic",
     kCount,
     "ld.global.u32 %count, [%signal+4];\n    add.u32 %count, %count, 1;\n    st.global.u32 [%signal+4], %count;",
     {K::race}},
    {"box past its end", "st.global.u32 [%post], %value;", "st.global.u32 [%post+4], %value;", {K::out_of_bounds}},
    {"box before its start", "st.global.u32 [%post], %value;", "st.global.u32 [%post+-4], %value;", {K::out_of_bounds}},
    {"misaligned box", "st.global.u32 [%post], %value;", "st.global.u32 [%post+2], %value;", {K::misaligned}},
    {"half the words", "st.global.u32 [%post], %value;", "st.global.u16 [%post], %value;", {K::uninitialised}},
};

const std::vector<Mutation> kDependent = {
    {"no griddepcontrol.wait", "griddepcontrol.wait;", "", {K::pdl_order, K::race, K::uninitialised}},
    {"griddepcontrol.wait after the load",
     "griddepcontrol.wait;\n    ld.global.u32 %value, [%from];",
     "ld.global.u32 %value, [%from];\n    griddepcontrol.wait;",
     {K::pdl_order, K::race, K::uninitialised}},
};

const std::vector<Mutation> kReverse = {
    {"a wait on a phase two behind",
     "mbarrier.arrive.shared::cta.b64 %state, [meeting];",
     "mbarrier.arrive.shared::cta.b64 %ignored, [meeting];",
     {K::stale_phase}},
    {"C31 a live mbarrier initialised again",
     "ROUND:\n",
     "ROUND:\n    @%first mbarrier.init.shared::cta.b64 [meeting], 64;\n",
     {K::mbarrier_misuse}},
    {"C31 a waiter's mbarrier invalidated",
     "MEET:\n",
     "    @%first mbarrier.inval.shared::cta.b64 [meeting];\nMEET:\n",
     {K::mbarrier_misuse, K::race}},
    {"an mbarrier that was never initialised",
     "@%first mbarrier.init.shared::cta.b64 [meeting], 64;",
     "",
     {K::mbarrier_misuse}},
    {"arrivals of twice the count",
     "mbarrier.arrive.shared::cta.b64 %state, [meeting];",
     "mbarrier.arrive.shared::cta.b64 %state, [meeting], 65;",
     {K::mbarrier_overflow}},
    {"no bar.sync", "bar.sync 0;", "", {K::race, K::uninitialised}},
    {"bar.sync in one warp",
     "bar.sync 0;",
     "setp.ne.u32 %upper, %warp, 0;\n    @%upper bar.sync 0;",
     {K::deadlock, K::race, K::uninitialised}},
    {"bar.sync by half a warp",
     "bar.sync 0;",
     "and.b32 %t, %lane, 1;\n    setp.ne.u32 %odd, %t, 0;\n    @%odd bar.sync 0;",
     {K::divergence}},
    {"a shuffle of an absent lane",
     "shfl.sync.bfly.b32 %other, %value, 16, 31, 0xffffffff;",
     "setp.ne.u32 %odd, %lane, 7;\n    @%odd shfl.sync.bfly.b32 %other, %value, 16, 31, 0xffffffff;",
     {K::divergence, K::deadlock, K::illegal_instruction, K::uninitialised}},
    {"a shuffle mask without its own lane",
     "shfl.sync.bfly.b32 %other, %value, 16, 31, 0xffffffff;",
     "shfl.sync.bfly.b32 %other, %value, 16, 31, 0x0000ffff;",
     {K::divergence, K::illegal_instruction}},
    {"a vote mask without its own lane",
     "vote.sync.ballot.b32 %votes, %odd, 0xffffffff;",
     "vote.sync.ballot.b32 %votes, %odd, 0x7fffffff;",
     {K::divergence, K::illegal_instruction}},
    {"no barrier before the sum is taken", "barrier.sync.aligned 1, 64;  // take", "", {K::race, K::uninitialised}},
    {"no arrive of the other warp", "bar.arrive 1, 64;  // hand", "", {K::deadlock}},
    {"a named barrier of different sizes",
     "bar.arrive 1, 64;  // hand",
     "bar.arrive 1, 96;",
     {K::deadlock, K::illegal_instruction}},
    {"a named barrier of another number", "bar.arrive 1, 64;  // hand", "bar.arrive 2, 64;", {K::deadlock}},
    {"the sum of an unwritten word", "@%leader st.shared.u32 [%at], %other;", "", {K::uninitialised}},
    {"the leader of the wrong warp", "mov.u32 %at, sums;", "mov.u32 %at, words;", {K::race, K::uninitialised}},
    {"shuffle distance",
     "shfl.sync.bfly.b32 %t, %other, 8, 31, 0xffffffff;",
     "shfl.sync.bfly.b32 %t, %other, 4, 31, 0xffffffff;",
     {}},
};

}  // namespace

TEST_CASE("mutants: the kernels are clean and right under every schedule", "[sim][mutation]") {
    SECTION("wgmma") {
        check_clean(ptx_of("wgmma_tile.ptx"), 90, run_tile);
    }
    SECTION("mailbox") {
        check_clean(ptx_of("mailbox.ptx"), 90, run_mailbox);
    }
    SECTION("dependent launch") {
        check_clean(ptx_of("dependent_launch.ptx"), 90, run_dependent);
    }
    SECTION("warp exchange") {
        check_clean(ptx_of("warp_exchange.ptx"), 90, run_reverse);
    }
}

TEST_CASE("mutants: wgmma", "[sim][mutation]") {
    check_mutants(ptx_of("wgmma_tile.ptx"), 90, run_tile, kTile);
}

TEST_CASE("mutants: mailbox in global memory", "[sim][mutation]") {
    check_mutants(ptx_of("mailbox.ptx"), 90, run_mailbox, kMailbox);
}

TEST_CASE("mutants: dependent launch", "[sim][mutation]") {
    check_mutants(ptx_of("dependent_launch.ptx"), 90, run_dependent, kDependent);
}

TEST_CASE("mutants: exchange of two warps", "[sim][mutation]") {
    check_mutants(ptx_of("warp_exchange.ptx"), 90, run_reverse, kReverse);
}
