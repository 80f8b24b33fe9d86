#include "sim/check/shadow.hpp"

#include <algorithm>

#include "sim/check/clock.hpp"

namespace nvfp4r::sim {

void Cell::add_read(ActorId actor, uint32_t epoch, const AccessInfo& info) {
    const uint32_t block = actor >> Clock::kLeafBits;
    const uint64_t bit = uint64_t{1} << (actor & (Clock::kLeaf - 1));
    auto it = std::lower_bound(reads.begin(), reads.end(), block,
                               [](const ReadRecord& record, uint32_t value) { return record.block < value; });
    // An actor stands in one record only: its newest read implies the older ones for every later write.
    ReadRecord* home = nullptr;
    for (; it != reads.end() && it->block == block; ++it) {
        if (it->epoch == epoch && it->order == info.order) {
            home = &*it;
        } else if (it->order == info.order) {
            it->actors &= ~bit;
            if (it->actors == 0 && !home) {  // reuse the emptied record
                it->epoch = epoch;
                it->instr = info.instr;
                home = &*it;
            }
        }
    }
    if (home) {
        home->actors |= bit;
        home->instr = info.instr;
    } else {
        reads.insert(it, ReadRecord{block, epoch, bit, info.instr, info.order});
    }
}

void Cell::split() {
    parts = std::make_unique<std::array<Cell, 4>>();
    for (Cell& part : *parts) {
        part.write = write;
        part.run = run;
        part.reads = reads;
    }
    reads.clear();
}

Cell& Shadow::cell(uint64_t offset) {
    auto& page = pages_[offset / kPageBytes];
    if (!page) {
        page = std::make_unique<Page>();
        if (initial_[offset / kPageBytes])
            for (Cell& c : *page) c.write.actor = kHost;
    }
    return (*page)[offset % kPageBytes / kCellBytes];
}

namespace {
/// Resets the part [from, to) of a cell that covers [0, width).
void reset_cell(Cell& cell, uint64_t width, uint64_t from, uint64_t to, bool written) {
    if (from == 0 && to >= width) {
        cell.parts.reset();
        cell.reads.clear();
        cell.write = WriteRecord{};
        if (written) cell.write.actor = kHost;
        return;
    }
    if (!cell.parts) cell.split();
    const uint64_t part = width / 4;
    for (uint64_t i = 0; i < 4; ++i) {
        const uint64_t lo = std::max(from, i * part), hi = std::min(to, (i + 1) * part);
        if (lo < hi) reset_cell((*cell.parts)[i], part, lo - i * part, hi - i * part, written);
    }
}
}  // namespace

void Shadow::reset(uint64_t offset, uint64_t bytes, bool written) {
    const uint64_t end = offset + bytes;
    while (offset < end) {
        const uint64_t page_start = offset / kPageBytes * kPageBytes;
        const uint64_t page_end = std::min(page_start + kPageBytes, bytes_);
        if (offset == page_start && end >= page_end) {  // a whole page goes back to untouched
            pages_[offset / kPageBytes].reset();
            initial_[offset / kPageBytes] = written;
            offset = page_end;
            continue;
        }
        const uint64_t cell_start = offset / kCellBytes * kCellBytes;
        const uint64_t stop = std::min(end, cell_start + kCellBytes);
        reset_cell(cell(offset), kCellBytes, offset - cell_start, stop - cell_start, written);
        offset = stop;
    }
}

}  // namespace nvfp4r::sim
