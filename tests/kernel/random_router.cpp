#include "random_router.hpp"

#include <random>
#include <vector>

namespace nvfp4r::test {

Router random_router(const nvfp4r_settings& settings, const nvfp4r_router_options& options) {
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    std::vector<float> weight(size_t{settings.experts} * settings.hidden);
    for (float& v : weight) v = 0.1f * normal(random);
    return open_router(f32_gate(settings, weight), settings, options);
}

}  // namespace nvfp4r::test
