// Order, groups and weights of single rows.
#include "cpu/select.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "cpu/score.hpp"
#include "cpu/weigh.hpp"

using namespace nvfp4r;

namespace {

const float kNan = std::numeric_limits<float>::quiet_NaN();
const float kInf = std::numeric_limits<float>::infinity();

std::vector<float> weigh(nvfp4r_settings settings, const std::vector<float>& acts) {
    std::vector<int32_t> chosen(acts.size());
    for (size_t i = 0; i < acts.size(); ++i) chosen[i] = static_cast<int32_t>(i);
    std::vector<float> weights(acts.size());
    weigh_row(settings, chosen, acts, acts, {}, weights);
    return weights;
}

}  // namespace

TEST_CASE("the order of rank values", "[cpu]") {
    CHECK(ranks_before(2.0f, 9, 1.0f, 0));
    CHECK(ranks_before(kInf, 9, 1.0f, 0));
    CHECK(ranks_before(1.0f, 9, -kInf, 0));
    CHECK(ranks_before(-kInf, 9, kNan, 0));
    CHECK(ranks_before(kNan, 1, kNan, 2));
    CHECK(ranks_before(-0.0f, 1, 0.0f, 2));
    CHECK_FALSE(ranks_before(0.0f, 2, -0.0f, 1));
    CHECK_FALSE(ranks_before(1.0f, 3, 1.0f, 3));
}

TEST_CASE("scores at the ends of fp32", "[cpu]") {
    CHECK(score_of(NVFP4R_SCORE_SIGMOID, -104.0f) == 0.0f);
    CHECK(score_of(NVFP4R_SCORE_SIGMOID, kInf) == 1.0f);
    CHECK(score_of(NVFP4R_SCORE_SIGMOID, -kInf) == 0.0f);
    CHECK(score_of(NVFP4R_SCORE_SQRTSOFTPLUS, kInf) == kInf);
    CHECK(score_of(NVFP4R_SCORE_SQRTSOFTPLUS, -kInf) == 0.0f);
    CHECK(score_of(NVFP4R_SCORE_SQRTSOFTPLUS, 1e30f) == std::sqrt(1e30f));
    CHECK(std::isnan(score_of(NVFP4R_SCORE_IDENTITY, kNan)));
    std::vector<float> acts(3);
    score_row(NVFP4R_SCORE_SOFTMAX, std::vector<float>{-kInf, kNan, -kInf}, acts);
    CHECK(acts[0] == 0.0f);
    CHECK(std::isnan(acts[1]));
    score_row(NVFP4R_SCORE_SOFTMAX, std::vector<float>{kInf, 3.0f, kInf}, acts);
    CHECK(acts == std::vector<float>{0.5f, 0.0f, 0.5f});
}

TEST_CASE("soft cap and linear bias", "[cpu]") {
    CHECK(correct_logit(5.0f, 0.0f, 0.25f) == 5.25f);
    CHECK(correct_logit(kInf, 30.0f, 1.0f) == 31.0f);
    CHECK(std::isnan(correct_logit(kNan, 30.0f, 1.0f)));
}

TEST_CASE("weights never become NaN", "[cpu]") {
    nvfp4r_settings settings = NVFP4R_SETTINGS_INIT;
    settings.renormalise = 1;
    CHECK(weigh(settings, {kNan, 1.0f}) == std::vector<float>{0.0f, 1.0f});
    CHECK(weigh(settings, {kInf, 1.0f, kInf}) == std::vector<float>{0.5f, 0.0f, 0.5f});
    CHECK(weigh(settings, {1.0f, -1.0f}) == std::vector<float>{0.0f, 0.0f});
    CHECK(weigh(settings, {1e-30f, 1e-30f})[0] == Approx(1e-10));  // eps 1e-20 outweighs the scores
    settings.renormalise_eps = 0.0f;
    CHECK(weigh(settings, {1e-30f, 3e-30f}) == std::vector<float>{0.25f, 0.75f});
    settings.renormalise = 0;
    CHECK(weigh(settings, {kInf, -kInf}) == std::vector<float>{kInf, -kInf});
    settings.routed_scaling = 0.0f;
    CHECK(weigh(settings, {kInf, 1.0f}) == std::vector<float>{0.0f, 0.0f});
}
