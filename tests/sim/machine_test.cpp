#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <set>

#include "run_ptx.hpp"
#include "sim/machine/residency.hpp"

using namespace nvfp4r::sim;
using namespace nvfp4r::sim::test;

namespace {

constexpr Policy kPolicies[] = {Policy::round_robin, Policy::eager,     Policy::late,
                                Policy::random,      Policy::hold_warp, Policy::hold_cta};

GpuConfig config_with(Policy policy, uint64_t seed = 1) {
    GpuConfig config = GpuConfig::for_sm(100);
    config.policy = policy;
    config.seed = seed;
    return config;
}

/// Sums the numbers of the CTA's threads through shared memory and bar.sync.
constexpr const char* kTreeSum = R"(
        mul.lo.u32 %r0, %tid_x, 4;
        mov.u32 %r1, words;
        add.u32 %r0, %r0, %r1;
        st.shared.u32 [%r0], %tid_x;
        mov.u32 %r2, 64;
    again:
        bar.sync 0;
        setp.ge.u32 %p0, %tid_x, %r2;
        @%p0 bra skip;
        mul.lo.u32 %r3, %r2, 4;
        add.u32 %r3, %r3, %r0;
        ld.shared.u32 %r4, [%r3];
        ld.shared.u32 %r5, [%r0];
        add.u32 %r5, %r5, %r4;
        st.shared.u32 [%r0], %r5;
    skip:
        shr.u32 %r2, %r2, 1;
        setp.ne.u32 %p1, %r2, 0;
        @%p1 bra again;
        setp.ne.u32 %p2, %tid_x, 0;
        @%p2 bra done;
        mul.wide.u32 %rd0, %cta_x, 4;
        add.u64 %rd0, %rd0, %a0;
        st.global.u32 [%rd0], %r5;
    done:)";

}  // namespace

TEST_CASE("a right kernel gives the same result under every policy, and the same run for a seed", "[sim]") {
    for (Policy policy : kPolicies)
        for (uint64_t seed : {1, 2}) {
            uint64_t cycles[2], instructions[2];
            for (int repeat = 0; repeat < 2; ++repeat) {
                Bench bench(config_with(policy, seed));
                const uint64_t out = bench.room(4 * 4, "out");
                GridResult result = bench.run(kTreeSum, {128, 4}, {out}, ".shared .align 4 .b8 words[512];");
                INFO(result.finding.text);
                REQUIRE(result.ok);
                CHECK(bench.read<uint32_t>(out, 4) == std::vector<uint32_t>(4, 127 * 128 / 2));
                cycles[repeat] = result.end_cycle;
                instructions[repeat] = result.instructions;
            }
            CHECK(cycles[0] == cycles[1]);
            CHECK(instructions[0] == instructions[1]);
        }
}

TEST_CASE("a missing barrier is a race under every policy", "[sim]") {
    std::string text = kTreeSum;
    text.replace(text.find("bar.sync 0;"), 11, "");
    for (Policy policy : kPolicies) {
        Bench bench(config_with(policy));
        const uint64_t out = bench.room(16, "out");
        GridResult result = bench.run(text, {128, 1}, {out}, ".shared .align 4 .b8 words[512];");
        CHECK((result.finding.kind == FindingKind::race || result.finding.kind == FindingKind::uninitialised));
    }
}

TEST_CASE("C26 C32 an arrive that never comes is a deadlock that names barrier and phase", "[sim]") {
    Bench bench;
    GridResult result = bench.run(R"(
        mov.u32 %r0, mb;
        setp.ne.u32 %p0, %tid_x, 0;
        @%p0 bra ready;
        mbarrier.init.shared::cta.b64 [%r0], 2;
        mbarrier.arrive.shared::cta.b64 _, [%r0];
    ready:
        bar.sync 0;
    wait:
        mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r0], 0;
        @!%p1 bra wait;)",
                                  {64}, {}, ".shared .align 8 .b8 mb[8];");
    REQUIRE_FALSE(result.ok);
    CHECK(result.finding.kind == FindingKind::deadlock);
    CHECK(result.finding.text.find("phase 0, pending 1 of 2") != std::string::npos);
    CHECK(result.finding.text.find("try_wait") != std::string::npos);
}

