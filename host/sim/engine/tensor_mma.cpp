#include "sim/engine/tensor_mma.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "arith/fda.hpp"
#include "arith/mxf4nvf4.hpp"
#include "format/number.hpp"

namespace nvfp4r::sim {
namespace {

constexpr uint32_t kSlabBytes = 32;                // of one row along K, for every dense kind
constexpr uint32_t kSlabColumns = kSlabBytes / 4;  // of A in TMEM
constexpr uint32_t kDenseK = 16;                   // kind::f16
constexpr uint32_t kHalfLanes = 64;
constexpr uint32_t kScalesPerCell = 4;

// How rows and columns of D lie in the TMEM of one CTA of the group.
struct Layout {
    uint32_t rows = 0;          // of D and A that this CTA holds
    uint32_t columns = 0;       // of D in a lane
    uint32_t halves = 1;        // 2: layout B, the second half of N in lanes 64 to 127
    bool sparse_lanes = false;  // layout F: 16 rows in each quarter

    uint32_t lane(uint32_t row, uint32_t half) const {
        return sparse_lanes ? row % 16 + row / 16 * kTmemQuarter : row + half * kHalfLanes;
    }
};

Layout layout_of(const TensorMultiply& t) {
    const InstructionDescriptor& d = t.descriptor;
    if (t.instruction.cta_group == 2) {
        if (d.m == 256) return {128, d.n, 1, false};  // A
        return {64, d.n / 2, 2, false};               // B
    }
    if (d.m == 64) return {64, d.n, 1, true};  // F
    return {128, d.n, 1, false};               // D
}

// What one CTA of the group reads and writes.
struct Member {
    TmemAccess access;
    uint32_t index = 0;  // 0: even rank or the only one
    Tmem* tmem = nullptr;
};

OperandReader reader_of(const Member& member) {
    return {member.access.cta, member.access.actor, member.access.instr};
}

// --- operands ---

std::vector<uint8_t> read_a(const Member& member, const TensorMultiply& t, const Layout& layout) {
    if (t.a_shared) {
        return t.descriptor.transpose_a ? read_mn_major(reader_of(member), *t.a_shared, layout.rows)
                                        : read_k_major(reader_of(member), *t.a_shared, layout.rows, kSlabBytes);
    }
    std::vector<uint8_t> out(uint64_t{layout.rows} * kSlabBytes);
    check_cells(member.access, {0, t.a_tmem.column}, kTmemLanes, kSlabColumns);
    for (uint32_t row = 0; row < layout.rows; ++row) {
        const uint32_t lane = t.a_tmem.lane + layout.lane(row, 0);
        touch_cells(member.access, lane, t.a_tmem.column, kSlabColumns, Access::read);
        std::memcpy(&out[row * kSlabBytes], &member.tmem->cell(lane, t.a_tmem.column), kSlabBytes);
    }
    return out;
}

// Each CTA of a pair holds N/2 rows of B in its own shared memory; the multiply sees them all.
std::vector<uint8_t> read_b(const std::vector<Member>& members, const TensorMultiply& t) {
    std::vector<uint8_t> all;
    const auto rows = t.descriptor.n / static_cast<uint32_t>(members.size());
    for (const Member& member : members) {
        const std::vector<uint8_t> part = t.descriptor.transpose_b
                                              ? read_mn_major(reader_of(member), t.b, rows)
                                              : read_k_major(reader_of(member), t.b, rows, kSlabBytes);
        all.insert(all.end(), part.begin(), part.end());
    }
    return all;
}

// The collector buffer is a hint with a contract: `use` must find the A that `fill` left (PTX ISA 9.7.16.10.7.1).
void check_collector(const Member& member, TensorPipe& pipe, const TensorMultiply& t, const std::vector<uint8_t>& a) {
    const bool use = t.collector == Collector::use || t.collector == Collector::last_use;
    if (use && pipe.collector != a)
        member.access.cta->machine().report(FindingKind::illegal_instruction,
                                            pipe.collector.empty()
                                                ? "collector::a::use without an earlier collector::a::fill"
                                                : "collector::a::use with an A that is not the one last filled",
                                            nullptr, 0, member.access.instr);
    if (t.collector == Collector::fill || t.collector == Collector::use)
        pipe.collector = a;
    else
        pipe.collector.clear();
}

// --- scale factors ---

// Lanes of TMEM that must hold the same cell of factors for a row: one in each quarter, or in each quarter of a half.
struct ScaleLanes {
    uint32_t first = 0;   // lane of row 0's first copy
    uint32_t copies = 4;  // 32 lanes apart
};

uint32_t scale_cell(const Member& member, TmemAddress at, const ScaleLanes& lanes, uint32_t row, const char* what) {
    const uint32_t column = at.column + row / kTmemQuarter;
    const uint32_t lane = lanes.first + row % kTmemQuarter;
    const uint32_t value = member.tmem->cell(lane, column);
    for (uint32_t copy = 1; copy < lanes.copies; ++copy) {
        const uint32_t other = member.tmem->cell(lane + copy * kTmemQuarter, column);
        if (other == value) continue;
        member.access.cta->machine().report(
            FindingKind::scale_copies,
            fmt::format(
                "{} factors of row {}: lane {} column {} holds {:#010x}, lane {} {:#010x}; all {} copies must be "
                "equal",
                what, row, lane, column, value, lane + copy * kTmemQuarter, other, lanes.copies),
            nullptr, 0, member.access.instr);
    }
    return value;
}

void touch_scales(const Member& member, TmemAddress at, const ScaleLanes& lanes, uint32_t rows) {
    const uint32_t columns = (rows + kTmemQuarter - 1) / kTmemQuarter;
    check_cells(member.access, {0, at.column}, kTmemLanes, columns);
    const uint32_t last_rows = rows - (columns - 1) * kTmemQuarter;  // lanes used in the last column
    for (uint32_t copy = 0; copy < lanes.copies; ++copy)
        for (uint32_t i = 0; i < std::min(rows, kTmemQuarter); ++i) {
            const uint32_t used = i < last_rows ? columns : columns - 1;
            touch_cells(member.access, lanes.first + copy * kTmemQuarter + i, at.column, used, Access::read);
        }
}

// One row in the form the multiply needs: codes, its factors, and the sign of a negated operand.
arith::Mxf4Row scaled_row(const uint8_t* codes, uint32_t cell, uint32_t id, bool negate, const TensorMultiply& t) {
    constexpr uint8_t kUe8m0Nan = 0xff;
    constexpr int kUe8m0Bias = 127, kUnitMantissa = 8;  // Mxf4Row: scale = mantissa * 2^(exponent - 3)
    uint8_t factors[kScalesPerCell];
    if (t.instruction.scales == ScaleVector::four) {
        for (uint32_t i = 0; i < kScalesPerCell; ++i) factors[i] = static_cast<uint8_t>(cell >> (8 * i));
    } else {  // two factors of 32 elements each: the half-word that the id names
        for (uint32_t i = 0; i < kScalesPerCell; ++i) factors[i] = static_cast<uint8_t>(cell >> (8 * (id + i / 2)));
    }
    constexpr uint8_t kNone[kScalesPerCell] = {};
    arith::Mxf4Row row = arith::mxf4_decode(codes, t.descriptor.ue8m0 ? kNone : factors);
    for (uint32_t i = 0; t.descriptor.ue8m0 && i < kScalesPerCell; ++i) {
        row.nan = row.nan || factors[i] == kUe8m0Nan;
        row.mantissa[i] = kUnitMantissa;
        row.exponent[i] = static_cast<int16_t>(factors[i] - kUe8m0Bias);
    }
    if (negate)
        for (int16_t& value : row.value) value = static_cast<int16_t>(-value);
    return row;
}

std::vector<arith::Mxf4Row> scaled_a(const Member& member, const TensorMultiply& t, const Layout& layout,
                                     const std::vector<uint8_t>& codes) {
    const ScaleLanes lanes{0, 4};
    touch_scales(member, t.sfa, lanes, layout.rows);
    std::vector<arith::Mxf4Row> rows;
    for (uint32_t row = 0; row < layout.rows; ++row)
        rows.push_back(scaled_row(&codes[row * kSlabBytes], scale_cell(member, t.sfa, lanes, row, "A"),
                                  t.descriptor.sfa_id, t.descriptor.negate_a, t));
    return rows;
}

std::vector<arith::Mxf4Row> scaled_b(const Member& member, const TensorMultiply& t, const Layout& layout,
                                     const std::vector<uint8_t>& codes) {
    std::vector<arith::Mxf4Row> rows;
    const uint32_t half_rows = t.descriptor.n / layout.halves;
    for (uint32_t half = 0; half < layout.halves; ++half) {
        const ScaleLanes lanes{half * kHalfLanes, 4 / layout.halves};
        touch_scales(member, t.sfb, lanes, half_rows);
        for (uint32_t n = 0; n < half_rows; ++n)
            rows.push_back(scaled_row(&codes[(half * half_rows + n) * kSlabBytes],
                                      scale_cell(member, t.sfb, lanes, n, "B"), t.descriptor.sfb_id,
                                      t.descriptor.negate_b, t));
    }
    return rows;
}

// --- 16-bit operands ---

using DenseRow = std::array<arith::FdaValue, kDenseK>;

std::vector<DenseRow> dense_rows(const std::vector<uint8_t>& bytes, bool bf16, bool negate) {
    std::vector<DenseRow> rows(bytes.size() / kSlabBytes);
    for (size_t r = 0; r < rows.size(); ++r)
        for (uint32_t k = 0; k < kDenseK; ++k) {
            uint16_t bits;
            std::memcpy(&bits, &bytes[r * kSlabBytes + 2 * k], sizeof(bits));
            arith::FdaValue value = arith::fda_decode(bf16 ? arith::FdaType::kBf16 : arith::FdaType::kF16, bits);
            if (negate) value.significand = static_cast<int16_t>(-value.significand);
            rows[r][k] = value;
        }
    return rows;
}

uint32_t dense_element(const TensorMultiply& t, const DenseRow& a, const DenseRow& b, uint32_t cell) {
    if (!t.accumulate) cell = 0;
    if (t.descriptor.f32_result) {
        if (t.input_scale)
            cell = std::bit_cast<uint32_t>(std::ldexp(std::bit_cast<float>(cell), -static_cast<int>(t.input_scale)));
        return arith::fda_step(a, b, cell, arith::kFda16Bit);
    }
    auto c = static_cast<uint16_t>(cell);
    if (t.input_scale) c = f32_to_f16(std::ldexp(f16_to_f32(c), -static_cast<int>(t.input_scale)));
    return arith::fda_step_f16(a, b, c, arith::kFda16Bit);
}

// --- D ---

bool lane_disabled(const TensorMultiply& t, const Member& member, uint32_t lane) {
    const uint32_t bit = member.index * kTmemLanes + lane;
    return t.disabled_lanes[bit / 32] >> (bit % 32) & 1u;
}

// Runs element(row, n, cell) over every cell of D that this CTA holds.
template <class Element>
void update_d(const Member& member, const TensorMultiply& t, const Layout& layout, Element element) {
    check_cells(member.access, {0, t.d.column}, kTmemLanes, layout.columns);
    for (uint32_t half = 0; half < layout.halves; ++half)
        for (uint32_t row = 0; row < layout.rows; ++row) {
            const uint32_t lane = t.d.lane + layout.lane(row, half);
            if (lane_disabled(t, member, lane)) continue;
            if (t.accumulate) touch_cells(member.access, lane, t.d.column, layout.columns, Access::read);
            touch_cells(member.access, lane, t.d.column, layout.columns, Access::write);
            uint32_t* cells = &member.tmem->cell(lane, t.d.column);
            for (uint32_t n = 0; n < layout.columns; ++n) cells[n] = element(row, half * layout.columns + n, cells[n]);
        }
}

}  // namespace

void check_multiply(const TensorMultiply& t) {
    const Layout layout = layout_of(t);
    const bool half_quarter = layout.sparse_lanes && t.d.lane == 16;
    if (t.d.lane != 0 && !half_quarter)
        throw Fault(FindingKind::tmem_alignment,
                    fmt::format("D at lane {}: {} is legal for M = {}", t.d.lane,
                                layout.sparse_lanes ? "0 or 16" : "only 0", t.descriptor.m));
    if (t.instruction.scales != ScaleVector::none && (t.sfa.lane != 0 || t.sfb.lane != 0))
        throw Fault(FindingKind::tmem_alignment,
                    fmt::format("scale factors at lanes {} (A) and {} (B): lane 0 is needed", t.sfa.lane, t.sfb.lane));
    if (t.a_shared) return;
    if (t.descriptor.transpose_a)
        throw Fault(FindingKind::illegal_descriptor, "instruction descriptor: field 'transpose A' is 1 with A in TMEM");
    if (layout.halves == 2)
        throw Fault(FindingKind::illegal_instruction, "A in TMEM with M = 128 of cta_group::2 is not modelled");
    if (t.a_tmem.lane != t.d.lane)
        throw Fault(FindingKind::tmem_alignment,
                    fmt::format("A at lane {} and D at lane {} must agree", t.a_tmem.lane, t.d.lane));
}

uint32_t multiply_latency(const TensorMultiply& t) {
    // Bound by the multiplier or by reading A and B from shared memory at 128 bytes a cycle.
    const uint32_t n = t.descriptor.n;
    return t.a_shared ? std::max(n / 2, 32 + n / 4) : n / 2;
}

void execute_multiply(AsyncOp& self, TensorPipe& pipe, const TensorMultiply& t) {
    Machine& machine = self.cta->machine();
    const uint64_t accumulator =
        uint64_t{t.d.lane} << 48 | uint64_t{t.d.column} << 32 | t.descriptor.m << 16 | t.descriptor.n;
    follow(machine, self.actor, pipe.copies);
    follow(machine, self.actor, pipe.accumulators[accumulator]);

    std::vector<Member> members;
    for (uint32_t i = 0; i < t.instruction.cta_group; ++i) {
        Cta& cta = t.instruction.cta_group == 2 ? pair_member(*self.cta, i) : *self.cta;
        members.push_back({{&cta, self.instr, self.actor}, i, &tmem_of(cta)});
    }
    const Layout layout = layout_of(t);
    const std::vector<uint8_t> b = read_b(members, t);
    std::vector<uint8_t> all_a;
    for (const Member& member : members) {
        const std::vector<uint8_t> a = read_a(member, t, layout);
        all_a.insert(all_a.end(), a.begin(), a.end());
        if (t.instruction.scales == ScaleVector::none) {
            const std::vector<DenseRow> a_rows = dense_rows(a, t.descriptor.a_bf16, t.descriptor.negate_a);
            const std::vector<DenseRow> b_rows = dense_rows(b, t.descriptor.b_bf16, t.descriptor.negate_b);
            update_d(member, t, layout, [&](uint32_t row, uint32_t n, uint32_t cell) {
                return dense_element(t, a_rows[row], b_rows[n], cell);
            });
        } else {
            const std::vector<arith::Mxf4Row> a_rows = scaled_a(member, t, layout, a);
            const std::vector<arith::Mxf4Row> b_rows = scaled_b(member, t, layout, b);
            update_d(member, t, layout, [&](uint32_t row, uint32_t n, uint32_t cell) {
                return arith::mxf4nvf4_step(a_rows[row], b_rows[n], t.accumulate ? cell : 0);
            });
        }
    }
    check_collector(members.front(), pipe, t, all_a);
    collect(machine, self.actor, pipe.accumulators[accumulator]);
    collect(machine, self.actor, pipe.multiplies);
    machine.progress();
}

}  // namespace nvfp4r::sim
