#include "sim/ptx/lexer.hpp"

#include <cctype>

#include "core/error.hpp"

namespace nvfp4r::sim {

namespace {

bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%';
}

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

class Lexer {
  public:
    explicit Lexer(std::string_view source) : source_(source) {}

    std::vector<Token> run() {
        std::vector<Token> tokens;
        for (;;) {
            skip_blank();
            tokens.push_back(one());
            if (tokens.back().kind == TokenKind::end) return tokens;
        }
    }

  private:
    char at(size_t ahead = 0) const { return position_ + ahead < source_.size() ? source_[position_ + ahead] : '\0'; }
    bool done() const { return position_ >= source_.size(); }

    void step(size_t count = 1) {
        for (size_t i = 0; i < count && !done(); ++i) {
            if (source_[position_] == '\n') {
                ++line_;
                line_start_ = position_ + 1;
            }
            ++position_;
        }
    }

    Token here() const {
        Token token;
        token.line = line_;
        token.column = static_cast<uint32_t>(position_ - line_start_ + 1);
        token.offset = position_;
        return token;
    }

    Token finish(Token token, TokenKind kind) const {
        token.kind = kind;
        token.text = source_.substr(token.offset, position_ - token.offset);
        return token;
    }

    void skip_blank() {
        while (!done()) {
            if (std::isspace(static_cast<unsigned char>(at()))) {
                step();
            } else if (at() == '/' && at(1) == '/') {
                while (!done() && at() != '\n') step();
            } else if (at() == '/' && at(1) == '*') {
                const Token start = here();
                step(2);
                while (!done() && !(at() == '*' && at(1) == '/')) step();
                if (done()) fail_at(start, "comment without an end");
                step(2);
            } else {
                return;
            }
        }
    }

    Token one() {
        const Token token = here();
        if (done()) return finish(token, TokenKind::end);
        if (at() == '.' && is_word(at(1))) return dotted(token);
        if (is_digit(at())) return number(token);
        if (is_word(at())) {
            while (is_word(at())) step();
            return finish(token, TokenKind::word);
        }
        if (at() == '"') return string(token);
        for (std::string_view two : {"<<", ">>", "<=", ">=", "==", "!=", "&&", "||"}) {
            if (source_.substr(position_, 2) == two) {
                step(2);
                return finish(token, TokenKind::punct);
            }
        }
        if (std::string_view("{}[]()<>,;:=+-*/%&|^!~?@").find(at()) == std::string_view::npos) {
            fail_at(token, fmt::format("character 0x{:02x} does not belong to PTX",
                                       static_cast<unsigned>(static_cast<unsigned char>(at()))));
        }
        step();
        return finish(token, TokenKind::punct);
    }

    // ".mbarrier::complete_tx::bytes" is one modifier.
    Token dotted(const Token& token) {
        step();
        for (;;) {
            while (is_word(at())) step();
            if (!(at() == ':' && at(1) == ':' && is_word(at(2)))) break;
            step(2);
        }
        return finish(token, TokenKind::dotted);
    }

    // Integers in four bases, 0f and 0d bit patterns, decimal floating point with an exponent (PTX ISA 4.5).
    Token number(const Token& token) {
        const bool based = at() == '0' && std::isalpha(static_cast<unsigned char>(at(1)));
        if (based) {
            while (is_word(at())) step();
            return finish(token, TokenKind::number);
        }
        while (is_digit(at())) step();
        if (at() == '.') {
            step();
            while (is_digit(at())) step();
        }
        if ((at() == 'e' || at() == 'E') && (is_digit(at(1)) || ((at(1) == '-' || at(1) == '+') && is_digit(at(2))))) {
            step(2);
            while (is_digit(at())) step();
        }
        while (is_word(at())) step();  // the suffix U; anything else is refused when the value is asked for
        return finish(token, TokenKind::number);
    }

    Token string(Token token) {
        step();
        const size_t start = position_;
        while (!done() && at() != '"' && at() != '\n') step(at() == '\\' ? 2 : 1);
        if (at() != '"') fail_at(token, "string without an end");
        token.kind = TokenKind::string;
        token.text = source_.substr(start, position_ - start);
        step();
        return token;
    }

    std::string_view source_;
    size_t position_ = 0;
    size_t line_start_ = 0;
    uint32_t line_ = 1;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
    return Lexer(source).run();
}

void fail_at(const Token& token, std::string_view why) {
    fail(NVFP4R_COMPILE_ERROR, "PTX line {}, column {}: {}", token.line, token.column, why);
}

const Token& Cursor::expect(std::string_view text) {
    if (!at(text)) {
        fail_at(peek(), at_end() ? fmt::format("the text ends where `{}` is expected", text)
                                 : fmt::format("`{}` found where `{}` is expected", peek().text, text));
    }
    return next();
}

const Token& Cursor::expect(TokenKind kind, std::string_view what) {
    if (peek().kind != kind) {
        fail_at(peek(), at_end() ? fmt::format("the text ends where {} is expected", what)
                                 : fmt::format("`{}` found where {} is expected", peek().text, what));
    }
    return next();
}

uint64_t Cursor::expect_integer(std::string_view what, uint64_t most) {
    const Token token = expect(TokenKind::number, what);
    uint64_t value = 0;
    if (!integer_value(token.text, value) || value > most) {
        fail_at(token, fmt::format("`{}` as {}: an integer of at most {} is expected", token.text, what, most));
    }
    return value;
}

bool integer_value(std::string_view text, uint64_t& value) {
    if (!text.empty() && text.back() == 'U') text.remove_suffix(1);
    unsigned base = 10;
    if (text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
        base = 16;
        text.remove_prefix(2);
    } else if (text.size() > 2 && text[0] == '0' && (text[1] == 'b' || text[1] == 'B')) {
        base = 2;
        text.remove_prefix(2);
    } else if (text.size() > 1 && text[0] == '0') {
        base = 8;
        text.remove_prefix(1);
    }
    if (text.empty()) return false;
    value = 0;
    for (char c : text) {
        unsigned digit = 99;
        if (c >= '0' && c <= '9') digit = static_cast<unsigned>(c - '0');
        if (c >= 'a' && c <= 'f') digit = static_cast<unsigned>(c - 'a' + 10);
        if (c >= 'A' && c <= 'F') digit = static_cast<unsigned>(c - 'A' + 10);
        if (digit >= base) return false;
        if (value > (~uint64_t{0} - digit) / base) return false;
        value = value * base + digit;
    }
    return true;
}

}  // namespace nvfp4r::sim
