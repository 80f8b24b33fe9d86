#include "sim/program/call.hpp"

#include <bit>
#include <cstring>

#include "core/error.hpp"
#include "sim/machine/machine.hpp"

namespace nvfp4r::sim {

namespace {

/// A parameter's place: a register, or bytes of the thread's local memory.
struct Place {
    bool in_register = false;
    uint32_t slot = 0;
    uint64_t local = 0;
    uint64_t bytes = 0;
};

struct Move {
    Src value;  // when not `none`: the source; else `from`
    Place from, to;
};

using Moves = std::vector<Move>;

uint64_t load_local(const uint8_t* local, const Place& place) {
    uint64_t value = 0;
    std::memcpy(&value, local + place.local, std::min<uint64_t>(place.bytes, sizeof value));
    return value;
}

void perform(Warp& warp, const Moves& moves, LaneMask lanes) {
    const uint64_t stride = warp.local.size() / kLanes;
    for (const Move& move : moves) {
        Lanes scratch, sink;
        const uint64_t* value = move.value.kind != Src::Kind::none ? warp.read(move.value, scratch, lanes) : nullptr;
        uint64_t* out = move.to.in_register ? warp.write(move.to.slot, sink, lanes) : nullptr;
        for (LaneMask rest = lanes; rest; rest &= rest - 1) {
            const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
            uint8_t* local = warp.local.data() + lane * stride;
            if (out) {
                out[lane] = value ? value[lane] : load_local(local, move.from);
            } else if (value) {
                std::memcpy(local + move.to.local, &value[lane], std::min<uint64_t>(move.to.bytes, sizeof *value));
            } else {
                std::memmove(local + move.to.local, local + move.from.local, move.to.bytes);
            }
        }
    }
}

Step exec_call(Warp& warp, const Instr& instr, LaneMask lanes) {
    perform(warp, instr.extra_as<Moves>(), lanes);
    if (warp.call_stack.size() < kLanes) warp.call_stack.resize(kLanes);
    for (LaneMask rest = lanes; rest; rest &= rest - 1) {
        const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
        warp.call_stack[lane].push_back(warp.pc[lane] + 1);
        warp.pc[lane] = instr.target;
    }
    return Step::jumped;
}

Step exec_returned(Warp& warp, const Instr& instr, LaneMask lanes) {
    perform(warp, instr.extra_as<Moves>(), lanes);
    return Step::next;
}

Place callee_place(const LinkedFunction& callee, const Variable& variable) {
    Place place;
    place.in_register = variable.space == StateSpace::reg;
    place.slot = callee.registers + static_cast<uint32_t>(variable.offset);
    place.local = callee.frame + variable.offset;
    place.bytes = variable.size;
    return place;
}

void check_size(StatementDecoder& decoder, const Variable& parameter, uint64_t bytes) {
    if (bytes != parameter.size) {
        decoder.refuse(fmt::format("{} bytes are passed for {}, which has {}", bytes, parameter.name, parameter.size));
    }
}

void check_register(StatementDecoder& decoder, const Variable& parameter) {
    if (parameter.size == 0 || parameter.size > sizeof(uint64_t)) {
        decoder.refuse(fmt::format("parameter {} of {} bytes does not fit a register", parameter.name, parameter.size));
    }
}

Move argument(StatementDecoder& decoder, const Operand& operand, const Variable& parameter, const Place& to) {
    Move move;
    move.to = to;
    uint64_t local = 0;
    const Variable* variable =
        operand.kind == OperandKind::symbol ? decoder.frame_variable(operand.symbol, local) : nullptr;
    if (variable && variable->space == StateSpace::param) {
        check_size(decoder, parameter, variable->size);
        if (to.in_register) check_register(decoder, parameter);
        move.from.local = local;
        move.from.bytes = variable->size;
    } else {
        check_register(decoder, parameter);
        move.value = decoder.src(operand, static_cast<uint32_t>(parameter.size * 8));
    }
    return move;
}

Move result(StatementDecoder& decoder, const Operand& operand, const Variable& parameter, const Place& from) {
    Move move;
    uint64_t local = 0;
    const Variable* variable =
        operand.kind == OperandKind::symbol ? decoder.frame_variable(operand.symbol, local) : nullptr;
    if (variable) {
        check_size(decoder, parameter, variable->size);
        move.to.local = local;
        move.to.bytes = variable->size;
    } else {
        check_register(decoder, parameter);
        move.to.in_register = true;
        move.to.slot = decoder.dst(operand);
    }
    if (from.in_register) {
        check_register(decoder, parameter);
        move.value.kind = Src::Kind::reg;
        move.value.slot = from.slot;
    } else {
        move.from = from;
    }
    return move;
}

}  // namespace

void decode_call(const Link& link, StatementDecoder& decoder, std::vector<Instr>& code) {
    const Statement& statement = decoder.statement();
    const Operand* name = callee_operand(statement);
    const LinkedFunction& callee = *link.find(name->symbol);
    const Function& function = *callee.function;
    static const std::vector<Operand> kNone;
    const std::vector<Operand>*returns = &kNone, *arguments = &kNone;
    bool before_name = true;
    for (const Operand& operand : statement.operands) {
        if (&operand == name) before_name = false;
        if (operand.kind == OperandKind::vector) (before_name ? returns : arguments) = &operand.parts;
    }
    if (returns->size() != function.returns.size() || arguments->size() != function.params.size()) {
        decoder.refuse(fmt::format("{} takes {} arguments and returns {} values", function.name, function.params.size(),
                                   function.returns.size()));
    }
    Moves in, out;
    for (size_t i = 0; i < arguments->size(); ++i) {
        const Variable& parameter = function.params[i];
        in.push_back(argument(decoder, (*arguments)[i], parameter, callee_place(callee, parameter)));
    }
    for (size_t i = 0; i < returns->size(); ++i) {
        const Variable& parameter = function.returns[i];
        out.push_back(result(decoder, (*returns)[i], parameter, callee_place(callee, parameter)));
    }
    Instr call;
    call.exec = exec_call;
    call.flags = kBranch;
    call.target = callee.code;
    call.extra = std::make_shared<Moves>(std::move(in));
    code.push_back(std::move(call));
    // Under the call's own guard, which the callee cannot change: lanes that did not call pass by.
    Instr returned;
    returned.exec = exec_returned;
    returned.extra = std::make_shared<Moves>(std::move(out));
    code.push_back(std::move(returned));
}

}  // namespace nvfp4r::sim
