// Instructions and their operands (PTX ISA 6, 9.1).
#include <cctype>

#include "core/error.hpp"
#include "sim/ptx/constant.hpp"
#include "sim/ptx/function_parser.hpp"
#include "sim/ptx/special_register.hpp"

namespace nvfp4r::sim {

namespace {

constexpr int kMaxOperandDepth = 8;
constexpr size_t kMaxQuotedText = 240;

// Blanks, line ends and comments of the source as single spaces.
std::string quoted(std::string_view text) {
    std::string out;
    for (char c : text) {
        if (std::isspace(static_cast<unsigned char>(c))) c = ' ';
        if (c == ' ' && (out.empty() || out.back() == ' ')) continue;
        out.push_back(c);
    }
    while (!out.empty() && out.back() == ' ') out.pop_back();
    if (out.size() > kMaxQuotedText) out = out.substr(0, kMaxQuotedText) + " ...";
    return out;
}

}  // namespace

void FunctionParser::parse_statement() {
    const Token start = cursor_.peek();
    Statement statement;
    if (cursor_.accept("@")) {
        const bool negated = cursor_.accept("!");
        const Token name = cursor_.peek();
        statement.guard = parse_name();
        if (statement.guard.kind != OperandKind::pred) {
            fail_at(name, fmt::format("`{}` guards an instruction and is not a predicate", name.text));
        }
        statement.guard.negated = negated;
    }
    const Token opcode = cursor_.expect(TokenKind::word, "an instruction");
    statement.opcode = opcode.text;
    while (cursor_.peek().kind == TokenKind::dotted) {
        statement.modifiers.emplace_back(cursor_.next().text.substr(1));
    }
    statement.loc = loc_;
    statement.loc.ptx_line = opcode.line;
    if (!cursor_.at(";")) parse_operands(statement, opcode);
    const Token end = cursor_.expect(";");
    statement.text = quoted(source_.substr(start.offset, end.offset - start.offset));
    function_.statements.push_back(std::move(statement));
}

void FunctionParser::parse_operands(Statement& statement, const Token& opcode) {
    const bool is_call = opcode.is("call");
    do {
        if (opcode.is("bra")) {
            take_label(statement);
        } else if (is_call && cursor_.accept("(")) {
            statement.operands.push_back(parse_list(")", 0));
        } else {
            statement.operands.push_back(parse_operand(0));
        }
    } while (cursor_.accept(","));
}

void FunctionParser::take_label(Statement& statement) {
    const Token token = cursor_.expect(TokenKind::word, "a label");
    Operand label;
    label.kind = OperandKind::label;
    label.symbol = token.text;
    label_uses_.push_back({function_.statements.size(), statement.operands.size(), scope_, token});
    statement.operands.push_back(std::move(label));
}

// A primary, or d|p.
Operand FunctionParser::parse_operand(int depth) {
    Operand first = parse_primary(depth);
    if (!cursor_.accept("|")) return first;
    Operand pair;
    pair.kind = OperandKind::pair;
    pair.parts.push_back(std::move(first));
    pair.parts.push_back(parse_primary(depth + 1));
    return pair;
}

Operand FunctionParser::parse_primary(int depth) {
    const Token token = cursor_.peek();
    if (depth > kMaxOperandDepth) fail_at(token, "operands nested too deeply");
    if (cursor_.accept("{")) return parse_list("}", depth + 1);
    if (cursor_.accept("[")) return parse_address(depth + 1);
    if (cursor_.accept("!")) {
        Operand operand = parse_name();
        if (operand.kind != OperandKind::pred) fail_at(token, "`!` in front of an operand that is not a predicate");
        operand.negated = true;
        return operand;
    }
    if (token.is("_")) {
        cursor_.next();
        Operand sink;
        sink.kind = OperandKind::sink;
        return sink;
    }
    if (token.kind == TokenKind::word && !token.is("WARP_SZ")) return parse_name();
    if (!at_constant(cursor_)) fail_at(token, fmt::format("`{}` found where an operand is expected", token.text));
    return parse_immediate();
}

Operand FunctionParser::parse_list(std::string_view close, int depth) {
    Operand list;
    list.kind = OperandKind::vector;
    if (cursor_.accept(close)) return list;
    do {
        list.parts.push_back(parse_operand(depth));
    } while (cursor_.accept(","));
    cursor_.expect(close);
    return list;
}

Operand FunctionParser::parse_immediate() {
    const Constant constant = parse_constant(cursor_);
    Operand operand;
    operand.kind = OperandKind::immediate;
    operand.is_float = constant.is_float;
    operand.cls = constant.is_single ? RegClass::b32 : RegClass::b64;
    operand.imm = static_cast<int64_t>(constant.value);
    return operand;
}

int64_t FunctionParser::parse_offset() {
    uint64_t sum = 0;
    while (cursor_.at("+") || cursor_.at("-")) {
        const Token sign = cursor_.next();
        const Constant term = parse_constant_term(cursor_);
        if (term.is_float) fail_at(sign, "a floating-point address offset");
        sum += sign.is("-") ? uint64_t{0} - term.value : term.value;
    }
    return static_cast<int64_t>(sum);
}

// [base + n], [n], and the tensor forms [map, {coordinates}{, {offsets}}].
Operand FunctionParser::parse_address(int depth) {
    Operand address;
    address.kind = OperandKind::address;
    const Token token = cursor_.peek();
    if (token.kind == TokenKind::word && !token.is("WARP_SZ")) {
        Operand base = parse_name();
        if (base.kind != OperandKind::reg && base.kind != OperandKind::symbol) {
            fail_at(token, fmt::format("`{}` is not an address", token.text));
        }
        address.imm = base.imm;
        base.imm = 0;
        address.imm = static_cast<int64_t>(static_cast<uint64_t>(address.imm) + static_cast<uint64_t>(parse_offset()));
        address.parts.push_back(std::move(base));
    } else {
        Operand absolute = parse_immediate();
        if (absolute.is_float) fail_at(token, "a floating-point address");
        address.imm = absolute.imm;
        address.parts.emplace_back();
    }
    while (cursor_.accept(",")) address.parts.push_back(parse_operand(depth));
    cursor_.expect("]");
    return address;
}

// A register, special register, variable, function or branch table.
Operand FunctionParser::parse_name() {
    const Token token = cursor_.expect(TokenKind::word, "a name");
    const std::string name(token.text);
    Operand operand;
    if (const Name* found = find_name(name)) {
        operand.cls = found->cls;
        operand.reg = found->slot;
        switch (found->kind) {
            case NameKind::reg: operand.kind = OperandKind::reg; break;
            case NameKind::pred: operand.kind = OperandKind::pred; break;
            case NameKind::variable:
                operand.kind = OperandKind::symbol;
                operand.cls = RegClass::none;
                operand.symbol = found->symbol;
                operand.imm = parse_offset();
                break;
            case NameKind::table:
                operand.kind = OperandKind::label;
                operand.symbol = name;
                operand.imm = found->slot;
                break;
        }
        return operand;
    }
    if (name[0] == '%') {
        std::string full = name;
        if (cursor_.peek().kind == TokenKind::dotted) full += cursor_.next().text;
        SpecialRegister special;
        if (!find_special_register(full, special)) {
            fail_at(token, fmt::format("`{}` is not declared and no special register that is modelled", full));
        }
        operand.kind = OperandKind::special;
        operand.reg = static_cast<uint32_t>(special);
        const uint32_t bits = special_register_bits(special);
        operand.cls = bits == 1 ? RegClass::pred : bits == 64 ? RegClass::b64 : RegClass::b32;
        return operand;
    }
    const bool known = module_.find_variable(name) != nullptr || module_.find(name) != nullptr;
    if (!known && name != function_.name) fail_at(token, fmt::format("`{}` is not declared", name));
    operand.kind = OperandKind::symbol;
    operand.symbol = name;
    operand.imm = parse_offset();
    return operand;
}

}  // namespace nvfp4r::sim
