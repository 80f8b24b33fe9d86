// griddepcontrol (PTX ISA 9.7.13.14), setmaxnreg (9.7.19.5), nanosleep (9.7.12).
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "sim/instr/families.hpp"
#include "sim/instr/modifiers.hpp"
#include "sim/machine/machine.hpp"

namespace nvfp4r::sim {
namespace {

Step exec_launch_dependents(Warp& warp, const Instr&, LaneMask) {
    Cta& cta = *warp.cta;
    // The first call of a CTA counts.
    if (cta.launched_dependents) return Step::next;
    cta.launched_dependents = true;
    ++cta.grid->triggered_ctas;
    warp.machine().progress();
    return Step::next;
}

bool prerequisites_complete(const GridRun& grid) {
    return std::all_of(grid.prerequisites.begin(), grid.prerequisites.end(),
                       [](const GridRun* before) { return before->complete(); });
}

std::string describe_dependency(const Warp& warp) {
    for (const GridRun* before : warp.cta->grid->prerequisites)
        if (!before->complete()) return fmt::format("grid {} `{}` to complete", before->index, before->launch->name);
    return "earlier grids to complete";
}

Step exec_wait_for_grids(Warp& warp, const Instr&, LaneMask lanes) {
    const GridRun& grid = *warp.cta->grid;
    if (!prerequisites_complete(grid)) {
        warp.machine().count("grid dependency waits", 1);
        warp.block(
            lanes, [&grid] { return prerequisites_complete(grid); }, describe_dependency);
        return Step::blocked;
    }
    if (Checker* checker = warp.machine().checker())
        for (const GridRun* before : grid.prerequisites)
            for (LaneMask left = lanes; left; left &= left - 1)
                checker->acquire(warp.first_actor + static_cast<uint32_t>(std::countr_zero(left)), before->end_clock);
    return Step::next;
}

Step exec_setmaxnreg(Warp&, const Instr&, LaneMask) {
    return Step::next;
}

/// A sleep lets time pass; a loop around it is a poll.
Step exec_nanosleep(Warp& warp, const Instr& instr, LaneMask lanes) {
    Lanes scratch;
    const uint64_t* ns = warp.read(instr.src[0], scratch, lanes);
    constexpr uint64_t kLongest = 1'000'000;  // PTX ISA: at most twice the duration, itself at most 1 ms
    warp.time += std::min(ns[std::countr_zero(lanes)] & 0xffffffffu, kLongest);
    return Step::next;
}

Instr decode_griddepcontrol(Decoder& decoder) {
    Modifiers modifiers(decoder);
    Instr instr;
    instr.exec =
        modifiers.need_any({"wait", "launch_dependents"}) == "wait" ? exec_wait_for_grids : exec_launch_dependents;
    modifiers.done();
    return instr;
}

Instr decode_setmaxnreg(Decoder& decoder) {
    constexpr int64_t kFewest = 24, kMost = 256, kStep = 8;
    Modifiers modifiers(decoder);
    modifiers.need_any({"inc", "dec"});
    modifiers.need("sync");
    modifiers.need("aligned");
    modifiers.need("u32");
    modifiers.done();
    if (!decoder.arch_specific()) decoder.refuse("setmaxnreg needs an `a` target");
    const Operand& count = decoder.statement().operands.at(0);
    if (count.kind != OperandKind::immediate || count.imm < kFewest || count.imm > kMost || count.imm % kStep != 0)
        decoder.refuse("a constant from 24 to 256 that is a multiple of 8 is needed");
    Instr instr;
    instr.exec = exec_setmaxnreg;
    instr.flags = kAligned;
    return instr;
}

Instr decode_nanosleep(Decoder& decoder) {
    Modifiers modifiers(decoder);
    modifiers.need("u32");
    modifiers.done();
    Instr instr;
    instr.exec = exec_nanosleep;
    instr.flags = kMaySpin;
    instr.src[0] = decoder.src(0, 32);
    return instr;
}

}  // namespace

const Family griddepcontrol_family = {"griddepcontrol", {"griddepcontrol"}, decode_griddepcontrol};
const Family setmaxnreg_family = {"setmaxnreg", {"setmaxnreg"}, decode_setmaxnreg};
const Family nanosleep_family = {"nanosleep", {"nanosleep"}, decode_nanosleep};

}  // namespace nvfp4r::sim
