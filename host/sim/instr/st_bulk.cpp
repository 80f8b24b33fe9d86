// st.bulk (PTX ISA 9.7.9.13): fills a range of shared memory with zeros, as a weak store.
#include <cstring>

#include "sim/instr/decode_help.hpp"
#include "sim/instr/families.hpp"
#include "sim/instr/modifiers.hpp"

namespace nvfp4r::sim {
namespace {

constexpr uint32_t kGranularity = 8;  // bytes: the address and the size are multiples of it

Step exec_fill(Warp& w, const Instr& i, LaneMask lanes) {
    Lanes addresses, scratch;
    w.addresses(i.addr, addresses, lanes);
    const uint64_t* sizes = w.read(i.src[0], scratch, lanes);
    const auto space = static_cast<StateSpace>(i.detail);
    Machine& machine = w.machine();
    each_lane(lanes, [&](uint32_t lane) {
        if (sizes[lane] == 0) return;
        if (sizes[lane] % kGranularity != 0)
            report_lane(w, lane, FindingKind::misaligned,
                        fmt::format("st.bulk of {} bytes: a multiple of {} is needed", sizes[lane], kGranularity), &i);
        const Machine::Place place = machine.place(w, lane, space, addresses[lane], sizes[lane], kGranularity, &i);
        if (!place.owner) throw Fault(FindingKind::out_of_bounds, "st.bulk outside shared memory");
        touch(machine, w.first_actor + lane, place, sizes[lane], writes(Proxy::generic, &i));
        std::memset(place.bytes, 0, sizes[lane]);
    });
    machine.progress();
    return Step::next;
}

Instr decode_st_bulk(Decoder& d) {
    if (d.sm() < 100) d.refuse("st.bulk needs sm_100 or later");
    Modifiers m(d);
    m.need("bulk");
    m.take("weak");
    const bool shared = !m.take_any({"shared::cta", "shared"}).empty();
    m.done();
    need_operands(d, 3);
    Instr i;
    i.exec = exec_fill;
    i.addr = d.addr(0);
    i.src[0] = d.src(1, 64);
    const Src value = d.src(2, 64);
    if (value.kind != Src::Kind::imm || value.imm != 0) d.refuse("the value of st.bulk must be the immediate 0");
    i.detail = static_cast<uint64_t>(shared ? StateSpace::shared : StateSpace::generic);
    return i;
}

}  // namespace

const Family st_bulk_family{"st.bulk", {"st.bulk"}, decode_st_bulk};

}  // namespace nvfp4r::sim
