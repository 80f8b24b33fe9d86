#include "sim/engine/tma.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace nvfp4r::sim {
namespace {

constexpr uint32_t kTensorMapBytes = 128;
constexpr uint32_t kTensorMapAlign = 64;
constexpr uint32_t kTmaSharedAlign = 128;
constexpr uint32_t kMaxBoxParts = 4;   // parts in which a box arrives; hardware's number is not known
constexpr uint16_t kNanFill = 0x7ff7;  // each 16-bit unit of a NaN-filled element (measured)
constexpr uint32_t kTmaLatency = 600;  // cycles, an estimate for the clock
constexpr uint32_t kTmaBytesPerCycle = 64;

uint32_t transfer_latency(uint64_t bytes) {
    return kTmaLatency + static_cast<uint32_t>(bytes / kTmaBytesPerCycle);
}

bool is_tf32(TensorType type) {
    return type == TensorType::tf32 || type == TensorType::tf32_ftz;
}

// A box on its way: rows move in a few parts, so that others can see it half done.
struct Transfer {
    TensorMap map;
    BoxShape shape;
    TensorCoords coords{};
    uint32_t next_row = 0;
    uint32_t rows_per_part = 1;
    std::vector<uint8_t> image;  // a store's payload, read whole before the first write

    Transfer(Machine& machine, const TensorMap& from, const TensorCoords& at)
        : map(from), shape(box_shape(from)), coords(at) {
        const uint32_t parts = 1 + static_cast<uint32_t>(machine.random() % kMaxBoxParts);
        rows_per_part = std::max(1u, (shape.rows + parts - 1) / parts);
    }
    uint32_t part_end() const { return std::min(shape.rows, next_row + rows_per_part); }
};

// The payload of one row: fill, then what lies inside the tensor.
void gather_row(Cta& cta, ActorId actor, const Transfer& t, uint32_t row, const Instr* instr, uint8_t* payload) {
    Machine& machine = cta.machine();
    if (t.map.fill == TensorFill::nan) {
        for (uint32_t i = 0; i < t.shape.row_bytes; i += 2) std::memcpy(payload + i, &kNanFill, 2);
    } else {
        std::memset(payload, 0, t.shape.row_bytes);
    }
    const BoxRow visible = box_row(t.map, t.shape, t.coords, row);
    if (visible.visible == 0) return;
    const Machine::Place from = machine.place(cta, StateSpace::global, visible.address, visible.visible, 1, instr);
    touch(machine, actor, from, visible.visible, reads(Proxy::async, instr));
    std::memcpy(payload + visible.begin, from.bytes, visible.visible);
    if (!is_tf32(t.map.type)) return;
    for (uint32_t i = visible.begin; i < visible.begin + visible.visible; i += 4) {
        uint32_t bits;
        std::memcpy(&bits, payload + i, 4);
        bits = round_tf32(bits);
        std::memcpy(payload + i, &bits, 4);
    }
}

// The shared bytes of one row, 16-byte chunk by chunk: visit(place of the chunk, bytes of payload before it). `image`
// is the place of the whole image: a swizzle permutes chunks only inside aligned 128-byte blocks, so it stays in there.
template <class Visit>
void visit_chunks(const Machine::Place& image, const Transfer& t, uint32_t base, uint32_t row, Visit visit) {
    for (uint32_t at = 0, chunk = 0; at < t.shape.row_bytes; at += t.shape.chunk_data, ++chunk) {
        const uint32_t shift = swizzled(base + row * t.shape.pitch + chunk * kTmaChunk, t.map.swizzle) - base;
        Machine::Place place = image;
        place.bytes += shift;
        place.offset += shift;
        visit(place, at);
    }
}

Machine::Place image_place(Cta& cta, const Transfer& t, uint32_t base, const Instr* instr) {
    return shared_place(cta, base, t.shape.footprint(), kTmaSharedAlign, instr);
}

// Rows whose chunks fill their whole pitch are one range: a swizzle only permutes 16-byte chunks inside the span.
bool rows_are_contiguous(const BoxShape& shape) {
    return shape.row_bytes == shape.pitch && shape.chunk_data == kTmaChunk;
}

void touch_rows(Cta& cta, ActorId actor, const Transfer& t, uint32_t base, uint32_t first, uint32_t last,
                const AccessInfo& info) {
    Machine& machine = cta.machine();
    if (!machine.checker()) return;
    Machine::Place image = image_place(cta, t, base, info.instr);
    if (rows_are_contiguous(t.shape)) {
        image.offset += uint64_t{first} * t.shape.pitch;
        touch(machine, actor, image, uint64_t{last - first} * t.shape.pitch, info);
        return;
    }
    for (uint32_t row = first; row < last; ++row)
        visit_chunks(image, t, base, row, [&](const Machine::Place& place, uint32_t) {
            touch(machine, actor, place, t.shape.chunk_data, info);
        });
}

void read_image(Cta& cta, ActorId actor, Transfer& t, uint32_t base, const Instr* instr) {
    touch_rows(cta, actor, t, base, 0, t.shape.rows, reads(Proxy::async, instr));
    t.image.resize(t.shape.bytes());
    const Machine::Place image = image_place(cta, t, base, instr);
    for (uint32_t row = 0; row < t.shape.rows; ++row) {
        uint8_t* payload = t.image.data() + uint64_t{row} * t.shape.row_bytes;
        visit_chunks(image, t, base, row, [&](const Machine::Place& place, uint32_t at) {
            std::memcpy(payload + at, place.bytes, t.shape.chunk_data);
        });
    }
}

}  // namespace

