// The body of a function: scopes, declarations, statements and labels.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sim/ptx/ast.hpp"
#include "sim/ptx/declaration.hpp"
#include "sim/ptx/lexer.hpp"

namespace nvfp4r::sim {

/// Parses one function's parameters and body into `function`. Scopes follow the braces: a name declared in one is not
/// seen outside it, and a label is looked for from the inside out (PTX ISA 4.4, 9.7.12).
class FunctionParser {
  public:
    FunctionParser(Cursor& cursor, Module& module, Function& function, std::string_view source);

    /// "( .param ... )" of the entry or device function; `returns` picks the list in front of the name.
    void parse_parameters(bool returns);
    /// From "{" to "}".
    void parse_body();

  private:
    enum class NameKind : uint8_t { reg, pred, variable, table };
    struct Name {
        NameKind kind = NameKind::reg;
        RegClass cls = RegClass::none;
        uint32_t slot = 0;   // register, predicate, or index of a branch table
        std::string symbol;  // variable: its unique name
    };
    struct Range {
        std::string prefix;
        uint32_t count = 0;
        RegClass cls = RegClass::none;
    };
    struct Scope {
        size_t parent = 0;
        std::unordered_map<std::string, Name> names;
        std::vector<Range> ranges;
        std::unordered_map<std::string, uint32_t> labels;
        uint64_t frame_mark = 0;  // frame bytes in use when the scope opened
    };
    struct LabelUse {
        size_t statement, operand, scope;
        Token token;
    };
    struct TableUse {
        uint32_t table;
        size_t scope;
        std::vector<Token> labels;
    };

    void parse_block();
    void parse_directive();
    void parse_registers();
    void parse_variables(StateSpace space);
    void parse_label();
    void parse_statement();
    void parse_branch_targets(const std::string& label);
    void skip_statement();

    Operand parse_operand(int depth);
    Operand parse_primary(int depth);
    Operand parse_list(std::string_view close, int depth);
    Operand parse_address(int depth);
    Operand parse_immediate();
    Operand parse_name();
    int64_t parse_offset();
    void parse_operands(Statement& statement, const Token& opcode);
    void take_label(Statement& statement);

    Name* find_name(const std::string& name);
    Name* find_in_scope(Scope& scope, const std::string& name);
    Name new_register(const std::string& name, RegClass cls);
    void declare(const Token& where, const std::string& name, Name what);
    void add_variable(const Token& where, Variable variable);
    uint64_t frame(uint64_t bytes, uint64_t align);
    uint32_t find_label(const Token& token, size_t scope) const;
    void resolve_labels();
    void end_with_return();

    Cursor& cursor_;
    Module& module_;
    Function& function_;
    std::string_view source_;
    std::vector<Scope> scopes_;
    size_t scope_ = 0;
    std::vector<LabelUse> label_uses_;
    std::vector<TableUse> table_uses_;
    uint64_t frame_ = 0;
    uint32_t renamed_ = 1;
    SourceLoc loc_;
};

/// ".loc file line column{, function_name label{+n}, inlined_at file line column}"; the cursor stands behind .loc.
void parse_loc(Cursor& cursor, SourceLoc& loc);
/// ".file index "name"{, time, size}"; the cursor stands behind .file.
void parse_file(Cursor& cursor, Module& module);

}  // namespace nvfp4r::sim
