// Direct calls of device functions (PTX ISA 9.7.12.5): arguments are copied into the callee's parameters, and its
// return values into the caller's variables when it returns.
#pragma once

#include "sim/program/statement_decoder.hpp"

namespace nvfp4r::sim {

/// Appends the kCallInstrs instructions of the call to `code`.
void decode_call(const Link& link, StatementDecoder& decoder, std::vector<Instr>& code);

}  // namespace nvfp4r::sim
