#include "random_router.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

namespace nvfp4r::test {

Router random_router(const nvfp4r_settings& settings, const nvfp4r_router_options& options) {
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    std::vector<float> weight(size_t{settings.experts} * settings.hidden);
    for (float& v : weight) v = 0.1f * normal(random);
    nvfp4r_gate_desc desc = NVFP4R_GATE_DESC_INIT;
    desc.experts = settings.experts;
    desc.hidden = settings.hidden;
    desc.weight = weight.data();
    desc.weight_type = NVFP4R_F32;
    nvfp4r_gate* gate = nullptr;
    nvfp4r_router* router = nullptr;
    REQUIRE(nvfp4r_gate_create(&desc, &gate) == NVFP4R_OK);
    const nvfp4r_status status = nvfp4r_router_create(gate, &settings, &options, &router);
    nvfp4r_gate_destroy(gate);
    INFO(nvfp4r_last_error());
    REQUIRE(status == NVFP4R_OK);
    return Router(router);
}

}  // namespace nvfp4r::test
