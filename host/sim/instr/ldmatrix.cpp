// ldmatrix, stmatrix and movmatrix (PTX ISA 9.7.14.5.15 to .17): 8 x 8 matrices of 16-bit elements, and the loads that
// widen 4- and 6-bit elements to bytes.
#include <algorithm>
#include <array>
#include <cstring>

#include "sim/instr/decode_help.hpp"
#include "sim/instr/families.hpp"
#include "sim/instr/modifiers.hpp"

namespace nvfp4r::sim {
namespace {

constexpr uint32_t kRows = 8;  // of one matrix; lane 8j + r holds the address of row r of matrix j
constexpr uint32_t kRowBytes = 16;
constexpr uint32_t kRowElements = 8;  // 16-bit ones

enum class Widen : uint8_t { none, from4, from6 };

// addr = row addresses; detail = state space.
struct MatrixForm {
    bool transposed = false;
    Widen widen = Widen::none;
    std::vector<uint32_t> slots;  // ldmatrix
    std::vector<Src> sources;     // stmatrix
};

using Row = std::array<uint8_t, kRowBytes>;
using Matrix = std::array<Row, kRows>;

uint16_t element(const Matrix& matrix, uint32_t row, uint32_t column) {
    uint16_t bits;
    std::memcpy(&bits, &matrix[row][2 * column], sizeof(bits));
    return bits;
}

// Row and column of element e of thread t's register.
struct Cell {
    uint32_t row, column;
};
Cell ldmatrix_cell_of(uint32_t t, uint32_t e, bool transposed) {
    const uint32_t major = t / 4, minor = 2 * (t % 4) + e;
    return transposed ? Cell{minor, major} : Cell{major, minor};
}

// 16 elements of 4 bits (8 bytes of data) or 6 bits (12 bytes), one a byte. An e2m1 code stands at bits 5-2, a 6-bit
// one at bits 5-0 (PTX ISA, data formats of the f8f6f4 kinds).
Row widened(const Row& packed, Widen widen) {
    Row out{};
    for (uint32_t i = 0; i < kRowBytes; ++i) {
        const uint32_t bits = widen == Widen::from4 ? 4 : 6;
        const uint32_t at = i * bits;
        uint32_t pair = packed[at / 8];
        if (at / 8 + 1 < kRowBytes) pair |= uint32_t{packed[at / 8 + 1]} << 8;
        const uint32_t code = pair >> (at % 8) & ((1u << bits) - 1);
        out[i] = static_cast<uint8_t>(widen == Widen::from4 ? code << 2 : code);
    }
    return out;
}

Machine::Place row_place(Warp& w, const Instr& i, const Lanes& addresses, uint32_t lane, const AccessInfo& info) {
    const auto space = static_cast<StateSpace>(i.detail);
    const Machine::Place place = w.machine().place(w, lane, space, addresses[lane], kRowBytes, kRowBytes, &i);
    if (!place.owner) throw Fault(FindingKind::out_of_bounds, "a matrix row outside shared memory");
    touch(w.machine(), w.first_actor + lane, place, kRowBytes, info);
    return place;
}

Step exec_ldmatrix_load(Warp& w, const Instr& i, LaneMask lanes) {
    const auto& form = i.extra_as<MatrixForm>();
    Lanes addresses;
    w.addresses(i.addr, addresses, lanes);
    for (uint32_t j = 0; j < form.slots.size(); ++j) {
        Matrix matrix;
        for (uint32_t r = 0; r < kRows; ++r) {
            const Machine::Place place = row_place(w, i, addresses, j * kRows + r, reads(Proxy::generic, &i));
            std::memcpy(matrix[r].data(), place.bytes, kRowBytes);
            if (form.widen != Widen::none) matrix[r] = widened(matrix[r], form.widen);
        }
        Lanes unused;
        uint64_t* out = w.write(form.slots[j], unused, lanes);
        for (uint32_t t = 0; t < kLanes; ++t) {
            uint32_t value = 0;
            for (uint32_t e = 0; e < 2; ++e) {
                const Cell cell = ldmatrix_cell_of(t, e, form.transposed);
                value |= uint32_t{element(matrix, cell.row, cell.column)} << (16 * e);
            }
            out[t] = value;
        }
    }
    return Step::next;
}

Step exec_ldmatrix_store(Warp& w, const Instr& i, LaneMask lanes) {
    const auto& form = i.extra_as<MatrixForm>();
    Lanes addresses;
    w.addresses(i.addr, addresses, lanes);
    for (uint32_t j = 0; j < form.sources.size(); ++j) {
        Lanes scratch;
        const uint64_t* values = w.read(form.sources[j], scratch, lanes);
        Matrix matrix{};
        for (uint32_t t = 0; t < kLanes; ++t)
            for (uint32_t e = 0; e < 2; ++e) {
                const Cell cell = ldmatrix_cell_of(t, e, form.transposed);
                const auto bits = static_cast<uint16_t>(values[t] >> (16 * e));
                std::memcpy(&matrix[cell.row][2 * cell.column], &bits, sizeof(bits));
            }
        for (uint32_t r = 0; r < kRows; ++r) {
            const Machine::Place place = row_place(w, i, addresses, j * kRows + r, writes(Proxy::generic, &i));
            std::memcpy(place.bytes, matrix[r].data(), kRowBytes);
        }
    }
    w.machine().progress();
    return Step::next;
}

/// The fragment of a matrix becomes that of its transpose.
Step exec_move(Warp& w, const Instr& i, LaneMask lanes) {
    Lanes scratch, sink, moved{};
    const uint64_t* from = w.read(i.src[0], scratch, lanes);
    for (uint32_t t = 0; t < kLanes; ++t)
        for (uint32_t e = 0; e < 2; ++e) {
            const Cell cell = ldmatrix_cell_of(t, e, true);  // where thread t's element lies in the matrix before
            const uint64_t bits =
                from[cell.row * kRowElements / 2 + cell.column / 2] >> 16 * (cell.column % 2) & 0xffffu;
            moved[t] |= bits << 16 * e;
        }
    std::copy(moved.begin(), moved.end(), w.write(i.dst, sink, lanes));
    return Step::next;
}

Instr decode_move(Decoder& d) {
    Modifiers m(d);
    for (const char* part : {"sync", "aligned", "m8n8", "trans", "b16"}) m.need(part);
    m.done();
    need_operands(d, 2);
    Instr i;
    i.flags = kAligned;
    i.exec = exec_move;
    i.dst = d.dst(0);
    i.src[0] = d.src(1, 32);
    return i;
}

// What follows the shape and count: .trans, state space, element type.
void decode_tail(Decoder& d, Modifiers& m, bool wide, bool load, Instr& i, MatrixForm& form) {
    form.transposed = m.take("trans");
    const bool shared = !m.take_any({"shared", "shared::cta"}).empty();
    i.detail = static_cast<uint64_t>(shared ? StateSpace::shared : StateSpace::generic);
    if (wide) {
        m.need("b8x16");
        form.widen = m.need_any({"b4x16_p64", "b6x16_p32"}) == "b4x16_p64" ? Widen::from4 : Widen::from6;
        if (!load || form.transposed) d.refuse("m8n16 is a load without .trans");
        if (!is_blackwell(d)) d.refuse("m8n16 needs sm_100a, sm_103a or sm_110a");
    } else {
        m.need("b16");
    }
    m.done();
}

Instr decode_ldmatrix(Decoder& d) {
    if (d.statement().opcode == "movmatrix") return decode_move(d);
    const bool load = d.statement().opcode == "ldmatrix";
    Modifiers m(d);
    m.need("sync");
    m.need("aligned");
    const bool wide = m.take("m8n16");
    if (!wide) m.need("m8n8");  // m16n16 and m16n8 of 8-bit elements are refused here by name
    const std::string_view number = m.need_any({"x1", "x2", "x4"});
    auto form = std::make_shared<MatrixForm>();
    Instr i;
    i.flags = kAligned;
    decode_tail(d, m, wide, load, i, *form);
    need_operands(d, 2);
    const auto& operands = d.statement().operands;
    const auto count = static_cast<size_t>(number[1] - '0');
    if (load)
        form->slots = register_list(d, operands[0], count);
    else
        form->sources = source_list(d, operands[1], count, 32);
    i.addr = d.addr(load ? 1 : 0);
    i.exec = load ? exec_ldmatrix_load : exec_ldmatrix_store;
    i.extra = form;
    return i;
}

static_assert(kRowElements * sizeof(uint16_t) == kRowBytes, "a row is eight 16-bit elements");

}  // namespace

const Family ldmatrix_family{"ldmatrix", {"ldmatrix", "stmatrix", "movmatrix"}, decode_ldmatrix};

}  // namespace nvfp4r::sim