TEST_CASE("CTAs that poll for one that has no place are a deadlock", "[sim]") {
    GpuConfig config = GpuConfig::for_sm(100);
    config.sms = 1;
    config.spin_limit = 20'000;
    for (bool fits : {true, false}) {
        Bench bench(config);
        const uint64_t count = bench.buffer<uint32_t>({0});
        // A grid barrier of all CTAs; 100 KiB of shared memory each, so two fit.
        GridResult result = bench.run(R"(
            setp.ne.u32 %p0, %tid_x, 0;
            @%p0 bra done;
            atom.acq_rel.gpu.global.add.u32 %r0, [%a0], 1;
            mov.u32 %r2, %nctaid.x;
        poll:
            ld.acquire.gpu.global.u32 %r1, [%a0];
            setp.lt.u32 %p1, %r1, %r2;
            @%p1 bra poll;
        done:)",
                                      {32, fits ? 2u : 3u, 0, 100 * 1024}, {count}, ".shared .align 16 .b8 dummy[16];");
        INFO(result.finding.text);
        CHECK(result.ok == fits);
        if (!fits) {
            CHECK(result.finding.kind == FindingKind::deadlock);
            CHECK(result.finding.text.find("1 of 3 CTAs have not started") != std::string::npos);
        }
    }
}

TEST_CASE("a cluster exchanges data through shared::cluster memory", "[sim]") {
    const char* body = R"(
        mov.u32 %r0, word;
        add.u32 %r1, %cta_x, 100;
        setp.ne.u32 %p0, %tid_x, 0;
        @!%p0 st.shared.u32 [%r0], %r1;
        barrier.cluster.arrive.aligned;
        barrier.cluster.wait.aligned;
        @%p0 bra last;
        mov.u32 %r2, %cluster_ctarank;
        xor.b32 %r2, %r2, 1;
        mapa.shared::cluster.u32 %r3, %r0, %r2;
        ld.shared::cluster.u32 %r4, [%r3];
        mul.wide.u32 %rd0, %cta_x, 4;
        add.u64 %rd0, %rd0, %a0;
        st.global.u32 [%rd0], %r4;
    last:
        barrier.cluster.arrive.aligned;
        barrier.cluster.wait.aligned;)";
    for (Policy policy : kPolicies) {
        Bench bench(config_with(policy));
        const uint64_t out = bench.room(16, "out");
        GridResult result = bench.run(body, {64, 4, 2}, {out}, ".shared .align 4 .b8 word[4];");
        INFO(result.finding.text);
        REQUIRE(result.ok);
        CHECK(bench.read<uint32_t>(out, 4) == std::vector<uint32_t>{101, 100, 103, 102});
    }
    // Without the last barrier a CTA may be gone when its peer reads: some schedule shows it.
    std::string text = body;
    text.erase(text.rfind("barrier.cluster.arrive"));
    std::set<FindingKind> found;
    for (Policy policy : {Policy::hold_cta, Policy::random})
        for (uint64_t seed = 1; seed <= 8; ++seed) {
            Bench bench(config_with(policy, seed));
            const uint64_t out = bench.room(16, "out");
            GridResult result = bench.run(text, {64, 4, 2}, {out}, ".shared .align 4 .b8 word[4];");
            if (!result.ok) found.insert(result.finding.kind);
        }
    CHECK(found == std::set<FindingKind>{FindingKind::exited_cta});
}

TEST_CASE("a launch that cannot be is refused with the limit", "[sim]") {
    Bench bench;
    CHECK(bench.run("", {2048}, {}).finding.kind == FindingKind::launch);
    CHECK(bench.run("", {32, 3, 2}, {}).finding.text.find("not a multiple of the cluster") != std::string::npos);
    CHECK(bench.run("", {32, 1, 0, 228 * 1024}, {}).finding.text.find("232448") != std::string::npos);
}

TEST_CASE("an H200 holds as many clusters as were measured on it", "[sim]") {
    // hopper-facts 4: MaxActiveClusters with 227 KiB a CTA.
    constexpr uint32_t kMeasured[] = {132, 66, 39, 30, 22, 17, 15, 15, 9, 7, 7, 7, 7, 7, 7, 7};
    Bench bench(GpuConfig::for_sm(90));
    GridLaunch launch = bench.launch_of(module_text(90, kernel_text("", 0)), {128}, {});
    launch.dynamic_shared = 227 * 1024;
    launch.explicit_cluster = true;
    for (uint32_t size = 1; size <= 16; ++size) {
        launch.cluster.x = launch.grid.x = size;
        CHECK(max_active_clusters(bench.gpu().config(), launch) == kMeasured[size - 1]);
    }
}

TEST_CASE("an aligned instruction under divergence is reported", "[sim]") {
    Bench bench;
    GridResult result = bench.run("setp.lt.u32 %p0, %tid_x, 16;\n@%p0 bar.sync 0;", {}, {});
    CHECK(result.finding.kind == FindingKind::divergence);
    // Lanes that left early are not missed by bar.sync.
    CHECK(bench.run("setp.lt.u32 %p0, %tid_x, 16;\n@%p0 exit;\nbar.sync 0;", {64}, {}).ok);
}

