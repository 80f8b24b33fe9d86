#include "sim/program/statement_decoder.hpp"

#include <bit>
#include <cctype>

#include "core/error.hpp"

namespace nvfp4r::sim {

namespace {

uint32_t class_bits(RegClass cls) {
    switch (cls) {
        case RegClass::b8: return 8;
        case RegClass::b16: return 16;
        case RegClass::b32: return 32;
        case RegClass::b64: return 64;
        case RegClass::b128: return 128;
        case RegClass::pred: return 1;
        case RegClass::none: break;
    }
    return 0;
}

const Variable* find_named(const std::vector<Variable>& list, std::string_view name) {
    for (const Variable& variable : list) {
        if (variable.name == name) return &variable;
    }
    return nullptr;
}

}  // namespace

// Targets look like sm_100a: digits and a suffix, of which `a` unlocks what only that GPU has and `f` its family.
StatementDecoder::StatementDecoder(const Link& link, size_t function, const Statement& statement)
    : link_(link),
      function_(link.functions[function]),
      shared_locals_(link.shared_locals[function]),
      statement_(statement) {
    const std::string& target = link.module->target;
    for (const char c : target) {
        if (std::isdigit(static_cast<unsigned char>(c)) && sm_ < 1000) sm_ = sm_ * 10 + static_cast<uint32_t>(c - '0');
    }
    arch_specific_ = !target.empty() && target.back() == 'a';
}

void StatementDecoder::refuse(std::string_view why) {
    refuse_statement(statement_, why);
}

const Operand& StatementDecoder::operand(size_t i) {
    if (i >= statement_.operands.size()) refuse(fmt::format("operand {} is missing", i + 1));
    return statement_.operands[i];
}

uint64_t StatementDecoder::immediate(const Operand& operand, uint32_t bits) {
    auto value = static_cast<uint64_t>(operand.imm);
    if (operand.is_float) {
        const bool single = operand.cls == RegClass::b32;
        const double number = single ? static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(value)))
                                     : std::bit_cast<double>(value);
        if (bits == 32) {
            if (!single) value = std::bit_cast<uint32_t>(static_cast<float>(number));
        } else if (bits == 64) {
            value = std::bit_cast<uint64_t>(number);
        } else {
            refuse(fmt::format("a floating-point constant of {} bits", bits));
        }
    }
    return bits < 64 ? value & ((uint64_t{1} << bits) - 1) : value;
}

const Variable* StatementDecoder::frame_variable(std::string_view name, uint64_t& local) const {
    const Function& function = *function_.function;
    const Variable* variable = find_named(function.locals, name);
    if (!variable && !function.is_entry) {
        variable = find_named(function.params, name);
        if (!variable) variable = find_named(function.returns, name);
    }
    if (!variable || (variable->space != StateSpace::local && variable->space != StateSpace::param)) return nullptr;
    local = function_.frame + variable->offset;
    return variable;
}

StateSpace StatementDecoder::symbol_space(const Operand& operand) {
    const Operand& named = operand.kind == OperandKind::address ? operand.parts.at(0) : operand;
    if (named.kind != OperandKind::symbol) return StateSpace::none;
    uint64_t local = 0;
    if (frame_variable(named.symbol, local)) return StateSpace::local;
    if (shared_locals_.contains(named.symbol)) return StateSpace::shared;
    if (function_.function->is_entry && find_named(function_.function->params, named.symbol)) return StateSpace::param;
    const Variable* variable = link_.module->find_variable(named.symbol);
    return variable ? variable->space : StateSpace::none;
}

Src StatementDecoder::symbol_address(const Operand& operand) {
    Src address;
    address.kind = Src::Kind::imm;
    const auto offset = static_cast<uint64_t>(operand.imm);
    uint64_t local = 0;
    if (frame_variable(operand.symbol, local)) {
        address.imm = local + offset;
        return address;
    }
    const Function& function = *function_.function;
    if (function.is_entry) {
        if (const Variable* param = find_named(function.params, operand.symbol)) {
            address.imm = param->offset + offset;
            return address;
        }
    }
    auto shared = shared_locals_.find(operand.symbol);
    if (shared == shared_locals_.end()) {
        shared = link_.shared.find(operand.symbol);
        if (shared == link_.shared.end()) {
            const Variable* variable = link_.module->find_variable(operand.symbol);
            if (!variable) refuse(fmt::format("`{}` is no variable", operand.symbol));
            if (variable->is_extern) refuse(fmt::format("`{}` is not defined in this module", operand.symbol));
            address.imm = variable->offset + offset;
            return address;
        }
    }
    address.kind = Src::Kind::shared;
    address.imm = shared->second + offset;
    return address;
}

Src StatementDecoder::src(size_t i, uint32_t bits) {
    return src(operand(i), bits);
}

Src StatementDecoder::src(const Operand& operand, uint32_t bits) {
    Src result;
    switch (operand.kind) {
        case OperandKind::reg:
            if (class_bits(operand.cls) < bits) {
                refuse(fmt::format("register {} has {} bits where {} are wanted",
                                   function_.function->register_names[operand.reg], class_bits(operand.cls), bits));
            }
            result.kind = Src::Kind::reg;
            result.slot = function_.registers + operand.reg;
            return result;
        case OperandKind::pred:
            result.kind = Src::Kind::pred;
            result.slot = function_.predicates + operand.reg;
            result.negated = operand.negated;
            return result;
        case OperandKind::special:
            result.kind = Src::Kind::special;
            result.slot = operand.reg;
            return result;
        case OperandKind::immediate:
            result.kind = Src::Kind::imm;
            result.imm = immediate(operand, bits);
            return result;
        case OperandKind::symbol: return symbol_address(operand);
        default: refuse_statement(statement_, "an operand is of a kind that has no value");
    }
}

uint32_t StatementDecoder::dst(size_t i) {
    return dst(operand(i));
}

uint32_t StatementDecoder::dst(const Operand& operand) {
    switch (operand.kind) {
        case OperandKind::reg: return function_.registers + operand.reg;
        case OperandKind::pred: return function_.predicates + operand.reg;
        case OperandKind::sink: return kSinkSlot;
        default: refuse_statement(statement_, "the destination is no register");
    }
}

Addr StatementDecoder::addr(size_t i) {
    return addr(operand(i));
}

Addr StatementDecoder::addr(const Operand& operand) {
    if (operand.kind != OperandKind::address) refuse("an address in brackets is expected");
    Addr result;
    result.offset = operand.imm;
    const Operand& base = operand.parts.at(0);
    if (base.kind == OperandKind::none) return result;
    if (base.kind == OperandKind::reg && class_bits(base.cls) < 32) refuse("an address register of 32 or 64 bits");
    result.base = src(base, 0);
    // A known address needs no base.
    if (result.base.kind == Src::Kind::imm) {
        result.offset = static_cast<int64_t>(static_cast<uint64_t>(result.offset) + result.base.imm);
        result.base = Src{};
    }
    return result;
}

uint32_t StatementDecoder::label(size_t i) {
    if (operand(i).kind != OperandKind::label) refuse("a label is expected");
    return function_.code_of_statement[static_cast<size_t>(operand(i).imm)];
}

std::vector<uint32_t> StatementDecoder::branch_table(size_t i) {
    if (operand(i).kind != OperandKind::label) refuse("the label of a .branchtargets list is expected");
    std::vector<uint32_t> targets;
    for (const uint32_t statement : function_.function->branch_tables[static_cast<size_t>(operand(i).imm)]) {
        targets.push_back(function_.code_of_statement[statement]);
    }
    return targets;
}

}  // namespace nvfp4r::sim
