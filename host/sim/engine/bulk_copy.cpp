#include "sim/engine/bulk_copy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace nvfp4r::sim {
namespace {

constexpr uint32_t kMaxCopyParts = 3;
constexpr uint32_t kAllBytes = 0xffff;

// Bytes of one part: the copy arrives in up to kMaxCopyParts parts of whole 16-byte units.
uint32_t part_bytes(Machine& machine, uint32_t bytes) {
    const uint32_t parts = 1 + static_cast<uint32_t>(machine.random() % kMaxCopyParts);
    const uint32_t units = bytes / kBulkAlign;
    return std::max(1u, (units + parts - 1) / parts) * kBulkAlign;
}

// A range on its way.
struct Range {
    uint32_t bytes = 0;
    uint32_t part = 0;
    uint32_t done = 0;
    std::vector<uint8_t> image;  // a store's source, read whole before the first write

    Range(Machine& machine, uint32_t size) : bytes(size), part(part_bytes(machine, size)) {}
    uint32_t next() const { return std::min(part, bytes - done); }
};

void combine(const std::optional<BulkReduce>& reduce, uint8_t* to, const uint8_t* from, uint32_t bytes) {
    if (reduce)
        reduce_elements(reduce->op, reduce->type, to, from, bytes);
    else
        std::memcpy(to, from, bytes);
}

AccessInfo result_access(const std::optional<BulkReduce>& reduce, const Instr* instr) {
    AccessInfo info = writes(Proxy::async, instr);
    if (reduce) info.order = Order::relaxed;  // element-wise relaxed reductions
    return info;
}

}  // namespace

void check_bulk(const Issuer& issuer, const char* what, uint64_t value) {
    if (value % kBulkAlign != 0)
        issuer.report(FindingKind::misaligned,
                      fmt::format("bulk copy: {} {:#x} is not a multiple of {}", what, value, kBulkAlign));
}

void issue_bulk_load(const Issuer& issuer, uint64_t source, uint32_t bytes, std::vector<LoadTarget> targets) {
    if (bytes == 0) return;
    Machine& machine = issuer.machine();
    AsyncOp op = new_operation(issuer, "bulk load", uint64_t{bytes} * targets.size());
    hold_targets(op, targets);
    machine.count("bulk_load_bytes", op.bytes);
    op.run = [range = Range(machine, bytes), source, targets = std::move(targets)](AsyncOp& self) mutable {
        Machine& m = self.cta->machine();
        const uint32_t size = range.next();
        const Machine::Place from =
            m.place(*self.cta, StateSpace::global, source + range.done, size, kBulkAlign, self.instr);
        touch(m, self.actor, from, size, reads(Proxy::async, self.instr));
        for (const LoadTarget& target : targets) {
            const Machine::Place to = shared_place(*target.cta, target.offset + range.done, size, 1, self.instr);
            touch(m, self.actor, to, size, writes(Proxy::async, self.instr));
            std::memcpy(to.bytes, from.bytes, size);
            complete_tx(m, self.actor, target.barrier, size, self.instr);
        }
        range.done += size;
        if (range.done < range.bytes) return false;
        release_targets(self, targets);
        end_async(m, self.actor);
        return true;
    };
    machine.issue_free(issuer.cta(), std::move(op));
}

void issue_bulk_store(const Issuer& issuer, uint32_t from, uint64_t to, uint32_t bytes, uint32_t byte_mask,
                      const std::optional<BulkReduce>& reduce) {
    if (bytes == 0) return;
    Machine& machine = issuer.machine();
    std::shared_ptr<BulkGroup> group = bulk_groups(*issuer.warp, issuer.lane).open;
    ++group->reading;
    ++group->writing;
    AsyncOp op = new_operation(issuer, reduce ? "bulk reduce" : "bulk store", bytes);
    machine.count("bulk_store_bytes", bytes);
    op.run = [range = Range(machine, bytes), group, from, to, byte_mask, reduce](AsyncOp& self) mutable {
        Machine& m = self.cta->machine();
        if (range.image.empty()) {
            const Machine::Place source = shared_place(*self.cta, from, range.bytes, 1, self.instr);
            touch(m, self.actor, source, range.bytes, reads(Proxy::async, self.instr));
            range.image.assign(source.bytes, source.bytes + range.bytes);
            self.holds_cta = false;
            finish_reading(m, self.actor, *group);
            return false;
        }
        const uint32_t size = range.next();
        const Machine::Place target =
            m.place(*self.cta, StateSpace::global, to + range.done, size, kBulkAlign, self.instr);
        const uint8_t* image = range.image.data() + range.done;
        if (byte_mask == kAllBytes) {
            touch(m, self.actor, target, size, result_access(reduce, self.instr));
            combine(reduce, target.bytes, image, size);
        } else {
            for (uint32_t i = 0; i < size; ++i) {
                if (!(byte_mask >> (i % kBulkAlign) & 1u)) continue;
                Machine::Place byte = target;
                byte.offset += i;
                touch(m, self.actor, byte, 1, writes(Proxy::async, self.instr));
                target.bytes[i] = image[i];
            }
        }
        range.done += size;
        m.progress();
        if (range.done < range.bytes) return false;
        finish_writing(m, self.actor, *group);
        end_async(m, self.actor);
        return true;
    };
    machine.issue_free(issuer.cta(), std::move(op));
}

void issue_bulk_shared(const Issuer& issuer, uint32_t from, uint32_t bytes, const LoadTarget& target,
                       const std::optional<BulkReduce>& reduce) {
    if (bytes == 0) return;
    Machine& machine = issuer.machine();
    if (target.cta != &issuer.cta()) ++target.cta->in_flight;
    AsyncOp op = new_operation(issuer, reduce ? "bulk reduce to shared" : "bulk shared copy", bytes);
    machine.count("bulk_shared_bytes", bytes);
    op.run = [range = Range(machine, bytes), target, from, reduce](AsyncOp& self) mutable {
        Machine& m = self.cta->machine();
        const uint32_t size = range.next();
        const Machine::Place source = shared_place(*self.cta, from + range.done, size, 1, self.instr);
        touch(m, self.actor, source, size, reads(Proxy::async, self.instr));
        const Machine::Place to = shared_place(*target.cta, target.offset + range.done, size, 1, self.instr);
        touch(m, self.actor, to, size, result_access(reduce, self.instr));
        combine(reduce, to.bytes, source.bytes, size);
        complete_tx(m, self.actor, target.barrier, size, self.instr);
        range.done += size;
        if (range.done < range.bytes) return false;
        if (target.cta != self.cta) --target.cta->in_flight;
        end_async(m, self.actor);
        return true;
    };
    machine.issue_free(issuer.cta(), std::move(op));
}

}  // namespace nvfp4r::sim
