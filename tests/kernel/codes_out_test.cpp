// The tokens' codes as an output, at any address: a byte tensor owes no alignment.
#include <catch2/catch.hpp>
#include <vector>

#include "device_call.hpp"
#include "gpu_case.hpp"
#include "sim/driver/sim_driver.hpp"

using namespace nvfp4r;
using namespace nvfp4r::test;

namespace {

constexpr uint32_t kCodesTokens = 3, kCodesHidden = 128, kCodesExperts = 32, kCodesTopK = 4;
constexpr size_t kRoom = 16;  // around the codes
constexpr uint8_t kUnwritten = 0xee;

/// The memory around and of the codes of one call, which start `offset` bytes in.
std::vector<uint8_t> memory_with_codes(nvfp4r_router* router, const std::shared_ptr<const GpuContext>& context,
                                       size_t offset) {
    DeviceCall call(context, kCodesTokens, kCodesHidden, kCodesTopK);
    call.fill(random_rows(kCodesTokens, kCodesHidden, 5));
    std::vector<uint8_t> host(kCodesTokens * kCodesHidden / 2 + 2 * kRoom, kUnwritten);
    const DeviceBuffer codes(context, host.size()), scales(context, kCodesTokens * kCodesHidden / 16),
        globals(context, kCodesTokens * sizeof(float));
    const ContextScope scope(*context);
    check(context->api(), context->api().cuMemsetD8(codes.address(), kUnwritten, host.size()), "cuMemsetD8");
    check(context->api(), context->api().cuCtxSynchronize(), "cuCtxSynchronize");
    call.call.hidden_codes_out = codes.as<uint8_t>() + offset;
    call.call.hidden_scales_out = scales.as<uint8_t>();
    call.call.hidden_global_scales_out = globals.as<float>();
    const Stream stream(context);
    const nvfp4r_status routed = call.route(router, stream.handle);
    INFO(nvfp4r_last_error());
    REQUIRE(routed == NVFP4R_OK);
    call.answer();
    check(context->api(), context->api().cuMemcpyDtoH(host.data(), codes.address(), host.size()), "cuMemcpyDtoH");
    return host;
}

}  // namespace

TEST_CASE("tokens' codes are the same bytes wherever they go, and nothing beside them is written", "[kernel][sim]") {
    for (const uint32_t sm : {90u, 100u}) {
        sim::driver::restart_driver({sim::GpuConfig::for_sm(sm)});
        nvfp4r_router_options options = NVFP4R_ROUTER_OPTIONS_INIT;
        options.device = NVFP4R_DEVICE_SIM;
        const nvfp4r_settings settings =
            gpu_case(kCodesExperts, kCodesHidden, kCodesTopK, NVFP4R_SCORE_SQRTSOFTPLUS, NVFP4R_PRECISION_NVFP4)
                .settings;
        const Router router = random_router(settings, options);
        const auto context = std::make_shared<GpuContext>(sim_driver(), 0);
        const std::vector<uint8_t> aligned = memory_with_codes(router.get(), context, kRoom);
        const std::vector<uint8_t> codes(aligned.begin() + kRoom, aligned.end() - kRoom);
        for (const size_t offset : {kRoom, kRoom + 1, kRoom + 4}) {
            INFO("sm " << sm << ", offset " << offset);
            std::vector<uint8_t> expected(aligned.size(), kUnwritten);
            std::copy(codes.begin(), codes.end(), expected.begin() + static_cast<std::ptrdiff_t>(offset));
            CHECK(memory_with_codes(router.get(), context, offset) == expected);
        }
    }
}
