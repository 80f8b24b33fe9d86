// An entry and the device functions it calls, laid out as one program: where each function's code, registers and frame
// lie, and where each .shared variable lies.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/program/instr.hpp"

namespace nvfp4r::sim {

/// One function in the program. No function is entered twice at a time (recursion is refused), so that each has one
/// set of registers and one frame per thread.
struct LinkedFunction {
    const Function* function = nullptr;
    uint32_t code = 0;        // first instruction
    uint32_t registers = 0;   // first slot
    uint32_t predicates = 0;  // first slot
    uint64_t frame = 0;       // first byte in local memory
    std::vector<uint32_t> code_of_statement;
    std::vector<uint32_t> mentions;  // of each register slot in the function's text
};

struct Link {
    const Module* module = nullptr;
    std::vector<LinkedFunction> functions;                                    // the entry first
    std::map<std::string, uint64_t, std::less<>> shared;                      // module-scope variable -> window offset
    std::vector<std::map<std::string, uint64_t, std::less<>>> shared_locals;  // of each function

    const LinkedFunction* find(std::string_view name) const;
};

/// Throws Error(NVFP4R_UNSUPPORTED) on recursion and on a call of a function without a body. Fills the sizes of
/// `program`.
Link link_program(const Module& module, const Function& entry, Program& program);

/// The function that a call statement names; nullptr for an indirect call.
const Operand* callee_operand(const Statement& call);

/// The code of a call: the call itself, and what runs when it returns.
inline constexpr uint32_t kCallInstrs = 2;

/// Refuses a statement: Error(NVFP4R_UNSUPPORTED) with its line and text.
[[noreturn]] void refuse_statement(const Statement& statement, std::string_view why);

}  // namespace nvfp4r::sim
