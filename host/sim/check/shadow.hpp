// What the checker remembers of every byte: the last write, and the reads since then that a later write must follow.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/check/checker.hpp"

namespace nvfp4r::sim {

inline constexpr ActorId kHost = 0;  // the host and every finished run: ordered before everybody

struct WriteRecord {
    ActorId actor = kNoActor;  // kNoActor: never written
    uint32_t epoch = 0;
    const Instr* instr = nullptr;
    Proxy proxy = Proxy::generic;
    Order order = Order::weak;
};

/// Readers of one block of 64 actors that read in the same epoch: threads of a warp stay together in one entry.
struct ReadRecord {
    uint32_t block = 0;
    uint32_t epoch = 0;
    uint64_t actors = 0;  // bit i: actor block * 64 + i
    const Instr* instr = nullptr;
    Order order = Order::weak;
};

/// History of 16, 4 or 1 bytes. A cell splits in four when an access covers a part of it, and is whole again after a
/// write that covers all.
struct Cell {
    WriteRecord write;
    uint32_t run = 0;               // records of an earlier run are the host's
    std::vector<ReadRecord> reads;  // ordered by block
    std::unique_ptr<std::array<Cell, 4>> parts;

    void add_read(ActorId actor, uint32_t epoch, const AccessInfo& info);
    void split();
};

class Shadow {
  public:
    static constexpr uint64_t kCellBytes = 16;
    static constexpr uint64_t kPageCells = 256;  // made when first touched

    Shadow(std::string name, uint64_t bytes, bool written) : name_(std::move(name)), bytes_(bytes) {
        pages_.resize((bytes + kPageBytes - 1) / kPageBytes);
        initial_.assign(pages_.size(), written);
    }
    static constexpr uint64_t kPageBytes = kCellBytes * kPageCells;

    const std::string& name() const { return name_; }
    uint64_t bytes() const { return bytes_; }

    /// The cell of a byte; nullptr when its page was never touched (then `untouched_written` tells its state).
    Cell* find(uint64_t offset) {
        auto& page = pages_[offset / kPageBytes];
        return page ? &(*page)[offset % kPageBytes / kCellBytes] : nullptr;
    }
    Cell& cell(uint64_t offset);
    bool untouched_written(uint64_t offset) const { return initial_[offset / kPageBytes]; }
    /// Sets [offset, offset + bytes) to "written by the host" or "never written", without history.
    void reset(uint64_t offset, uint64_t bytes, bool written);

  private:
    using Page = std::array<Cell, kPageCells>;
    std::string name_;
    uint64_t bytes_;
    std::vector<std::unique_ptr<Page>> pages_;
    std::vector<bool> initial_;  // state of a page that was never touched
};

}  // namespace nvfp4r::sim
