#include "sim/program/link.hpp"

#include <algorithm>
#include <set>

#include "core/error.hpp"
#include "sim/machine/machine.hpp"
#include "sim/program/system_call.hpp"

namespace nvfp4r::sim {

namespace {

void count_mentions(const Operand& operand, std::vector<uint32_t>& mentions) {
    if (operand.kind == OperandKind::reg) ++mentions[operand.reg];
    for (const Operand& part : operand.parts) count_mentions(part, mentions);
}

constexpr uint64_t kFrameAlign = 16;
constexpr uint64_t kMaxSlots = 1 << 20;
constexpr uint64_t kMaxStaticShared = 48 * 1024;  // ptxas refuses more on every target (isa.md 14)

uint64_t align_up(uint64_t value, uint64_t align) {
    return (value + align - 1) / align * align;
}

void collect_symbols(const Operand& operand, std::set<std::string, std::less<>>& names) {
    if (operand.kind == OperandKind::symbol) names.insert(operand.symbol);
    for (const Operand& part : operand.parts) collect_symbols(part, names);
}

class Linker {
  public:
    Linker(const Module& module, Program& program) : program_(program) { link_.module = &module; }

    Link run(const Function& entry) {
        visit(entry);
        lay_out_shared();
        return std::move(link_);
    }

  private:
    void visit(const Function& function) {
        open_.push_back(&function);
        add(function);
        for (const Statement& statement : function.statements) {
            for (const Operand& operand : statement.operands) collect_symbols(operand, used_);
            if (statement.opcode != "call") continue;
            const Operand* name = callee_operand(statement);
            if (!name) refuse_statement(statement, "an indirect call is not modelled");
            const Function* callee = link_.module->find(name->symbol);
            if (!callee || callee->is_entry) refuse_statement(statement, "the callee is not a device function");
            if (!callee->has_body && !is_system_call(*callee)) {
                refuse_statement(statement, fmt::format("function {} has no body in this module", callee->name));
            }
            if (std::find(open_.begin(), open_.end(), callee) != open_.end()) {
                refuse_statement(statement, fmt::format("recursion through {} is not modelled", callee->name));
            }
            if (!link_.find(callee->name)) visit(*callee);
        }
        open_.pop_back();
    }

    void add(const Function& function) {
        LinkedFunction linked;
        linked.function = &function;
        linked.code = code_;
        linked.registers = program_.registers;
        linked.predicates = program_.predicates;
        linked.frame = program_.local_bytes;
        for (const Statement& statement : function.statements) {
            linked.code_of_statement.push_back(code_);
            code_ += statement.opcode == "call" ? kCallInstrs : 1;
        }
        if (!function.has_body) ++code_;  // a system call
        program_.registers += function.registers;
        program_.predicates += function.predicates;
        program_.local_bytes = align_up(program_.local_bytes + function.frame_bytes, kFrameAlign);
        if (program_.registers > kMaxSlots || program_.predicates > kMaxSlots) {
            fail(NVFP4R_UNSUPPORTED, "entry {}: more than {} registers a thread",
                 link_.functions.front().function->name, kMaxSlots);
        }
        linked.mentions.assign(linked.function->registers, 0);
        for (const Statement& statement : linked.function->statements)
            for (const Operand& operand : statement.operands) count_mentions(operand, linked.mentions);
        link_.functions.push_back(std::move(linked));
    }

    // ptxas places .shared variables in the order of their declaration; those of the module first, as far as they are
    // used. All unsized ones start together behind them.
    void lay_out_shared() {
        uint64_t next = kSharedReserved, dynamic_align = 1;
        auto place = [&](const Variable& variable) {
            const uint64_t offset = align_up(next, variable.align);
            next = offset + variable.size;
            return offset;
        };
        for (const Variable& variable : link_.module->globals) {
            if (variable.space != StateSpace::shared || !used_.contains(variable.name)) continue;
            if (variable.size == 0) {
                dynamic_align = std::max<uint64_t>(dynamic_align, variable.align);
            } else {
                link_.shared[variable.name] = place(variable);
            }
        }
        for (const LinkedFunction& linked : link_.functions) {
            link_.shared_locals.emplace_back();
            for (const Variable& variable : linked.function->locals) {
                if (variable.space == StateSpace::shared) link_.shared_locals.back()[variable.name] = place(variable);
            }
        }
        program_.static_shared = next - kSharedReserved;
        program_.dynamic_shared = align_up(next, dynamic_align);
        if (program_.static_shared > kMaxStaticShared) {
            fail(NVFP4R_UNSUPPORTED, "entry {}: {} bytes of static shared memory, at most {} are possible",
                 link_.functions.front().function->name, program_.static_shared, kMaxStaticShared);
        }
        for (const Variable& variable : link_.module->globals) {
            if (variable.space == StateSpace::shared && variable.size == 0) {
                link_.shared[variable.name] = program_.dynamic_shared;
            }
        }
    }

    Program& program_;
    Link link_;
    std::vector<const Function*> open_;
    std::set<std::string, std::less<>> used_;
    uint32_t code_ = 0;
};

}  // namespace

const LinkedFunction* Link::find(std::string_view name) const {
    for (const LinkedFunction& linked : functions) {
        if (linked.function->name == name) return &linked;
    }
    return nullptr;
}

Link link_program(const Module& module, const Function& entry, Program& program) {
    return Linker(module, program).run(entry);
}

// call{.uni} {(returns),} callee {, (arguments) {, prototype}}
const Operand* callee_operand(const Statement& call) {
    for (const Operand& operand : call.operands) {
        if (operand.kind == OperandKind::vector) continue;
        return operand.kind == OperandKind::symbol ? &operand : nullptr;
    }
    return nullptr;
}

void refuse_statement(const Statement& statement, std::string_view why) {
    fail(NVFP4R_UNSUPPORTED, "PTX line {}: `{}`: {}", statement.loc.ptx_line, statement.text, why);
}

}  // namespace nvfp4r::sim
