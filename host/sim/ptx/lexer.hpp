// PTX text as tokens, and a cursor over them that the parser reads from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nvfp4r::sim {

enum class TokenKind : uint8_t {
    end,
    word,    // opcode, register, label or symbol: letters, digits, _ $ %
    dotted,  // .word, with "::" kept inside: .shared::cluster
    number,
    string,  // without its quotes
    punct    // one character, or << >> <= >= == != && ||
};

struct Token {
    TokenKind kind = TokenKind::end;
    std::string_view text;
    uint32_t line = 1, column = 1;
    size_t offset = 0;  // of the first character in the source

    bool is(std::string_view expected) const { return text == expected && kind != TokenKind::string; }
};

/// Splits `source`, which must outlive the tokens. The last token is `end`. Throws Error(NVFP4R_COMPILE_ERROR).
std::vector<Token> tokenize(std::string_view source);

/// Throws Error(NVFP4R_COMPILE_ERROR): "PTX line 3, column 7: <why>".
[[noreturn]] void fail_at(const Token& token, std::string_view why);

class Cursor {
  public:
    explicit Cursor(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

    const Token& peek(size_t ahead = 0) const {
        return tokens_[position_ + ahead < tokens_.size() ? position_ + ahead : tokens_.size() - 1];
    }
    const Token& next() {
        const Token& token = peek();
        if (position_ + 1 < tokens_.size()) ++position_;
        return token;
    }
    bool at(std::string_view text) const { return peek().is(text); }
    bool at_end() const { return peek().kind == TokenKind::end; }
    bool accept(std::string_view text) {
        if (!at(text)) return false;
        next();
        return true;
    }
    /// The next token, which must be `text`; else fails, saying what was expected after what.
    const Token& expect(std::string_view text);
    const Token& expect(TokenKind kind, std::string_view what);
    /// An unsigned integer literal of at most `most`.
    uint64_t expect_integer(std::string_view what, uint64_t most);

  private:
    std::vector<Token> tokens_;
    size_t position_ = 0;
};

/// Value of a `number` token that is an integer; false when it is a floating-point literal or does not fit 64 bits.
bool integer_value(std::string_view text, uint64_t& value);

}  // namespace nvfp4r::sim