TEST_CASE("a lane group that spins does not starve the others of its warp", "[sim]") {
    Bench bench;
    const uint64_t flag = bench.buffer<uint32_t>({0, 0});
    // The polling lanes stand at the lower program counter.
    GridResult result = bench.run(R"(
        setp.eq.u32 %p0, %tid_x, 31;
        @%p0 bra raise;
    poll:
        ld.relaxed.gpu.global.u32 %r0, [%a0];
        setp.eq.u32 %p1, %r0, 0;
        @%p1 bra poll;
        bra done;
    raise:
        st.relaxed.gpu.global.u32 [%a0], 1;
    done:)",
                                  {}, {flag});
    INFO(result.finding.text);
    CHECK(result.ok);
}

TEST_CASE("a programmatic grid may start early, and may read only after griddepcontrol.wait", "[sim]") {
    const auto text = [](bool waits) {
        return module_text(100, kernel_text(R"(
            griddepcontrol.launch_dependents;
            mul.wide.u32 %rd0, %tid_x, 4;
            add.u64 %rd0, %rd0, %a0;
            st.global.u32 [%rd0], %tid_x;)",
                                            2, "", "first") +
                                    kernel_text(std::string(waits ? "griddepcontrol.wait;\n" : "") + R"(
            mul.wide.u32 %rd0, %tid_x, 4;
            add.u64 %rd1, %rd0, %a0;
            add.u64 %rd2, %rd0, %a1;
            ld.global.u32 %r0, [%rd1];
            st.global.u32 [%rd2], %r0;)",
                                                2, "", "second"));
    };
    for (bool waits : {true, false})
        for (Policy policy : {Policy::round_robin, Policy::random, Policy::hold_warp}) {
            Bench bench(config_with(policy));
            const uint64_t middle = bench.buffer(std::vector<uint32_t>(64), "middle");
            const uint64_t out = bench.buffer(std::vector<uint32_t>(64), "out");
            std::vector<GridLaunch> batch{bench.launch_of(text(waits), {64}, {middle, out}, "first"),
                                          bench.launch_of(text(waits), {64}, {middle, out}, "second")};
            batch[1].after = {0};
            batch[1].programmatic = true;
            const std::vector<GridResult> results = bench.gpu().run(batch);
            INFO(results[1].finding.text);
            CHECK(results[1].ok == waits);
            if (waits) CHECK(bench.read<uint32_t>(out, 64)[63] == 63);
            if (!waits) CHECK(results[1].finding.kind == FindingKind::pdl_order);
        }
}

TEST_CASE("the trace is JSON with a track for each warp", "[sim]") {
    GpuConfig config = GpuConfig::for_sm(100);
    config.trace_file = std::filesystem::temp_directory_path() / fmt::format("nvfp4r_trace_{}.json", getpid());
    {
        Bench bench(config);
        const uint64_t out = bench.room(16, "out");
        REQUIRE(bench.run(kTreeSum, {128}, {out}, ".shared .align 4 .b8 words[512];").ok);
    }
    std::FILE* file = std::fopen(config.trace_file.c_str(), "r");
    REQUIRE(file);
    std::string text(1 << 20, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
    std::remove(config.trace_file.c_str());
    CHECK(text.find("\"warp 3\"") != std::string::npos);
    CHECK(text.find("bar.sync") != std::string::npos);
    CHECK(text.substr(text.size() - 3) == "]}\n");
}

TEST_CASE("a 16-CTA cluster of 256 threads runs 2,000 instructions each within the time limit", "[sim][.long]") {
    Bench bench;
    const uint64_t out = bench.room(16 * 256 * 4, "out");
    // Time of this process, so that what else the machine does does not count; the run has one thread.
    const std::clock_t start = std::clock();
    GridResult result = bench.run(R"(
        mul.lo.u32 %r0, %tid_x, 4;
        mov.u32 %r1, words;
        add.u32 %r0, %r0, %r1;
        mov.u32 %r2, 0;
        mov.u32 %r3, 1;
        st.shared.u32 [%r0], %r3;
    again:
        bar.sync 0;
        ld.shared.u32 %r4, [%r0];
        mad.lo.u32 %r3, %r4, 3, %r3;
        xor.b32 %r3, %r3, %r2;
        st.shared.u32 [%r0], %r3;
        add.u32 %r2, %r2, 1;
        setp.lt.u32 %p0, %r2, 250;
        @%p0 bra again;
        mad.lo.u32 %r5, %cta_x, 256, %tid_x;
        mul.wide.u32 %rd0, %r5, 4;
        add.u64 %rd0, %rd0, %a0;
        st.global.u32 [%rd0], %r3;)",
                                  {256, 16, 16}, {out}, ".shared .align 4 .b8 words[1024];");
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    INFO(result.finding.text);
    REQUIRE(result.ok);
    std::printf("simulator: %.0f warp instructions a second (%llu in %.2f s)\n",
                static_cast<double>(result.instructions) / seconds,
                static_cast<unsigned long long>(result.instructions), seconds);
    CHECK(result.instructions > 16 * 8 * 2000);
    CHECK(seconds < 2.0);
}
