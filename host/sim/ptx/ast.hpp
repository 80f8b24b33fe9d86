// The parsed form of a PTX module: names are resolved to slots, nothing is interpreted yet.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace nvfp4r::sim {

/// Where a statement stands: the PTX line, and the source line that `.loc` names (file 0: none).
struct SourceLoc {
    uint32_t ptx_line = 0;
    uint32_t file = 0;
    uint32_t line = 0;
};

enum class StateSpace : uint8_t { none, reg, global, shared, shared_cluster, local, param, constant, generic };

/// Register classes. A slot is 64 bits a lane, except predicates, which are one mask a warp.
enum class RegClass : uint8_t { none, pred, b8, b16, b32, b64, b128 };

enum class OperandKind : uint8_t {
    none,
    reg,        // `reg` = slot (b128: two slots, low half first)
    pred,       // `reg` = predicate slot; `negated` for !p
    special,    // `reg` = SpecialRegister
    immediate,  // `imm`; 0f/0d literals as their bits, with is_float set (0f: f32 bits, 0d: f64 bits)
    sink,       // _
    symbol,     // variable, function or parameter: `symbol`; imm = offset (sym+4)
    label,      // branch target: `imm` = index into Function::statements, or (brx.idx) into Function::branch_tables
    address,  // [base + imm]: parts[0] = reg/symbol/immediate base (none: absolute). Tensor form: parts[1] = vector of
              // coordinates
    vector,   // {a, b, ...}: parts
    pair      // d|p: parts[0], parts[1]
};

struct Operand {
    OperandKind kind = OperandKind::none;
    RegClass cls = RegClass::none;
    bool negated = false;   // !p
    bool minus = false;     // -x on a register or symbol
    bool is_float = false;  // immediate: cls b32 when written as 0f (f32 bits), else b64 (f64 bits)
    uint32_t reg = 0;
    int64_t imm = 0;
    std::string symbol;
    std::vector<Operand> parts;
};

/// One instruction as written. `opcode` is the text before the first dot, `modifiers` the dotted rest in order, with
/// "::" kept inside one modifier: tcgen05.mma.cta_group::1.kind::f16 -> "tcgen05", {"mma", "cta_group::1",
/// "kind::f16"}.
struct Statement {
    Operand guard;  // kind pred, or none
    std::string opcode;
    std::vector<std::string> modifiers;
    std::vector<Operand> operands;
    SourceLoc loc;
    std::string text;  // the statement as written, for messages

    bool has(std::string_view modifier) const;
};

/// Bytes of an initialiser that are an address: known only when the module is loaded.
struct Relocation {
    uint64_t at = 0;     // first byte within the variable
    uint32_t bytes = 8;  // how many of the address's bytes are stored
    uint32_t shift = 0;  // first stored bit of the address: 8 for 0xFF00(symbol)
    std::string symbol;
    int64_t addend = 0;
    bool generic = false;  // generic(symbol)
};

/// A variable in any state space, or a parameter.
struct Variable {
    std::string name;
    StateSpace space = StateSpace::none;
    uint64_t size = 0;  // bytes; 0 for an unsized extern .shared array
    uint32_t align = 1;
    bool is_extern = false;
    std::vector<uint8_t> initial;  // may be shorter than size: the rest is zero
    std::vector<Relocation> relocations;
    // Entry parameters: byte in the parameter block. .local, .param variables and device-function parameters: byte in
    // the function's frame. .global and .const: the device address, which the loader sets before it decodes an entry.
    // .shared: laid out for each entry by decode_program, unused here.
    uint64_t offset = 0;
    SourceLoc loc;
};

struct Function {
    std::string name;
    bool is_entry = false;
    bool has_body = false;  // false: a prototype (vprintf, __assertfail)
    std::vector<Variable> params;
    std::vector<Variable> returns;  // device functions
    uint64_t param_bytes = 0;       // entries: size of the parameter block
    uint64_t frame_bytes = 0;       // .local and .param variables, device-function parameters and return values
    std::vector<Variable>
        locals;  // .local and .shared and .param variables declared inside; names are unique after scoping
    std::vector<Statement> statements;
    std::map<uint32_t, std::vector<std::string>> labels;  // statement index -> labels in front of it, for messages
    std::vector<std::vector<uint32_t>> branch_tables;     // brx.idx target lists
    uint32_t registers = 0;                               // 64-bit slots in use
    uint32_t predicates = 0;
    std::vector<std::string> register_names;  // slot -> name, for messages
    std::vector<std::string> predicate_names;
    // Performance directives; 0 = not given.
    uint32_t max_threads[3] = {0, 0, 0};
    uint32_t required_threads[3] = {0, 0, 0};
    uint32_t min_ctas_per_sm = 0;
    uint32_t max_registers = 0;
    bool explicit_cluster = false;
    bool blocks_are_clusters = false;
    uint32_t required_cluster[3] = {0, 0, 0};
    uint32_t max_cluster_rank = 0;
    SourceLoc loc;
};

struct Module {
    uint32_t version_major = 0, version_minor = 0;
    std::string target;             // "sm_100a"
    std::vector<Variable> globals;  // .global, .const and module-scope .shared
    std::vector<Function> functions;
    std::map<uint32_t, std::string> files;
    std::string source;  // the text, for quoting lines
    /// The definition if there is one, else a prototype; nullptr when there is neither.
    const Function* find(std::string_view name) const;
    const Variable* find_variable(std::string_view name) const;
};

/// Parses PTX text. Throws Error(NVFP4R_COMPILE_ERROR) with line, column and the offending text. Never crashes on bad
/// input.
std::unique_ptr<Module> parse_ptx(std::string_view text);

}  // namespace nvfp4r::sim
