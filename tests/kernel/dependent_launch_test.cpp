// Programmatic dependent launch: chains of launches of which each starts before the one in front has ended. Every launch has
// outputs of its own, so that none hides another's mistake.
#include <catch2/catch.hpp>

#include "device_call.hpp"
#include "gpu_case.hpp"
#include "sim/driver/sim_driver.hpp"

using namespace nvfp4r;
using namespace nvfp4r::test;

namespace {

/// Lets its dependents start, waits for what it depends on itself, takes its time, and copies words.
constexpr const char* kProducer = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry produce(.param .u64 to, .param .u64 from, .param .u32 words, .param .u32 turns) {
    .reg .b64 %rd<4>; .reg .b32 %r<8>; .reg .pred %p<3>;
    griddepcontrol.launch_dependents;
    griddepcontrol.wait;
    ld.param.u64 %rd1, [to]; ld.param.u64 %rd2, [from];
    ld.param.u32 %r1, [words]; ld.param.u32 %r2, [turns];
    mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;
    mad.lo.u32 %r3, %r3, %r4, %r5;
    setp.ge.u32 %p1, %r3, %r1;
    @%p1 ret;
turn:
    sub.u32 %r2, %r2, 1;
    setp.ne.u32 %p2, %r2, 0;
    @%p2 bra turn;
    mul.wide.u32 %rd3, %r3, 4;
    add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;
    ld.global.u32 %r6, [%rd2];
    st.global.u32 [%rd1], %r6;
    ret;
}
)";

/// Who gives a launch its tokens.
enum class Source {
    own,     // each launch reads a buffer that nothing writes
    copy,    // all read one buffer; a copy of the driver fills it before every other launch
    foreign  // all read one buffer; a kernel of somebody else's fills it before each launch, inside the chain
};

struct Chain {
    nvfp4r_device device;
    uint32_t experts, hidden, top_k, rounds, turns;
    std::vector<int64_t> tokens = {1, 16, 70};
    bool captured = false;  // into a graph, which is replayed
};

class Producer {
  public:
    explicit Producer(const TestGpu& gpu) : api_(gpu.api()) {
        check(api_, api_.cuModuleLoadData(&module_, kProducer), "cuModuleLoadData");
        check(api_, api_.cuModuleGetFunction(&function_, module_, "produce"), "cuModuleGetFunction");
    }
    ~Producer() { api_.cuModuleUnload(module_); }
    Producer(const Producer&) = delete;
    Producer& operator=(const Producer&) = delete;

    void copy(CUdeviceptr to, CUdeviceptr from, uint32_t words, uint32_t turns, CUstream stream) const {
        constexpr uint32_t kThreads = 256;
        void* parameters[] = {&to, &from, &words, &turns};
        CUlaunchAttribute attribute{};
        attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attribute.value.programmaticStreamSerializationAllowed = 1;
        CUlaunchConfig config{};
        config.gridDimX = (words + kThreads - 1) / kThreads;
        config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
        config.blockDimX = kThreads;
        config.hStream = stream;
        config.attrs = &attribute;
        config.numAttrs = 1;
        check(api_, api_.cuLaunchKernelEx(&config, function_, parameters, nullptr), "cuLaunchKernelEx");
    }

  private:
    const DriverApi& api_;
    CUmodule module_ = nullptr;
    CUfunction function_ = nullptr;
};

