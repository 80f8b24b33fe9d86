// Routers in several contexts and on several GPUs, each in its own whatever is current to the caller; streams that share a
// handle. On a real GPU where there is one, always on the simulator.
#include <catch2/catch.hpp>
#include <optional>
#include <thread>

#include "device_call.hpp"
#include "gpu_case.hpp"
#include "sim/driver/sim_driver.hpp"

using namespace nvfp4r;
using namespace nvfp4r::test;
using Catch::Matchers::Contains;

namespace {

constexpr uint32_t kExperts = 48, kHidden = 256, kTopK = 4;
constexpr int64_t kTokens = 5;

/// A context of the caller's own.
class OwnContext {
  public:
    explicit OwnContext(const DriverApi& api) : api_(api) {
        REQUIRE(api.create_context != nullptr);
        check(api, api.create_context(&handle, nullptr, 0, 0), "cuCtxCreate");
        check(api, api.cuCtxPopCurrent(nullptr), "cuCtxPopCurrent");  // creating makes current
    }
    ~OwnContext() { api_.cuCtxDestroy(handle); }
    OwnContext(const OwnContext&) = delete;
    OwnContext& operator=(const OwnContext&) = delete;
    CUcontext handle = nullptr;

  private:
    const DriverApi& api_;
};

void set_current(const DriverApi& api, CUcontext context) {
    check(api, api.cuCtxSetCurrent(context), "cuCtxSetCurrent");
}
CUcontext current(const DriverApi& api) {
    CUcontext context = nullptr;
    check(api, api.cuCtxGetCurrent(&context), "cuCtxGetCurrent");
    return context;
}

/// A router with a stream and a call, made while `made_in` is current (nullptr: none, so in the primary context).
struct Place {
    Place(nvfp4r_device device, const DriverApi& api, CUcontext made_in, uint32_t seed, int ordinal = 0)
        : rows(random_rows(kTokens, kHidden, seed)) {
        set_current(api, made_in);
        router = make_router(device, kExperts, kHidden, kTopK, false, ordinal);
        context = std::make_shared<GpuContext>(api, ordinal);
        wanted = route_host(router.get(), rows, kTokens, kTopK);
        CHECK(current(api) == made_in);
        set_current(api, nullptr);
        stream.emplace(context);
        call.emplace(context, kTokens, kHidden, kTopK);
        call->fill(rows);
    }

    /// How many of `rounds` calls, in device and in host memory, went wrong or changed the current context.
    uint32_t wrong_calls(uint32_t rounds) {
        const CUcontext before = current(context->api());
        uint32_t wrong = 0;
        for (uint32_t i = 0; i < rounds; ++i) {
            call->poison();
            const bool routed = call->route(router.get(), stream->handle) == NVFP4R_OK;
            wrong += !routed || current(context->api()) != before || call->answer() != wanted;
        }
        return wrong + (route_host(router.get(), rows, kTokens, kTopK) != wanted);
    }

