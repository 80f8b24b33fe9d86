#include "cpu/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace nvfp4r {

uint32_t thread_count(uint32_t requested, int64_t blocks) {
    const uint32_t wanted = requested ? requested : std::max(1u, std::thread::hardware_concurrency());
    return static_cast<uint32_t>(std::clamp<int64_t>(blocks, 1, wanted));
}

void parallel_blocks(int64_t blocks, uint32_t threads, const std::function<void(int64_t, uint32_t)>& work) {
    std::atomic<int64_t> next{0};
    const auto run = [&](uint32_t worker) {
        for (int64_t block = next++; block < blocks; block = next++) work(block, worker);
    };
    std::vector<std::thread> helpers;
    helpers.reserve(threads);
    try {
        for (uint32_t worker = 1; worker < threads; ++worker) helpers.emplace_back(run, worker);
    } catch (const std::system_error&) {
        // Fewer helpers do the same work: blocks are taken, not dealt.
    }
    run(0);
    for (std::thread& helper : helpers) helper.join();
}

}  // namespace nvfp4r
