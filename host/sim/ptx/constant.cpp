#include "sim/ptx/constant.hpp"

#include <bit>
#include <charconv>
#include <string>

#include "core/error.hpp"

namespace nvfp4r::sim {

namespace {

constexpr int kMaxDepth = 64;       // nesting that hand-written PTX never reaches; keeps bad input off the stack's end
constexpr uint64_t kWarpSize = 32;  // the predefined constant WARP_SZ

struct BinaryOperator {
    std::string_view text;
    int precedence;
};

// C's precedences (PTX ISA 4.5.5).
constexpr BinaryOperator kOperators[] = {{"||", 1}, {"&&", 2}, {"|", 3},  {"^", 4},  {"&", 5},  {"==", 6},
                                         {"!=", 6}, {"<", 7},  {"<=", 7}, {">", 7},  {">=", 7}, {"<<", 8},
                                         {">>", 8}, {"+", 9},  {"-", 9},  {"*", 10}, {"/", 10}, {"%", 10}};
constexpr int kTernary = 0;
constexpr int kMultiplicative = 10;

Constant integer(uint64_t value, bool is_unsigned) {
    Constant constant;
    constant.value = value;
    constant.is_unsigned = is_unsigned;
    return constant;
}

Constant floating(double value) {
    Constant constant;
    constant.is_float = true;
    constant.value = std::bit_cast<uint64_t>(value);
    return constant;
}

bool hex_bits(std::string_view digits, size_t count, uint64_t& bits) {
    if (digits.size() != count) return false;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
    return error == std::errc{} && end == digits.data() + digits.size();
}

Constant literal(const Token& token) {
    const std::string_view text = token.text;
    uint64_t bits = 0;
    if (text.size() > 1 && text[0] == '0' && (text[1] == 'f' || text[1] == 'F')) {
        if (!hex_bits(text.substr(2), 8, bits))
            fail_at(token, fmt::format("`{}`: 0f wants 8 hexadecimal digits", text));
        Constant constant;
        constant.is_float = constant.is_single = true;
        constant.value = bits;
        return constant;
    }
    if (text.size() > 1 && text[0] == '0' && (text[1] == 'd' || text[1] == 'D')) {
        if (!hex_bits(text.substr(2), 16, bits)) {
            fail_at(token, fmt::format("`{}`: 0d wants 16 hexadecimal digits", text));
        }
        return floating(std::bit_cast<double>(bits));
    }
    if (integer_value(text, bits)) return integer(bits, text.back() == 'U' || (bits >> 63) != 0);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool decimal = text.find_first_of(".eE") != std::string_view::npos;
    if (!decimal || error != std::errc{} || end != text.data() + text.size()) {
        fail_at(token, fmt::format("`{}` is not a number", text));
    }
    return floating(value);
}

Constant apply_float(const Token& op, double a, double b) {
    if (op.is("+")) return floating(a + b);
    if (op.is("-")) return floating(a - b);
    if (op.is("*")) return floating(a * b);
    if (op.is("/")) return floating(a / b);
    fail_at(op, fmt::format("`{}` is not defined for floating-point constants", op.text));
}

Constant apply_division(const Token& op, const Constant& a, const Constant& b, bool is_unsigned) {
    if (b.value == 0) fail_at(op, "division by zero in a constant");
    const bool quotient = op.is("/");
    if (is_unsigned) return integer(quotient ? a.value / b.value : a.value % b.value, true);
    // The one signed quotient that overflows: -2^63 / -1.
    if (b.value == ~uint64_t{0}) return integer(quotient ? uint64_t{0} - a.value : 0, false);
    const auto x = static_cast<int64_t>(a.value), y = static_cast<int64_t>(b.value);
    return integer(static_cast<uint64_t>(quotient ? x / y : x % y), false);
}

Constant apply(const Token& op, const Constant& a, const Constant& b) {
    if (a.is_float || b.is_float) return apply_float(op, a.as_double(), b.as_double());
    const bool is_unsigned = a.is_unsigned || b.is_unsigned;
    const bool less = is_unsigned ? a.value < b.value : static_cast<int64_t>(a.value) < static_cast<int64_t>(b.value);
    if (op.is("/") || op.is("%")) return apply_division(op, a, b, is_unsigned);
    if (op.is("*")) return integer(a.value * b.value, is_unsigned);
    if (op.is("+")) return integer(a.value + b.value, is_unsigned);
    if (op.is("-")) return integer(a.value - b.value, is_unsigned);
    if (op.is("<<")) return integer(b.value < 64 ? a.value << b.value : 0, a.is_unsigned);
    if (op.is(">>")) {
        const uint64_t shift = b.value < 63 ? b.value : 63;
        if (a.is_unsigned) return integer(b.value < 64 ? a.value >> shift : 0, true);
        return integer(static_cast<uint64_t>(static_cast<int64_t>(a.value) >> shift), false);
    }
    if (op.is("<")) return integer(less, false);
    if (op.is(">=")) return integer(!less, false);
    if (op.is("<=")) return integer(less || a.value == b.value, false);
    if (op.is(">")) return integer(!less && a.value != b.value, false);
    if (op.is("==")) return integer(a.value == b.value, false);
    if (op.is("!=")) return integer(a.value != b.value, false);
    if (op.is("&")) return integer(a.value & b.value, is_unsigned);
    if (op.is("^")) return integer(a.value ^ b.value, is_unsigned);
    if (op.is("|")) return integer(a.value | b.value, is_unsigned);
    if (op.is("&&")) return integer(a.value && b.value, false);
    return integer(a.value || b.value, false);
}

Constant parse(Cursor& cursor, int lowest, int depth);

Constant parse_unary(Cursor& cursor, int depth) {
    if (depth > kMaxDepth) fail_at(cursor.peek(), "constant expression nested too deeply");
    const Token token = cursor.next();
    if (token.kind == TokenKind::number) return literal(token);
    if (token.is("WARP_SZ")) return integer(kWarpSize, true);
    if (token.is("(")) {
        // A cast, (.s64) or (.u64), or parentheses.
        if (cursor.peek().kind == TokenKind::dotted) {
            const Token type = cursor.next();
            if (!type.is(".s64") && !type.is(".u64")) fail_at(type, "a cast is (.s64) or (.u64)");
            cursor.expect(")");
            Constant inner = parse_unary(cursor, depth + 1);
            if (inner.is_float) fail_at(type, "a cast of a floating-point constant");
            inner.is_unsigned = type.is(".u64");
            return inner;
        }
        const Constant inner = parse(cursor, kTernary, depth + 1);
        cursor.expect(")");
        return inner;
    }
    if (token.is("+")) return parse_unary(cursor, depth + 1);
    if (token.is("-")) {
        const Constant inner = parse_unary(cursor, depth + 1);
        if (inner.is_single) {
            Constant negated = inner;
            negated.value ^= 0x80000000u;
            return negated;
        }
        if (inner.is_float) return floating(-inner.as_double());
        return integer(uint64_t{0} - inner.value, inner.is_unsigned);
    }
    if (token.is("~") || token.is("!")) {
        const Constant inner = parse_unary(cursor, depth + 1);
        if (inner.is_float) fail_at(token, fmt::format("`{}` of a floating-point constant", token.text));
        return token.is("~") ? integer(~inner.value, inner.is_unsigned) : integer(inner.value == 0, false);
    }
    fail_at(token, fmt::format("`{}` found where a constant is expected", token.text));
}

int precedence(const Token& token) {
    if (token.kind == TokenKind::punct) {
        for (const BinaryOperator& op : kOperators) {
            if (token.is(op.text)) return op.precedence;
        }
    }
    return -1;
}

Constant parse(Cursor& cursor, int lowest, int depth) {
    Constant left = parse_unary(cursor, depth);
    for (;;) {
        const int level = precedence(cursor.peek());
        if (level < 0 || level < lowest) break;
        const Token op = cursor.next();
        left = apply(op, left, parse(cursor, level + 1, depth + 1));
    }
    if (lowest == kTernary && cursor.at("?")) {
        const Token question = cursor.next();
        if (left.is_float) fail_at(question, "a floating-point condition");
        const Constant yes = parse(cursor, kTernary, depth + 1);
        cursor.expect(":");
        const Constant no = parse(cursor, kTernary, depth + 1);
        return left.value ? yes : no;
    }
    return left;
}

}  // namespace

double Constant::as_double() const {
    if (!is_float) return is_unsigned ? static_cast<double>(value) : static_cast<double>(static_cast<int64_t>(value));
    if (is_single) return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(value)));
    return std::bit_cast<double>(value);
}

bool at_constant(const Cursor& cursor) {
    const Token& token = cursor.peek();
    return token.kind == TokenKind::number || token.is("WARP_SZ") || token.is("(") || token.is("-") || token.is("+") ||
           token.is("~");
}

Constant parse_constant(Cursor& cursor) {
    return parse(cursor, kTernary, 0);
}

Constant parse_constant_term(Cursor& cursor) {
    return parse(cursor, kMultiplicative, 0);
}

}  // namespace nvfp4r::sim
