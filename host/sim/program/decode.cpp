#include "core/error.hpp"
#include "sim/program/call.hpp"
#include "sim/program/link.hpp"
#include "sim/program/statement_decoder.hpp"
#include "sim/program/system_call.hpp"

namespace nvfp4r::sim {

namespace {

// Atomics, and loads and stores stronger than weak, of memory that other CTAs see: CTAs may wait for one another.
bool communicates(const Statement& statement) {
    const std::string& opcode = statement.opcode;
    if (statement.has("shared") || statement.has("shared::cta") || statement.has("local")) return false;
    if (opcode == "atom" || opcode == "red") return true;
    if (opcode != "ld" && opcode != "st") return false;
    for (const char* order : {"relaxed", "acquire", "release", "volatile", "mmio"}) {
        if (statement.has(order)) return true;
    }
    return false;
}

Instr decode_statement(StatementDecoder& decoder) {
    const Family* family = find_family(decoder.statement());
    if (!family) decoder.refuse(fmt::format("instruction {} is not modelled", decoder.statement().opcode));
    Instr instr = family->decode(decoder);
    if (!instr.exec) decoder.refuse(fmt::format("family {} does not decode it", family->name));
    return instr;
}

void decode_function(const Link& link, size_t index, Program& program) {
    const LinkedFunction& linked = link.functions[index];
    if (!linked.function->has_body) program.code.push_back(decode_system_call(linked));
    for (const Statement& statement : linked.function->statements) {
        StatementDecoder decoder(link, index, statement);
        const size_t first = program.code.size();
        if (statement.opcode == "call") {
            decode_call(link, decoder, program.code);
        } else {
            program.code.push_back(decode_statement(decoder));
        }
        for (size_t i = first; i < program.code.size(); ++i) {
            Instr& instr = program.code[i];
            instr.statement = &statement;
            if (statement.guard.kind == OperandKind::none) continue;
            instr.guarded = true;
            instr.guard = linked.predicates + statement.guard.reg;
            instr.guard_negated = statement.guard.negated;
        }
        program.communicates |= communicates(statement);
    }
}

}  // namespace

std::unique_ptr<Program> decode_program(const Module& module, const Function& entry) {
    auto program = std::make_unique<Program>();
    program->module = &module;
    program->entry = &entry;
    const Link link = link_program(module, entry, *program);
    for (size_t i = 0; i < link.functions.size(); ++i) decode_function(link, i, *program);
    return program;
}

}  // namespace nvfp4r::sim
