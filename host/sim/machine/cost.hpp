// The simulated clock's cost model: an estimate for traces and %clock, not a prediction.
//
// An SM issues up to four warp instructions a cycle (one a scheduler). A warp issues its next instruction when the last
// one's result is there: kArithmetic cycles, or the latency of the memory it touched. Asynchronous operations end
// `AsyncOp::latency` cycles after their issue or after the operation before them in their queue. Latencies are rounded
// from published measurements of H100 and B200.
#pragma once

#include <cstdint>

namespace nvfp4r::sim::cost {

inline constexpr uint64_t kIssuesPerCycle = 4;
inline constexpr uint64_t kArithmetic = 4;
inline constexpr uint64_t kSharedAccess = 29;
inline constexpr uint64_t kRemoteSharedAccess = 180;
inline constexpr uint64_t kGlobalAccess = 500;
inline constexpr uint64_t kStore = 4;
inline constexpr uint64_t kBarrier = 20;
inline constexpr uint64_t kClusterBarrier = 190;
inline constexpr uint64_t kLaunch = 2000;  // from the end of one grid to the start of the next

}  // namespace nvfp4r::sim::cost
