// The same bits for any number of threads, and one router under several of them.
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "api/open_router.hpp"

using namespace nvfp4r::test;

namespace {

constexpr uint32_t kThreadsExperts = 40, kThreadsHidden = 192, kThreadsTopK = 6;

struct Problem {
    explicit Problem(int64_t m)
        : tokens(m), weight(kThreadsExperts * kThreadsHidden), hidden(static_cast<size_t>(m) * kThreadsHidden) {
        std::mt19937 rng(7);
        std::normal_distribution<float> normal;
        for (float& w : weight) w = normal(rng) * 0.1f;
        for (float& x : hidden) x = normal(rng);
    }
    int64_t tokens;
    std::vector<float> weight, hidden;
};

struct Result {
    explicit Result(int64_t m)
        : weights(static_cast<size_t>(m) * kThreadsTopK),
          logits(static_cast<size_t>(m) * kThreadsExperts),
          ids(weights.size()),
          permutation(weights.size()),
          offsets(kThreadsExperts + 1) {}
    std::vector<float> weights, logits;
    std::vector<int32_t> ids, permutation, offsets;

    bool operator==(const Result& o) const {
        const auto same = [](const auto& a, const auto& b) {
            return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(a[0])) == 0;
        };
        return same(weights, o.weights) && same(logits, o.logits) && same(ids, o.ids) &&
               same(permutation, o.permutation) && same(offsets, o.offsets);
    }
};

Router make_router(const Problem& p, nvfp4r_precision precision, uint32_t threads, nvfp4r_cpu_arithmetic arithmetic) {
    nvfp4r_settings settings = NVFP4R_SETTINGS_INIT;
    settings.experts = kThreadsExperts;
    settings.hidden = kThreadsHidden;
    settings.top_k = kThreadsTopK;
    settings.score = NVFP4R_SCORE_SOFTMAX;
    settings.precision = precision;
    nvfp4r_router_options options = NVFP4R_ROUTER_OPTIONS_INIT;
    options.device = NVFP4R_DEVICE_CPU;
    options.threads = threads;
    options.cpu_arithmetic = arithmetic;
    return open_router(f32_gate(settings, p.weight), settings, options);
}

nvfp4r_status route_threads(nvfp4r_router* router, const Problem& p, Result& result) {
    nvfp4r_call call = NVFP4R_CALL_INIT;
    call.tokens = p.tokens;
    call.hidden = p.hidden.data();
    call.hidden_type = NVFP4R_F32;
    call.weights = result.weights.data();
    call.ids = result.ids.data();
    call.logits = result.logits.data();
    call.permutation = result.permutation.data();
    call.expert_offsets = result.offsets.data();
    return nvfp4r_route(router, &call);
}

}  // namespace

TEST_CASE("any number of threads gives the same bits", "[cpu][threads]") {
    const Problem p(101);
    const std::pair<nvfp4r_precision, nvfp4r_cpu_arithmetic> kinds[] = {
        {NVFP4R_PRECISION_BF16, NVFP4R_CPU_EXACT},
        {NVFP4R_PRECISION_NVFP4X2, NVFP4R_CPU_EXACT},
        {NVFP4R_PRECISION_NVFP4X3, NVFP4R_CPU_HARDWARE},
    };
    for (const auto& [precision, arithmetic] : kinds) {
        Result one(p.tokens);
        REQUIRE(route_threads(make_router(p, precision, 1, arithmetic).get(), p, one) == NVFP4R_OK);
        for (const uint32_t threads : {2u, 3u, 7u, 128u}) {
            Result many(p.tokens);
            REQUIRE(route_threads(make_router(p, precision, threads, arithmetic).get(), p, many) == NVFP4R_OK);
            CHECK(one == many);
        }
    }
}

TEST_CASE("two threads may share a router", "[cpu][threads]") {
    const Problem p(64);
    const Router router = make_router(p, NVFP4R_PRECISION_NVFP4X2, 2, NVFP4R_CPU_EXACT);
    Result alone(p.tokens);
    REQUIRE(route_threads(router.get(), p, alone) == NVFP4R_OK);
    std::vector<Result> results(4, Result(p.tokens));
    std::vector<nvfp4r_status> statuses(4, NVFP4R_INTERNAL);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < results.size(); ++i)
        threads.emplace_back([&, i] { statuses[i] = route_threads(router.get(), p, results[i]); });
    for (std::thread& thread : threads) thread.join();
    for (size_t i = 0; i < results.size(); ++i) {
        CHECK(statuses[i] == NVFP4R_OK);
        CHECK(results[i] == alone);
    }
}

TEST_CASE("a row's result does not depend on its place or on the number of rows", "[cpu]") {
    const Problem p(101);
    const Router router = make_router(p, NVFP4R_PRECISION_NVFP4X2, 3, NVFP4R_CPU_EXACT);
    Result all(p.tokens);
    REQUIRE(route_threads(router.get(), p, all) == NVFP4R_OK);
    for (const size_t row : {0u, 31u, 32u, 100u}) {
        Problem one(1);
        std::copy_n(p.hidden.begin() + static_cast<int64_t>(row * kThreadsHidden), kThreadsHidden, one.hidden.begin());
        Result result(1);
        REQUIRE(route_threads(router.get(), one, result) == NVFP4R_OK);
        CHECK(std::memcmp(result.logits.data(), all.logits.data() + row * kThreadsExperts,
                          kThreadsExperts * sizeof(float)) == 0);
        CHECK(std::memcmp(result.weights.data(), all.weights.data() + row * kThreadsTopK,
                          kThreadsTopK * sizeof(float)) == 0);
    }
}
