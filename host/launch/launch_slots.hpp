// Mailboxes. Launches that may run at the same time must not share one, so each stream has its own.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "launch/context.hpp"

namespace nvfp4r {

/// The mailbox and start tickets of one launch at a time: all packets empty and all tickets 0 between launches.
struct LaunchSlot {
    DeviceBuffer mailbox, tickets;
};

class LaunchSlots {
  public:
    /// Makes the first slot. Throws OUT_OF_MEMORY or DRIVER_ERROR.
    LaunchSlots(std::shared_ptr<const GpuContext> context, uint64_t mailbox_words, uint32_t tickets);
    ~LaunchSlots();
    LaunchSlots(const LaunchSlots&) = delete;
    LaunchSlots& operator=(const LaunchSlots&) = delete;

    /// The slot of a stream; launches of one stream follow each other. A graph keeps the slot of the stream that its
    /// launch was captured from, apart from the one that the stream's own launches use. A new stream takes a free slot,
    /// which is made on the spot when there is none (also during a capture). INVALID_ARGUMENT for a stream of another
    /// context. The context is current. Thread safe.
    const LaunchSlot& get(CUstream stream, bool capturing);

    /// Makes slots until `count` are free, so that as many new streams allocate nothing.
    void reserve(uint32_t count);

  private:
    struct Use {
        CUstream stream;
        unsigned long long thread_stream;  // CU_STREAM_PER_THREAD is one handle for a stream of each thread: its id
        bool capturing;
        uint32_t slot;
    };
    void add_slot();
    void check_owner(CUstream stream) const;

    std::shared_ptr<const GpuContext> context_;
    const uint64_t mailbox_words_;
    const uint32_t tickets_;
    CUstream setup_ = nullptr;  // initialises slots without touching the caller's streams
    std::mutex mutex_;
    std::vector<std::unique_ptr<LaunchSlot>> slots_;
    std::vector<Use> uses_;
};

}  // namespace nvfp4r
