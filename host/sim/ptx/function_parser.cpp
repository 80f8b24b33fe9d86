#include "sim/ptx/function_parser.hpp"

#include <algorithm>
#include <cctype>

#include "core/error.hpp"

namespace nvfp4r::sim {

namespace {

constexpr size_t kMaxScopeDepth = 200;
constexpr uint64_t kMaxFrameBytes = 1 << 20;  // CUDA allows 512 KiB of local memory a thread
constexpr uint64_t kMaxParamBytes = 32764;    // PTX ISA 5.1.6.1: parameter block of an entry on sm_70 and up
constexpr uint64_t kMaxSourceNumber = UINT32_MAX;

uint64_t align_up(uint64_t value, uint64_t align) {
    return (value + align - 1) / align * align;
}

}  // namespace

FunctionParser::FunctionParser(Cursor& cursor, Module& module, Function& function, std::string_view source)
    : cursor_(cursor), module_(module), function_(function), source_(source), scopes_(1) {}

void FunctionParser::parse_parameters(bool returns) {
    cursor_.expect("(");
    std::vector<Variable>& list = returns ? function_.returns : function_.params;
    while (!cursor_.accept(")")) {
        if (!list.empty()) cursor_.expect(",");
        const Token where = cursor_.next();
        const bool in_register = where.is(".reg");
        if (!in_register && !where.is(".param")) {
            fail_at(where, fmt::format("`{}` found where .param or .reg is expected", where.text));
        }
        Declarator declarator = parse_declarator(cursor_, in_register ? StateSpace::reg : StateSpace::param, nullptr);
        Variable& variable = declarator.variable;
        if (in_register) {
            if (function_.is_entry) fail_at(where, "an entry's parameters are .param");
            const Name name = new_register(variable.name, declarator.type.cls);
            variable.offset = name.slot;
            declare(where, variable.name, name);
        } else {
            if (function_.is_entry) {
                variable.offset = align_up(function_.param_bytes, variable.align);
                function_.param_bytes = variable.offset + variable.size;
                if (function_.param_bytes > kMaxParamBytes) fail_at(where, "the parameters exceed 32,764 bytes");
            } else {
                variable.offset = frame(variable.size, variable.align);
            }
            declare(where, variable.name, {NameKind::variable, declarator.type.cls, 0, variable.name});
        }
        list.push_back(variable);
    }
}

void FunctionParser::parse_body() {
    cursor_.expect("{");
    parse_block();
    resolve_labels();
    end_with_return();
}

// Statements up to and including the closing brace. Nested braces are kept on a list, not on the call stack.
void FunctionParser::parse_block() {
    size_t depth = 0;
    for (;;) {
        if (cursor_.at_end()) fail_at(cursor_.peek(), "the text ends inside a function");
        if (cursor_.accept(";")) continue;
        if (cursor_.at("{")) {
            if (++depth > kMaxScopeDepth) fail_at(cursor_.peek(), "braces nested too deeply");
            cursor_.next();
            Scope inner;
            inner.parent = scope_;
            inner.frame_mark = frame_;
            scopes_.push_back(std::move(inner));
            scope_ = scopes_.size() - 1;
        } else if (cursor_.accept("}")) {
            if (depth-- == 0) return;
            // Variables of sibling scopes share their place in the frame: call sequences would add up otherwise.
            frame_ = scopes_[scope_].frame_mark;
            scope_ = scopes_[scope_].parent;
        } else if (cursor_.peek().kind == TokenKind::dotted) {
            parse_directive();
        } else if (cursor_.peek().kind == TokenKind::word && cursor_.peek(1).is(":")) {
            parse_label();
        } else {
            parse_statement();
        }
    }
}

void FunctionParser::parse_directive() {
    const Token directive = cursor_.next();
    StateSpace space;
    if (directive.is(".reg")) {
        parse_registers();
    } else if (find_space(directive.text, space)) {
        parse_variables(space);
    } else if (directive.is(".loc")) {
        parse_loc(cursor_, loc_);
    } else if (directive.is(".file")) {
        parse_file(cursor_, module_);
    } else if (directive.is(".pragma")) {
        skip_statement();
    } else {
        fail_at(directive, fmt::format("directive {} inside a function is not modelled", directive.text));
    }
}

void FunctionParser::parse_registers() {
    Declarator declarator;
    bool first = true;
    do {
        const Token where = cursor_.peek();
        declarator = parse_declarator(cursor_, StateSpace::reg, first ? nullptr : &declarator);
        first = false;
        const std::string& name = declarator.variable.name;
        if (declarator.is_array) fail_at(where, fmt::format("`{}`: an array of registers", name));
        if (declarator.count) {
            scopes_[scope_].ranges.push_back({name, declarator.count, declarator.type.cls});
        } else {
            declare(where, name, new_register(name, declarator.type.cls));
        }
    } while (cursor_.accept(","));
    cursor_.expect(";");
}

void FunctionParser::parse_variables(StateSpace space) {
    Declarator declarator;
    bool first = true;
    do {
        const Token where = cursor_.peek();
        declarator = parse_declarator(cursor_, space, first ? nullptr : &declarator);
        first = false;
        if (declarator.type.cls == RegClass::pred) fail_at(where, "a predicate outside .reg");
        const std::string name = declarator.variable.name;
        const uint32_t count = declarator.count;
        if (count == 0) add_variable(where, declarator.variable);
        for (uint32_t i = 0; i < count; ++i) {
            declarator.variable.name = name + std::to_string(i);
            add_variable(where, declarator.variable);
        }
    } while (cursor_.accept(","));
    cursor_.expect(";");
}

void FunctionParser::add_variable(const Token& where, Variable variable) {
    const std::string name = variable.name;
    auto taken = [&](const std::string& candidate) {
        auto same = [&](const Variable& other) { return other.name == candidate; };
        return std::any_of(function_.locals.begin(), function_.locals.end(), same) ||
               std::any_of(function_.params.begin(), function_.params.end(), same) ||
               std::any_of(function_.returns.begin(), function_.returns.end(), same) ||
               module_.find_variable(candidate) != nullptr;
    };
    const bool module_wide = variable.space == StateSpace::global || variable.space == StateSpace::constant;
    if (variable.space == StateSpace::local || variable.space == StateSpace::param) {
        variable.offset = frame(variable.size, variable.align);
    }
    // Statements refer to variables by name, so a name that a second scope reuses gets a number. A call sequence is
    // the common case: its param0 and retval0 are told apart by their number alone.
    if (taken(name)) variable.name = fmt::format("{}.{}", name, renamed_++);
    declare(where, name, {NameKind::variable, RegClass::none, 0, variable.name});
    (module_wide ? module_.globals : function_.locals).push_back(std::move(variable));
}

void FunctionParser::parse_label() {
    const Token label = cursor_.next();
    cursor_.expect(":");
    const std::string name(label.text);
    if (cursor_.accept(".branchtargets")) {
        parse_branch_targets(name);
        return;
    }
    // Targets and prototypes of indirect calls; the call itself is refused when it is decoded.
    if (cursor_.accept(".calltargets") || cursor_.accept(".callprototype")) {
        declare(label, name, {NameKind::variable, RegClass::none, 0, name});
        skip_statement();
        return;
    }
    const auto index = static_cast<uint32_t>(function_.statements.size());
    if (!scopes_[scope_].labels.emplace(name, index).second) {
        fail_at(label, fmt::format("label `{}` is already defined in this scope", name));
    }
    function_.labels[index].push_back(name);
}

void FunctionParser::parse_branch_targets(const std::string& label) {
    TableUse use;
    use.table = static_cast<uint32_t>(function_.branch_tables.size());
    use.scope = scope_;
    const Token where = cursor_.peek();
    do {
        use.labels.push_back(cursor_.expect(TokenKind::word, "a label"));
    } while (cursor_.accept(","));
    cursor_.expect(";");
    function_.branch_tables.emplace_back();
    declare(where, label, {NameKind::table, RegClass::none, use.table, label});
    table_uses_.push_back(std::move(use));
}

void FunctionParser::skip_statement() {
    while (!cursor_.accept(";")) {
        if (cursor_.at_end()) fail_at(cursor_.peek(), "the text ends inside a directive");
        cursor_.next();
    }
}

FunctionParser::Name* FunctionParser::find_in_scope(Scope& scope, const std::string& name) {
    const auto found = scope.names.find(name);
    if (found != scope.names.end()) return &found->second;
    // A member of a range %r<n> gets its slot when it is first met: compilers declare many more than they use.
    size_t digits = name.size();
    while (digits > 0 && std::isdigit(static_cast<unsigned char>(name[digits - 1]))) --digits;
    if (digits == name.size()) return nullptr;
    for (size_t split = digits; split < name.size(); ++split) {
        uint64_t index = 0;
        const std::string_view number = std::string_view(name).substr(split);
        if (number.size() > 1 && number[0] == '0') continue;
        for (char c : number) index = std::min<uint64_t>(index * 10 + static_cast<uint64_t>(c - '0'), UINT32_MAX);
        for (const Range& range : scope.ranges) {
            if (range.prefix.size() == split && name.compare(0, split, range.prefix) == 0 && index < range.count) {
                return &scope.names.emplace(name, new_register(name, range.cls)).first->second;
            }
        }
    }
    return nullptr;
}

FunctionParser::Name* FunctionParser::find_name(const std::string& name) {
    for (size_t scope = scope_;; scope = scopes_[scope].parent) {
        if (Name* found = find_in_scope(scopes_[scope], name)) return found;
        if (scope == 0) return nullptr;
    }
}

FunctionParser::Name FunctionParser::new_register(const std::string& name, RegClass cls) {
    Name result;
    result.cls = cls;
    if (cls == RegClass::pred) {
        result.kind = NameKind::pred;
        result.slot = function_.predicates++;
        function_.predicate_names.push_back(name);
        return result;
    }
    result.kind = NameKind::reg;
    result.slot = function_.registers;
    const uint32_t slots = cls == RegClass::b128 ? 2 : 1;
    function_.registers += slots;
    function_.register_names.insert(function_.register_names.end(), slots, name);
    return result;
}

void FunctionParser::declare(const Token& where, const std::string& name, Name what) {
    if (!scopes_[scope_].names.emplace(name, std::move(what)).second) {
        fail_at(where, fmt::format("`{}` is already declared in this scope", name));
    }
}

uint64_t FunctionParser::frame(uint64_t bytes, uint64_t align) {
    const uint64_t offset = align_up(frame_, align);
    if (offset + bytes > kMaxFrameBytes) {
        fail(NVFP4R_COMPILE_ERROR, "function {}: its local variables exceed 1 MiB", function_.name);
    }
    frame_ = offset + bytes;
    function_.frame_bytes = std::max(function_.frame_bytes, frame_);
    return offset;
}

uint32_t FunctionParser::find_label(const Token& token, size_t scope) const {
    const std::string name(token.text);
    for (;; scope = scopes_[scope].parent) {
        const auto found = scopes_[scope].labels.find(name);
        if (found != scopes_[scope].labels.end()) return found->second;
        if (scope == 0) fail_at(token, fmt::format("label `{}` is not defined in this function", name));
    }
}

void FunctionParser::resolve_labels() {
    for (const LabelUse& use : label_uses_) {
        function_.statements[use.statement].operands[use.operand].imm = find_label(use.token, use.scope);
    }
    for (const TableUse& use : table_uses_) {
        for (const Token& label : use.labels) {
            function_.branch_tables[use.table].push_back(find_label(label, use.scope));
        }
    }
}

// Running off the end returns. An explicit ret makes that an instruction, and gives a label at the end its statement.
void FunctionParser::end_with_return() {
    Statement last;
    last.opcode = "ret";
    last.text = "ret (end of the function)";
    last.loc = loc_;
    last.loc.ptx_line = cursor_.peek().line;
    function_.statements.push_back(std::move(last));
}

void parse_loc(Cursor& cursor, SourceLoc& loc) {
    loc.file = static_cast<uint32_t>(cursor.expect_integer("a file index", kMaxSourceNumber));
    loc.line = static_cast<uint32_t>(cursor.expect_integer("a source line", kMaxSourceNumber));
    cursor.expect_integer("a source column", kMaxSourceNumber);
    while (cursor.accept(",")) {
        if (cursor.accept("function_name")) {
            cursor.expect(TokenKind::word, "a label");
            if (cursor.accept("+")) cursor.expect_integer("an offset", kMaxSourceNumber);
        } else {
            cursor.expect("inlined_at");
            for (const char* what : {"a file index", "a source line", "a source column"}) {
                cursor.expect_integer(what, kMaxSourceNumber);
            }
        }
    }
}

void parse_file(Cursor& cursor, Module& module) {
    const auto index = static_cast<uint32_t>(cursor.expect_integer("a file index", kMaxSourceNumber));
    module.files[index] = cursor.expect(TokenKind::string, "a file name").text;
    while (cursor.accept(",")) cursor.expect_integer("a time or size", UINT64_MAX);
}

}  // namespace nvfp4r::sim