    const std::vector<uint16_t> rows;
    std::shared_ptr<const GpuContext> context;
    Router router;
    Answer wanted;
    std::optional<Stream> stream;
    std::optional<DeviceCall> call;
};

void use_two_contexts(nvfp4r_device device, const DriverApi& api) {
    const OwnContext first_context(api), second_context(api);
    {
        Place primary(device, api, nullptr, 1), first(device, api, first_context.handle, 2),
            second(device, api, second_context.handle, 3);
        CHECK(first.context->handle() == first_context.handle);
        CHECK(second.context->handle() == second_context.handle);
        CHECK(primary.context->handle() != first_context.handle);
        for (const CUcontext caller : {CUcontext{nullptr}, primary.context->handle(), second_context.handle}) {
            set_current(api, caller);
            for (uint32_t round = 0; round < 3; ++round)
                for (Place* place : {&primary, &first, &second}) CHECK(place->wrong_calls(1) == 0);
        }
        set_current(api, nullptr);
        uint32_t wrong = 0;
        std::thread other([&] {
            set_current(api, first_context.handle);
            wrong = second.wrong_calls(20);
        });
        CHECK(first.wrong_calls(20) == 0);
        other.join();
        CHECK(wrong == 0);

        first.call->poison();
        const std::vector<int32_t> poisoned = first.call->answer().ids;
        CHECK(first.call->route(first.router.get(), second.stream->handle) == NVFP4R_INVALID_ARGUMENT);
        CHECK_THAT(nvfp4r_last_error(), Contains("another context"));
        CHECK(first.call->answer().ids == poisoned);
    }
    CHECK(current(api) == nullptr);
}

void use_second_gpu(nvfp4r_device device, const DriverApi& api) {
    Place first(device, api, nullptr, 1), second(device, api, nullptr, 2, 1);
    for (const CUcontext caller : {CUcontext{nullptr}, first.context->handle()}) {
        set_current(api, caller);
        CHECK(second.wrong_calls(2) == 0);
        CHECK(first.wrong_calls(2) == 0);
    }
    set_current(api, nullptr);
}

/// Two threads call one router in the streams behind one handle, which may run at the same time.
void use_thread_streams(nvfp4r_device device, const DriverApi& api) {
    Place place(device, api, nullptr, 1);
    DeviceCall other(place.context, kTokens, kHidden, kTopK);
    other.fill(place.rows);
    for (uint32_t round = 0; round < 20; ++round) {
        nvfp4r_status status = NVFP4R_INTERNAL;
        std::thread([&] { status = other.route(place.router.get(), CU_STREAM_PER_THREAD); }).join();
        CHECK(status == NVFP4R_OK);
        CHECK(place.call->route(place.router.get(), CU_STREAM_PER_THREAD) == NVFP4R_OK);
    }
    INFO(sim::driver::last_report());
    CHECK(other.answer() == place.wanted);
    CHECK(place.call->answer() == place.wanted);
}

/// True when device CUDA has that many GPUs; says why not otherwise.
bool has_gpus(int wanted) {
    int count = 0;
    std::string missing = cuda_missing();
    if (missing.empty()) {
        check(cuda_driver(), cuda_driver().cuDeviceGetCount(&count), "cuDeviceGetCount");
        if (count < wanted) missing = "this machine has " + std::to_string(count) + " GPU";
    }
    if (!missing.empty()) WARN("skipped: " << missing);
    return missing.empty();
}

const DriverApi& simulated_gpus(uint32_t count) {
    sim::GpuConfig config = sim::GpuConfig::for_sm(90);
    config.policy = sim::Policy::random;
    sim::driver::restart_driver(std::vector<sim::GpuConfig>(count, config));
    check(sim_driver(), sim_driver().cuInit(0), "cuInit");
    return sim_driver();
}

}  // namespace

TEST_CASE("C53 routers in two contexts of a GPU work from any thread", "[kernel][cuda][host]") {
    if (has_gpus(1)) use_two_contexts(NVFP4R_DEVICE_CUDA, cuda_driver());
}
TEST_CASE("C53 routers in two contexts of a simulated GPU work from any thread", "[kernel][sim][threads]") {
    use_two_contexts(NVFP4R_DEVICE_SIM, simulated_gpus(1));
}

TEST_CASE("A61 a router on the second GPU works beside one on the first", "[kernel][cuda][host]") {
    if (has_gpus(2)) use_second_gpu(NVFP4R_DEVICE_CUDA, cuda_driver());
}
TEST_CASE("A61 a router on the second simulated GPU works beside one on the first", "[kernel][sim]") {
    use_second_gpu(NVFP4R_DEVICE_SIM, simulated_gpus(2));
}

TEST_CASE("threads may route in their own default streams of a GPU", "[kernel][cuda][host]") {
    if (has_gpus(1)) use_thread_streams(NVFP4R_DEVICE_CUDA, cuda_driver());
}
TEST_CASE("threads may route in their own default streams of a simulated GPU", "[kernel][sim][threads]") {
    use_thread_streams(NVFP4R_DEVICE_SIM, simulated_gpus(1));
}