/// Runs a chain of `rounds` launches over three sets of tokens in turn; the rounds whose answers are not what the same
/// tokens give alone.
std::vector<uint32_t> wrong_rounds(const Chain& c, const TestGpu& gpu, Source source, int64_t tokens) {
    constexpr uint32_t kSets = 3;
    const DriverApi& api = gpu.api();
    const Router plain = make_router(c.device, c.experts, c.hidden, c.top_k);
    const Router dependent = make_router(c.device, c.experts, c.hidden, c.top_k, true);
    std::vector<Answer> wanted;
    std::vector<DeviceBuffer> sets;
    for (uint32_t seed = 1; seed <= kSets; ++seed) {
        const auto rows = random_rows(tokens, c.hidden, seed);
        wanted.push_back(route_host(plain.get(), rows, tokens, c.top_k));
        sets.push_back(upload(gpu.context, std::span(rows)));
    }
    const auto slots = static_cast<uint64_t>(tokens) * c.top_k;
    const DeviceBuffer x(gpu.context, sets[0].bytes()), weights(gpu.context, c.rounds * slots * 4),
        ids(gpu.context, c.rounds * slots * 4);
    check(api, api.cuMemsetD32(weights.address(), 0x7fc0dead, weights.bytes() / 4), "cuMemsetD32");
    check(api, api.cuMemsetD32(ids.address(), 0x7ffffff0, ids.bytes() / 4), "cuMemsetD32");
    route_host(dependent.get(), random_rows(tokens, c.hidden, 1), tokens, c.top_k);  // compiles: nothing waits later
    check(api, api.cuCtxSynchronize(), "cuCtxSynchronize");

    const Stream stream(gpu.context);
    const Producer producer(gpu);
    nvfp4r_call call = NVFP4R_CALL_INIT;
    call.tokens = tokens;
    call.memory = NVFP4R_MEMORY_DEVICE;
    call.hidden_type = NVFP4R_BF16;
    std::vector<uint32_t> set_of(c.rounds);
    const auto launch_all = [&](CUstream on) {
        call.stream = on;
        for (uint32_t i = 0; i < c.rounds; ++i) {
            set_of[i] = source == Source::copy ? i / 2 % kSets : i % kSets;
            const DeviceBuffer& from = sets[set_of[i]];
            if (source == Source::copy && i % 2 == 0)
                check(api, api.cuMemcpyDtoDAsync(x.address(), from.address(), x.bytes(), on), "cuMemcpyDtoDAsync");
            if (source == Source::foreign)
                producer.copy(x.address(), from.address(), static_cast<uint32_t>(x.bytes() / 4), c.turns, on);
            call.hidden = source == Source::own ? from.as<void>() : x.as<void>();
            call.weights = reinterpret_cast<void*>(weights.address() + i * slots * 4);
            call.ids = reinterpret_cast<void*>(ids.address() + i * slots * 4);
            REQUIRE(nvfp4r_route(dependent.get(), &call) == NVFP4R_OK);
        }
    };
    if (c.captured) {
        const CUgraphExec graph = capture(gpu, launch_all);
        for (uint32_t replay = 0; replay < 2; ++replay)
            check(api, api.cuGraphLaunch(graph, stream.handle), "cuGraphLaunch");
        check(api, api.cuStreamSynchronize(stream.handle), "cuStreamSynchronize");
        check(api, api.cuGraphExecDestroy(graph), "cuGraphExecDestroy");
    } else {
        launch_all(stream.handle);
    }
    INFO(sim::driver::last_report());
    REQUIRE(api.cuCtxSynchronize() == CUDA_SUCCESS);
    Answer all{std::vector<float>(c.rounds * slots), std::vector<int32_t>(c.rounds * slots)};
    check(api, api.cuMemcpyDtoH(all.weights.data(), weights.address(), weights.bytes()), "cuMemcpyDtoH");
    check(api, api.cuMemcpyDtoH(all.ids.data(), ids.address(), ids.bytes()), "cuMemcpyDtoH");
    std::vector<uint32_t> wrong;
    for (uint32_t i = 0; i < c.rounds; ++i) {
        const Answer& right = wanted[set_of[i]];
        if (!std::equal(right.weights.begin(), right.weights.end(),
                        all.weights.begin() + static_cast<long>(i * slots)) ||
            !std::equal(right.ids.begin(), right.ids.end(), all.ids.begin() + static_cast<long>(i * slots)))
            wrong.push_back(i);
    }
    return wrong;
}

void check_chains(const Chain& c, const TestGpu& gpu) {
    for (const int64_t tokens : c.tokens)
        for (const Source source : {Source::own, Source::copy, Source::foreign}) {
            INFO(tokens << " tokens, source " << static_cast<int>(source));
            CHECK(wrong_rounds(c, gpu, source, tokens) == std::vector<uint32_t>());
        }
}

void check_on_gpu(uint32_t rounds, bool captured = false) {
    if (const std::string missing = cuda_missing(); !missing.empty()) {
        WARN("skipped: " << missing);
        return;
    }
    const TestGpu gpu;
    if (gpu.api().simulated)
        check_chains({NVFP4R_DEVICE_CUDA, 64, 512, 8, 4, 50, {1, 16, 70}, captured}, gpu);
    else
        check_chains({NVFP4R_DEVICE_CUDA, 256, 2048, 8, rounds, 5000, {1, 16, 70}, captured}, gpu);
}

void check_on_simulator(sim::Policy policy, uint64_t seed, const Chain& chain) {
    INFO("policy " << static_cast<int>(policy) << ", seed " << seed);
    sim::GpuConfig config = sim::GpuConfig::for_sm(90);
    config.policy = policy;
    config.seed = seed;
    sim::driver::restart_driver({config});
    check(sim_driver(), sim_driver().cuInit(0), "cuInit");
    const char* const kWaits = "grid dependency waits";
    const uint64_t before = sim::driver::run_totals().counters[kWaits];
    check_chains(chain, TestGpu(sim_driver()));
    CHECK(sim::driver::run_totals().counters[kWaits] > before);  // some launch was there before its predecessor ended
}

}  // namespace

TEST_CASE("C37 A64 launches that depend programmatically on each other stay right", "[kernel][cuda][pdl]") {
    check_on_gpu(300);
}
TEST_CASE("C37 A62 captured launches that depend programmatically on each other stay right",
          "[kernel][cuda][pdl][graph]") {
    check_on_gpu(100, true);
}
TEST_CASE("C37 A64 long chains of dependent launches stay right", "[kernel][cuda][pdl][.long]") {
    check_on_gpu(20000);
}

TEST_CASE("C37 A64 dependent launches stay right on the simulator", "[kernel][sim]") {
    for (const bool captured : {false, true})
        check_on_simulator(sim::Policy::random, 1, {NVFP4R_DEVICE_SIM, 32, 256, 4, 3, 20, {1, 16}, captured});
}
TEST_CASE("C37 A64 dependent launches stay right under every scheduling policy", "[kernel][sim][.long]") {
    for (const sim::Policy policy : {sim::Policy::round_robin, sim::Policy::eager, sim::Policy::late,
                                     sim::Policy::random, sim::Policy::hold_warp, sim::Policy::hold_cta})
        for (uint64_t seed = 1; seed <= 2; ++seed)
            check_on_simulator(policy, seed, {NVFP4R_DEVICE_SIM, 64, 512, 8, 4, 50});
}
