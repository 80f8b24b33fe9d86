// Control flow (PTX ISA 9.7.12): bra, brx.idx, ret, exit, trap, brkpt. Direct calls are linked in program/call.cpp.
#include <bit>

#include "core/error.hpp"
#include "sim/instr/families.hpp"
#include "sim/instr/modifiers.hpp"
#include "sim/machine/machine.hpp"

namespace nvfp4r::sim {

namespace {

Step exec_branch(Warp& warp, const Instr& instr, LaneMask lanes) {
    for (LaneMask rest = lanes; rest; rest &= rest - 1) {
        warp.pc[static_cast<uint32_t>(std::countr_zero(rest))] = instr.target;
    }
    return Step::jumped;
}

Step exec_indexed_branch(Warp& warp, const Instr& instr, LaneMask lanes) {
    const auto& targets = instr.extra_as<std::vector<uint32_t>>();
    Lanes scratch;
    const uint64_t* index = warp.read(instr.src[0], scratch, lanes);
    for (LaneMask rest = lanes; rest; rest &= rest - 1) {
        const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
        const auto i = static_cast<uint32_t>(index[lane]);
        if (i >= targets.size()) {
            const std::string text = fmt::format("branch index {}: the list has {} targets", i, targets.size());
            warp.cta->machine().report(FindingKind::illegal_instruction, text, &warp, 1u << lane, &instr);
            throw Fault(FindingKind::illegal_instruction, text);
        }
        warp.pc[lane] = targets[i];
    }
    return Step::jumped;
}

// In the entry a return ends the thread. The lanes stand in one function, so they all return or all end.
Step exec_return(Warp& warp, const Instr&, LaneMask lanes) {
    const auto first = static_cast<uint32_t>(std::countr_zero(lanes));
    if (warp.call_stack.empty() || warp.call_stack[first].empty()) return Step::exited;
    for (LaneMask rest = lanes; rest; rest &= rest - 1) {
        const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
        warp.pc[lane] = warp.call_stack[lane].back();
        warp.call_stack[lane].pop_back();
    }
    return Step::jumped;
}

Step exec_exit(Warp&, const Instr&, LaneMask) {
    return Step::exited;
}

Step exec_trap(Warp& warp, const Instr& instr, LaneMask lanes) {
    const std::string text = fmt::format("{} executed", instr.statement->opcode);
    warp.cta->machine().report(FindingKind::trap, text, &warp, lanes, &instr);
    return Step::exited;
}

Instr decode_control(Decoder& decoder) {
    const std::string& opcode = decoder.statement().opcode;
    Modifiers modifiers(decoder);
    Instr instr;
    if (opcode == "bra") {
        modifiers.take("uni");
        instr.exec = exec_branch;
        instr.flags = kBranch;
        instr.target = decoder.label(0);
    } else if (opcode == "brx") {
        if (!modifiers.take("idx")) decoder.refuse("brx wants .idx");
        modifiers.take("uni");
        instr.exec = exec_indexed_branch;
        instr.flags = kBranch;
        instr.src[0] = decoder.src(0, 32);
        instr.extra = std::make_shared<std::vector<uint32_t>>(decoder.branch_table(1));
    } else if (opcode == "ret") {
        modifiers.take("uni");
        instr.exec = exec_return;
        instr.flags = kBranch;
    } else if (opcode == "exit") {
        instr.exec = exec_exit;
    } else {
        instr.exec = exec_trap;
    }
    modifiers.done();
    return instr;
}

}  // namespace

const Family control_family = {"control", {"bra", "brx", "ret", "exit", "trap", "brkpt"}, decode_control};

}  // namespace nvfp4r::sim
