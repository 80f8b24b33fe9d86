// Kernels that must run at the same time to end at all: the driver may not put them one behind the other.
#include "driver_session.hpp"

using namespace nvfp4r;
using namespace nvfp4r::test;
using Catch::Matchers::Contains;

namespace {

// wait_for ends when *flag is set; raise sets it. `early` lets dependents start and then waits for one of them.
constexpr const char* kHandshake = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry wait_for(.param .u64 flag) {
    .reg .b64 %rd<2>; .reg .b32 %r<2>; .reg .pred %p<2>;
    ld.param.u64 %rd1, [flag];
again:
    ld.acquire.gpu.global.u32 %r1, [%rd1];
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra again;
    ret;
}
.visible .entry early(.param .u64 flag) {
    .reg .b64 %rd<2>; .reg .b32 %r<2>; .reg .pred %p<2>;
    griddepcontrol.launch_dependents;
    ld.param.u64 %rd1, [flag];
again:
    ld.acquire.gpu.global.u32 %r1, [%rd1];
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra again;
    ret;
}
.visible .entry raise(.param .u64 flag) {
    .reg .b64 %rd<2>; .reg .b32 %r<2>;
    ld.param.u64 %rd1, [flag];
    mov.u32 %r1, 1;
    st.release.gpu.global.u32 [%rd1], %r1;
    ret;
}
)";

struct Handshake : SimSession {
    CUdeviceptr flag = words(1);

    static std::vector<sim::GpuConfig> impatient() {
        auto configs = gpus({100});
        configs[0].spin_limit = 50'000;  // a deadlock is called one sooner than by default
        return configs;
    }
    Handshake() : SimSession(impatient()) {
        ok(api.cuModuleLoadData(&module, kHandshake));
        ok(api.cuMemsetD32(flag, 0, 1));
    }
    CUresult launch(const char* name, CUstream stream, bool programmatic = false) {
        CUlaunchAttribute attribute = {};
        attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attribute.value.programmaticStreamSerializationAllowed = programmatic ? 1 : 0;
        CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, stream, &attribute, 1};
        void* parameters[] = {&flag};
        return api.cuLaunchKernelEx(&config, kernel(name), parameters, nullptr);
    }
};

}  // namespace

TEST_CASE("kernels of independent streams run at the same time", "[sim][driver]") {
    Handshake session;
    const CUstream first = session.stream(), second = session.stream();
    session.ok(session.launch("wait_for", first));
    session.ok(session.launch("raise", second));
    session.ok(session.api.cuCtxSynchronize());
    CHECK(session.word(session.flag) == 1);
}

TEST_CASE("in one stream the same kernels are a deadlock, which is reported", "[sim][driver]") {
    Handshake session;
    const CUstream stream = session.stream();
    session.ok(session.launch("wait_for", stream));
    session.ok(session.launch("raise", stream));
    CHECK(session.api.cuCtxSynchronize() == CUDA_ERROR_LAUNCH_TIMEOUT);
    CHECK_THAT(sim::driver::last_report(), Contains("wait_for") && Contains("deadlock"));
}

TEST_CASE("a programmatic launch overlaps the kernel that triggered it, in a stream and in a graph", "[sim][driver]") {
    Handshake session;
    const DriverApi& api = session.api;
    const CUstream stream = session.stream();
    SECTION("in a stream") {
        session.ok(session.launch("early", stream));
        session.ok(session.launch("raise", stream, true));
    }
    SECTION("in a graph") {
        session.kernel("early");
        CUgraph graph = nullptr;
        CUgraphExec exec = nullptr;
        session.ok(api.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        session.ok(session.launch("early", stream));
        session.ok(session.launch("raise", stream, true));
        session.ok(api.cuStreamEndCapture(stream, &graph));
        session.ok(api.cuGraphInstantiateWithFlags(&exec, graph, 0));
        session.ok(api.cuGraphLaunch(exec, stream));
    }
    session.ok(api.cuStreamSynchronize(stream));
    CHECK(session.word(session.flag) == 1);
}