AsyncOp new_operation(const Issuer& issuer, const char* what, uint64_t bytes, bool tcgen05) {
    AsyncOp op;
    op.what = what;
    op.actor = begin_async(issuer.machine(), issuer.actor(), tcgen05);
    op.cta = &issuer.cta();
    op.warp = issuer.warp->index;
    op.lane = issuer.lane;
    op.instr = issuer.instr;
    op.issued = issuer.machine().cycle();
    op.latency = transfer_latency(bytes);
    op.bytes = bytes;
    return op;
}

void hold_targets(AsyncOp& op, const std::vector<LoadTarget>& targets) {
    op.holds_cta = false;
    for (const LoadTarget& target : targets) {
        if (target.cta == op.cta)
            op.holds_cta = true;
        else
            ++target.cta->in_flight;
    }
}

void release_targets(const AsyncOp& op, const std::vector<LoadTarget>& targets) {
    for (const LoadTarget& target : targets)
        if (target.cta != op.cta) --target.cta->in_flight;
}

TensorMap load_tensor_map(const Issuer& issuer, uint64_t address) {
    const Machine::Place place = issuer.machine().place(*issuer.warp, issuer.lane, StateSpace::generic, address,
                                                        kTensorMapBytes, kTensorMapAlign, issuer.instr);
    touch(issuer.machine(), issuer.actor(), place, kTensorMapBytes, reads(Proxy::generic, issuer.instr));
    TensorMap map;
    if (!read_tensor_map(place.bytes, map))
        throw Fault(
            FindingKind::illegal_descriptor,
            fmt::format("tensor map at {:#x} was not made by this simulator's cuTensorMapEncodeTiled", address));
    if (map.interleave != TensorInterleave::none)
        throw Fault(FindingKind::illegal_descriptor, "tensor map: interleaved images are not modelled");
    if (map.swizzle == TensorSwizzle::b128_atom32_flip8)
        throw Fault(FindingKind::illegal_descriptor, "tensor map: swizzle 128B_ATOM_32B_FLIP_8B is not modelled");
    return map;
}

void check_tensor_access(const Issuer& issuer, const TensorMap& map, const TensorCoords& coords, uint32_t shared_offset,
                         bool store) {
    constexpr int64_t kCoordinateBits = 16 * 8;
    if (int64_t{coords[0]} * element_bits(map.type) % kCoordinateBits != 0)
        issuer.report(FindingKind::illegal_instruction,
                      fmt::format("tensor coordinate 0 is {}: times the element size ({} bits) it must be a multiple "
                                  "of 16 bytes",
                                  coords[0], element_bits(map.type)));
    if (shared_offset % kTmaSharedAlign != 0)
        throw Fault(FindingKind::misaligned,
                    fmt::format("tensor copy at shared address {:#x}: a multiple of {} is needed", shared_offset,
                                kTmaSharedAlign));
    if (!store) return;
    for (uint32_t i = 0; i < map.rank; ++i) {
        if (coords[i] < 0)
            issuer.report(FindingKind::illegal_instruction,
                          fmt::format("tensor store at coordinate {} = {}: a store cannot start before the tensor", i,
                                      coords[i]));
        if (i > 0 && map.element_strides[i] != 1)
            throw Fault(FindingKind::illegal_descriptor, "tensor store with element strides is not modelled");
    }
    if (map.type == TensorType::u4_align16)
        throw Fault(FindingKind::illegal_descriptor, "tensor store of 16U4_ALIGN16B: the type only loads");
}

