// Bulk async-groups (PTX ISA 9.7.9.25.3): what a thread's bulk stores still have to read and to write.
#pragma once

#include <array>
#include <deque>
#include <memory>

#include "sim/engine/async.hpp"

namespace nvfp4r::sim {

/// One group, open until committed. Operations hold it and count themselves down.
struct BulkGroup {
    uint32_t reading = 0;  // operations whose source is still needed
    uint32_t writing = 0;  // operations whose result is not complete
    SyncClock read_done, write_done;
};

/// An operation of the group has read its whole source, or written its whole result.
inline void finish_reading(Machine& machine, ActorId actor, BulkGroup& group) {
    if (machine.checker()) machine.checker()->release(actor, group.read_done);
    --group.reading;
    machine.progress();
}
inline void finish_writing(Machine& machine, ActorId actor, BulkGroup& group) {
    if (machine.checker()) machine.checker()->release(actor, group.write_done);
    --group.writing;
    machine.progress();
}

/// The groups of one thread, oldest first.
struct BulkGroups {
    std::shared_ptr<BulkGroup> open = std::make_shared<BulkGroup>();
    std::deque<std::shared_ptr<BulkGroup>> committed;

    void commit() {
        committed.push_back(open);
        open = std::make_shared<BulkGroup>();
    }
};

/// Groups of a warp's 32 threads.
struct WarpBulkGroups {
    std::array<BulkGroups, kLanes> lanes;
};
inline BulkGroups& bulk_groups(Warp& warp, uint32_t lane) {
    return warp.state<WarpBulkGroups>(kBulkGroupState).lanes[lane];
}

}  // namespace nvfp4r::sim
