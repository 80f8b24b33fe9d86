// tcgen05.cp (PTX ISA 9.7.16.9.2): shared memory to TMEM, on the thread's tensor pipe.
#include <cstring>

#include "sim/engine/matrix_descriptor.hpp"
#include "sim/engine/tensor_pipe.hpp"
#include "sim/engine/tmem.hpp"
#include "sim/instr/decode_help.hpp"
#include "sim/instr/families.hpp"
#include "sim/instr/modifiers.hpp"

namespace nvfp4r::sim {
namespace {

constexpr uint32_t kTcgen05CpCopyLatency = 68;  // cycles, marginal, measured by others on a B200

enum class CopyTarget : uint8_t { every_lane, last_of_quarter, halves, half_pairs, quarters };

struct CopyShape {
    uint32_t rows = 0;
    uint32_t row_bytes = 0;
    CopyTarget target = CopyTarget::every_lane;
    uint32_t cta_group = 1;

    uint32_t columns() const { return row_bytes / sizeof(uint32_t); }
};

// The lanes that receive a row.
std::vector<uint32_t> lanes_of(const CopyShape& shape, uint32_t row) {
    switch (shape.target) {
        case CopyTarget::every_lane: return {row};
        case CopyTarget::last_of_quarter: return {row * kTmemQuarter + kTmemQuarter - 1};
        case CopyTarget::halves: return {row, row + 64};
        case CopyTarget::half_pairs: {
            const uint32_t first = row / kTmemQuarter * 64 + row % kTmemQuarter;
            return {first, first + kTmemQuarter};
        }
        case CopyTarget::quarters: break;
    }
    return {row, row + kTmemQuarter, row + 2 * kTmemQuarter, row + 3 * kTmemQuarter};
}

void copy_to_tmem(const TmemAccess& access, const CopyShape& shape, TmemAddress at, const MatrixDescriptor& source) {
    check_cells(access, at, kTmemLanes, shape.columns());
    Tmem& tmem = tmem_of(*access.cta);
    const std::vector<uint8_t> bytes =
        read_k_major({access.cta, access.actor, access.instr}, source, shape.rows, shape.row_bytes);
    for (uint32_t row = 0; row < shape.rows; ++row)
        for (const uint32_t lane : lanes_of(shape, row)) {
            touch_cells(access, lane, at.column, shape.columns(), Access::write);
            std::memcpy(&tmem.cell(lane, at.column), &bytes[row * shape.row_bytes], shape.row_bytes);
        }
}

Step exec_cp(Warp& w, const Instr& i, LaneMask lanes) {
    const CopyShape shape = i.extra_as<CopyShape>();
    require_cta_group(w, lanes, shape.cta_group, &i);
    Lanes addresses, scratch;
    w.addresses(i.addr, addresses, lanes);
    const uint64_t* descriptors = w.read(i.src[0], scratch, lanes);
    each_lane(lanes, [&](uint32_t lane) {
        const TmemAddress at = TmemAddress::of(static_cast<uint32_t>(addresses[lane]));
        if (at.lane != 0)
            throw Fault(FindingKind::tmem_alignment, fmt::format("tcgen05.cp to lane {}: lane 0 is needed", at.lane));
        const MatrixDescriptor source = decode_tcgen05_descriptor(descriptors[lane], "the copy's source");
        Cta* peer = shape.cta_group == 2 ? &pair_peer(*w.cta, "tcgen05.cp") : nullptr;
        const uint64_t bytes = uint64_t{shape.rows} * shape.row_bytes * shape.cta_group;
        issue_to_pipe({&w, lane, &i}, "tcgen05.cp", kTcgen05CpCopyLatency, bytes, peer,
                      [shape, at, source, peer](AsyncOp& self, TensorPipe& pipe) {
                          Machine& machine = self.cta->machine();
                          if (machine.config().order_mma_cp) follow(machine, self.actor, pipe.multiplies);
                          copy_to_tmem({self.cta, self.instr, self.actor}, shape, at, source);
                          if (peer) copy_to_tmem({peer, self.instr, self.actor}, shape, at, source);
                          collect(machine, self.actor, pipe.copies);
                          machine.progress();
                      });
    });
    return Step::next;
}

Instr decode_tcgen05_cp(Decoder& d) {
    if (!is_blackwell(d)) d.refuse("tcgen05 needs sm_100a, sm_103a or sm_110a");
    Modifiers m(d);
    m.need("cp");
    CopyShape shape;
    shape.cta_group = m.need_any({"cta_group::1", "cta_group::2"}) == "cta_group::2" ? 2 : 1;
    const std::string_view name = m.need_any({"128x256b", "4x256b", "128x128b", "64x128b", "32x128b"});
    if (name == "128x256b") {
        shape.rows = 128, shape.row_bytes = 32;
    } else if (name == "4x256b") {
        shape.rows = 4, shape.row_bytes = 32, shape.target = CopyTarget::last_of_quarter;
    } else if (name == "128x128b") {
        shape.rows = 128, shape.row_bytes = 16;
    } else if (name == "64x128b") {
        shape.rows = 64, shape.row_bytes = 16;
        shape.target = m.need_any({"warpx2::02_13", "warpx2::01_23"}) == "warpx2::02_13" ? CopyTarget::halves
                                                                                         : CopyTarget::half_pairs;
    } else {
        shape.rows = 32, shape.row_bytes = 16, shape.target = CopyTarget::quarters;
        m.need("warpx4");
    }
    m.done();  // the decompressing forms .b8x16.b4x16_p64 and .b8x16.b6x16_p32 are refused here by name
    need_operands(d, 2);
    Instr i;
    i.exec = exec_cp;
    i.addr = d.addr(0);
    i.src[0] = d.src(1, 64);
    i.extra = std::make_shared<const CopyShape>(shape);
    return i;
}

}  // namespace

const Family tcgen05_cp_family{"tcgen05.cp", {"tcgen05.cp"}, decode_tcgen05_cp};

}  // namespace nvfp4r::sim