void issue_tensor_load(const Issuer& issuer, const TensorMap& map, const TensorCoords& coords,
                       std::vector<LoadTarget> targets) {
    Machine& machine = issuer.machine();
    auto transfer = std::make_shared<Transfer>(machine, map, coords);
    AsyncOp op = new_operation(issuer, "TMA load", transfer->shape.bytes() * targets.size());
    hold_targets(op, targets);
    machine.count("tma_load_bytes", op.bytes);
    op.run = [transfer, targets = std::move(targets)](AsyncOp& self) {
        Transfer& t = *transfer;
        Machine& m = self.cta->machine();
        const uint32_t first = t.next_row, last = t.part_end();
        for (const LoadTarget& target : targets)
            touch_rows(*target.cta, self.actor, t, target.offset, first, last, writes(Proxy::async, self.instr));
        std::vector<uint8_t> payload(t.shape.row_bytes);
        for (uint32_t row = first; row < last; ++row) {
            gather_row(*self.cta, self.actor, t, row, self.instr, payload.data());
            for (const LoadTarget& target : targets)
                visit_chunks(image_place(*target.cta, t, target.offset, self.instr), t, target.offset, row,
                             [&](const Machine::Place& place, uint32_t at) {
                                 std::memcpy(place.bytes, payload.data() + at, t.shape.chunk_data);
                             });
        }
        // The full box counts, also where it was clipped (measured).
        for (const LoadTarget& target : targets)
            complete_tx(m, self.actor, target.barrier, uint64_t{last - first} * t.shape.row_bytes, self.instr);
        t.next_row = last;
        if (last < t.shape.rows) return false;
        release_targets(self, targets);
        end_async(m, self.actor);
        return true;
    };
    machine.issue_free(issuer.cta(), std::move(op));
}

std::optional<ReduceType> tensor_reduce_type(TensorType type, ReduceOp op) {
    const bool bitwise = op == ReduceOp::bit_and || op == ReduceOp::bit_or || op == ReduceOp::bit_xor;
    std::optional<ReduceType> found;
    switch (type) {
        case TensorType::u32: found = bitwise ? ReduceType::b32 : ReduceType::u32; break;
        case TensorType::s32: found = bitwise ? ReduceType::b32 : ReduceType::s32; break;
        case TensorType::u64: found = bitwise ? ReduceType::b64 : ReduceType::u64; break;
        case TensorType::s64: found = bitwise ? ReduceType::b64 : ReduceType::s64; break;
        case TensorType::f16: found = ReduceType::f16; break;
        case TensorType::bf16: found = ReduceType::bf16; break;
        case TensorType::f32:
        case TensorType::f32_ftz: found = ReduceType::f32; break;
        case TensorType::f64: found = ReduceType::f64; break;
        default: return std::nullopt;
    }
    if (!reduces_global(op, *found)) return std::nullopt;
    return found;
}

void issue_tensor_store(const Issuer& issuer, const TensorMap& map, const TensorCoords& coords, uint32_t from,
                        const TensorReduce& reduce) {
    Machine& machine = issuer.machine();
    std::optional<ReduceType> type;
    if (reduce.active && !(type = tensor_reduce_type(map.type, reduce.op)))
        throw Fault(FindingKind::illegal_instruction,
                    fmt::format("tensor reduction is not defined for {}", tensor_type_name(map.type)));
    auto transfer = std::make_shared<Transfer>(machine, map, coords);
    std::shared_ptr<BulkGroup> group = bulk_groups(*issuer.warp, issuer.lane).open;
    ++group->reading;
    ++group->writing;
    AsyncOp op = new_operation(issuer, reduce.active ? "TMA reduce" : "TMA store", transfer->shape.bytes());
    machine.count("tma_store_bytes", op.bytes);
    op.run = [transfer, group, from, type, reduce](AsyncOp& self) {
        Transfer& t = *transfer;
        Machine& m = self.cta->machine();
        if (t.image.empty()) {
            read_image(*self.cta, self.actor, t, from, self.instr);
            self.holds_cta = false;
            finish_reading(m, self.actor, *group);
            return false;
        }
        const uint32_t last = t.part_end();
        for (; t.next_row < last; ++t.next_row) {
            BoxRow visible = box_row(t.map, t.shape, t.coords, t.next_row);
            if (visible.visible == 0) continue;
            // A store is clipped by whole chunks: it also writes what lies between the end of a row and the next multiple
            // of 16 bytes (measured on H200). A load is clipped by elements.
            visible.visible = (visible.visible + kTmaChunk - 1) / kTmaChunk * kTmaChunk;
            const Machine::Place to =
                m.place(*self.cta, StateSpace::global, visible.address, visible.visible, 1, self.instr);
            AccessInfo info = writes(Proxy::async, self.instr);
            if (type) info.order = Order::relaxed;  // each element is one relaxed reduction (PTX ISA 9.7.9.25.5.2)
            touch(m, self.actor, to, visible.visible, info);
            const uint8_t* row = t.image.data() + uint64_t{t.next_row} * t.shape.row_bytes + visible.begin;
            if (type)
                reduce_elements(reduce.op, *type, to.bytes, row, visible.visible);
            else
                std::memcpy(to.bytes, row, visible.visible);
        }
        m.progress();
        if (last < t.shape.rows) return false;
        finish_writing(m, self.actor, *group);
        end_async(m, self.actor);
        return true;
    };
    machine.issue_free(issuer.cta(), std::move(op));
}

}  // namespace nvfp4r::sim
