#include "device_call.hpp"

#include <catch2/catch.hpp>
#include <random>

#include "format/number.hpp"
#include "gpu_case.hpp"

namespace nvfp4r::test {

Router make_router(nvfp4r_device device, uint32_t experts, uint32_t hidden, uint32_t top_k, bool programmatic,
                   int ordinal) {
    nvfp4r_router_options options = NVFP4R_ROUTER_OPTIONS_INIT;
    options.device = device;
    options.ordinal = ordinal;
    options.programmatic_launch = programmatic;
    return random_router(gpu_case(experts, hidden, top_k).settings, options);
}

std::vector<uint16_t> random_rows(int64_t tokens, uint32_t hidden, uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<uint16_t> x(static_cast<size_t>(tokens) * hidden);
    for (uint16_t& v : x) v = f32_to_bf16(normal(random));
    return x;
}

Answer route_host(nvfp4r_router* router, const std::vector<uint16_t>& x, int64_t tokens, uint32_t top_k) {
    Answer answer{std::vector<float>(tokens * top_k), std::vector<int32_t>(tokens * top_k)};
    nvfp4r_call call = NVFP4R_CALL_INIT;
    call.tokens = tokens;
    call.hidden = x.data();
    call.hidden_type = NVFP4R_BF16;
    call.weights = answer.weights.data();
    call.ids = answer.ids.data();
    // Catch keeps what INFO says in one place for all threads: nothing is said where all is well.
    if (nvfp4r_route(router, &call) != NVFP4R_OK) FAIL(nvfp4r_last_error());
    return answer;
}

DeviceCall::DeviceCall(std::shared_ptr<const GpuContext> in, int64_t m, uint32_t hidden, uint32_t k)
    : context(std::move(in)),
      tokens(m),
      top_k(k),
      x(context, static_cast<uint64_t>(m) * hidden * 2),
      weights(context, static_cast<uint64_t>(m) * k * 4),
      ids(context, static_cast<uint64_t>(m) * k * 4) {
    call.tokens = m;
    call.memory = NVFP4R_MEMORY_DEVICE;
    call.hidden = x.as<void>();
    call.hidden_type = NVFP4R_BF16;
    call.weights = weights.as<void>();
    call.ids = ids.as<void>();
    poison();
}

void DeviceCall::poison() const {
    const ContextScope scope(*context);
    const DriverApi& api = context->api();
    check(api, api.cuMemsetD32(weights.address(), 0x7fc0dead, weights.bytes() / 4), "cuMemsetD32");
    check(api, api.cuMemsetD32(ids.address(), 0x7ffffff0, ids.bytes() / 4), "cuMemsetD32");
    check(api, api.cuCtxSynchronize(), "cuCtxSynchronize");
}

void DeviceCall::fill(const std::vector<uint16_t>& rows) const {
    const ContextScope scope(*context);
    const DriverApi& api = context->api();
    check(api, api.cuMemcpyHtoD(x.address(), rows.data(), rows.size() * 2), "cuMemcpyHtoD");
    check(api, api.cuCtxSynchronize(), "cuCtxSynchronize");
}

nvfp4r_status DeviceCall::route(nvfp4r_router* router, CUstream stream) {
    call.stream = stream;
    return nvfp4r_route(router, &call);
}

Answer DeviceCall::answer() const {
    const ContextScope scope(*context);
    const DriverApi& api = context->api();
    Answer a{std::vector<float>(tokens * top_k), std::vector<int32_t>(tokens * top_k)};
    check(api, api.cuCtxSynchronize(), "cuCtxSynchronize");
    check(api, api.cuMemcpyDtoH(a.weights.data(), weights.address(), a.weights.size() * 4), "cuMemcpyDtoH");
    check(api, api.cuMemcpyDtoH(a.ids.data(), ids.address(), a.ids.size() * 4), "cuMemcpyDtoH");
    return a;
}

Stream::Stream(std::shared_ptr<const GpuContext> in) : context(std::move(in)) {
    const ContextScope scope(*context);
    check(context->api(), context->api().cuStreamCreate(&handle, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
}

Stream::~Stream() {
    context->api().cuStreamDestroy(handle);
}

}  // namespace nvfp4r::test
