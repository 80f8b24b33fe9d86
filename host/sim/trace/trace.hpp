// Timeline of a run in the Chrome trace format (chrome://tracing, Perfetto): a track for each warp and each engine
// queue, arrows from the issue of an asynchronous operation to its completion. One simulated cycle is one microsecond
// there.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>

namespace nvfp4r::sim {

class Trace {
  public:
    /// Opens the file. Throws Error(NVFP4R_IO_ERROR) when it cannot be written.
    explicit Trace(const std::string& path);
    ~Trace();
    Trace(const Trace&) = delete;
    Trace& operator=(const Trace&) = delete;

    /// A process row: one CTA of one grid.
    uint64_t process(std::string_view name);
    void thread_name(uint64_t process, uint64_t thread, std::string_view name);
    /// A span on a track.
    void span(uint64_t process, uint64_t thread, std::string_view name, uint64_t start, uint64_t end,
              std::string_view detail);
    /// An arrow between two points of time on two tracks.
    void flow(uint64_t process, uint64_t from_thread, uint64_t start, uint64_t to_thread, uint64_t end);

  private:
    void event(std::string_view text);
    std::FILE* file_ = nullptr;
    bool first_ = true;
    uint64_t processes_ = 0, flows_ = 0;
};

}  // namespace nvfp4r::sim
