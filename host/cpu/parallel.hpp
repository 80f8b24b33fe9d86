// Fork-join over rows.
#pragma once

#include <cstdint>
#include <functional>

namespace nvfp4r {

/// Threads that a request means: 0 is one per core; never more than there are blocks.
uint32_t thread_count(uint32_t requested, int64_t blocks);

/// Calls work(block, worker) once for every block in 0..blocks-1; worker is below `threads`, and one worker's calls
/// never overlap. Which worker takes a block varies from run to run, so a block's result must not depend on it. `work`
/// must not throw. Threads that the system refuses to start are done without.
void parallel_blocks(int64_t blocks, uint32_t threads, const std::function<void(int64_t, uint32_t)>& work);

}  // namespace nvfp4r
