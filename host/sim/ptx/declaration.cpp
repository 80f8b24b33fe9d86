#include "sim/ptx/declaration.hpp"

#include <bit>
#include <cstring>

#include "core/error.hpp"
#include "sim/ptx/constant.hpp"

namespace nvfp4r::sim {

namespace {

constexpr uint64_t kMaxVariableBytes = uint64_t{1} << 32;  // far above any GPU's static limit; keeps sums from wrapping
constexpr uint64_t kMaxAlign = uint64_t{1} << 20;
constexpr uint64_t kMaxRange = 1'000'000;  // registers of one %r<n>
constexpr int kMaxNesting = 16;
constexpr uint32_t kAddressBytes = 8;  // .address_size 64

struct NamedType {
    std::string_view name;
    Type type;
};
constexpr NamedType kTypes[] = {{".pred", {0, RegClass::pred, false}},  {".b8", {1, RegClass::b8, false}},
                                {".u8", {1, RegClass::b8, false}},      {".s8", {1, RegClass::b8, false}},
                                {".b16", {2, RegClass::b16, false}},    {".u16", {2, RegClass::b16, false}},
                                {".s16", {2, RegClass::b16, false}},    {".f16", {2, RegClass::b16, false}},
                                {".bf16", {2, RegClass::b16, false}},   {".b32", {4, RegClass::b32, false}},
                                {".u32", {4, RegClass::b32, false}},    {".s32", {4, RegClass::b32, false}},
                                {".f32", {4, RegClass::b32, true}},     {".f16x2", {4, RegClass::b32, false}},
                                {".bf16x2", {4, RegClass::b32, false}}, {".b64", {8, RegClass::b64, false}},
                                {".u64", {8, RegClass::b64, false}},    {".s64", {8, RegClass::b64, false}},
                                {".f64", {8, RegClass::b64, true}},     {".b128", {16, RegClass::b128, false}}};

uint64_t checked_size(const Token& where, uint64_t a, uint64_t b) {
    if (b != 0 && a > kMaxVariableBytes / b) fail_at(where, "the variable is larger than 4 GiB");
    return a * b;
}

uint32_t parse_align(Cursor& cursor) {
    const Token where = cursor.peek();
    const uint64_t align = cursor.expect_integer("an alignment", kMaxAlign);
    if (!std::has_single_bit(align)) fail_at(where, fmt::format("alignment {} is not a power of two", align));
    return static_cast<uint32_t>(align);
}

// .ptr{.space}{.align n} says what a pointer parameter points to: of use to an optimizer only.
void skip_pointer_attribute(Cursor& cursor) {
    StateSpace space;
    while (cursor.peek().kind == TokenKind::dotted) {
        if (find_space(cursor.peek().text, space)) {
            cursor.next();
        } else if (cursor.accept(".align")) {
            parse_align(cursor);
        } else {
            return;
        }
    }
}

// .attribute(.managed), .attribute(.unified(1, 2))
void skip_attribute(Cursor& cursor) {
    cursor.expect("(");
    for (int depth = 1; depth > 0;) {
        if (cursor.at_end()) fail_at(cursor.peek(), "the text ends inside .attribute");
        const Token token = cursor.next();
        if (token.is("(")) ++depth;
        if (token.is(")")) --depth;
    }
}

class Initializer {
  public:
    Initializer(Cursor& cursor, Declarator& declarator) : cursor_(cursor), declarator_(declarator) {}

    void run() {
        if (!declarator_.is_array) {
            one();
        } else if (cursor_.peek().kind == TokenKind::string) {
            text();
        } else {
            list(0);
        }
    }

  private:
    std::vector<uint8_t>& bytes() { return declarator_.variable.initial; }

    void list(int depth) {
        const Token open = cursor_.expect("{");
        if (depth > kMaxNesting) fail_at(open, "initialiser nested too deeply");
        if (cursor_.accept("}")) return;
        do {
            if (cursor_.at("{")) {
                list(depth + 1);
            } else {
                one();
            }
        } while (cursor_.accept(","));
        cursor_.expect("}");
    }

    void text() {
        for (const char c : cursor_.next().text) bytes().push_back(static_cast<uint8_t>(c));
        bytes().push_back(0);
    }

    void one() {
        const bool masked = cursor_.peek().kind == TokenKind::number && cursor_.peek(1).is("(");
        if (masked || cursor_.peek().kind == TokenKind::word) {
            address(masked);
            return;
        }
        const Token where = cursor_.peek();
        const Constant constant = parse_constant(cursor_);
        uint64_t bits = constant.value;
        if (declarator_.type.is_float) {
            const double value = constant.as_double();
            const bool single = declarator_.type.bytes == sizeof(float);
            bits = single ? std::bit_cast<uint32_t>(static_cast<float>(value)) : std::bit_cast<uint64_t>(value);
            if (single && constant.is_single) bits = constant.value;
        } else if (constant.is_float) {
            fail_at(where, "a floating-point value initialises an integer");
        }
        append(bits);
    }

    void append(uint64_t bits) {
        for (uint32_t i = 0; i < declarator_.type.bytes; ++i) {
            bytes().push_back(static_cast<uint8_t>(i < sizeof bits ? bits >> (8 * i) : 0));
        }
    }

    // symbol, symbol + n, generic(symbol) + n, and 0xFF00(any of these): the bytes of the address that the mask covers.
    void address(bool masked) {
        Relocation relocation;
        relocation.at = bytes().size();
        relocation.bytes = declarator_.type.bytes;
        if (masked) {
            const Token where = cursor_.peek();
            const uint64_t mask = parse_mask(where);
            relocation.shift = static_cast<uint32_t>(std::countr_zero(mask));
            cursor_.expect("(");
        } else if (declarator_.type.bytes != kAddressBytes && declarator_.type.bytes != kAddressBytes / 2) {
            fail_at(cursor_.peek(), "an address initialises a variable that is too small for it");
        }
        relocation.generic = cursor_.at("generic") && cursor_.peek(1).is("(");
        if (relocation.generic) {
            cursor_.next();
            cursor_.next();
        }
        relocation.symbol = cursor_.expect(TokenKind::word, "a symbol").text;
        if (relocation.generic) cursor_.expect(")");
        while (cursor_.at("+") || cursor_.at("-")) {
            const bool minus = cursor_.next().is("-");
            const uint64_t term = parse_constant_term(cursor_).value;
            const auto sum = static_cast<uint64_t>(relocation.addend) + (minus ? uint64_t{0} - term : term);
            relocation.addend = static_cast<int64_t>(sum);
        }
        if (masked) cursor_.expect(")");
        declarator_.variable.relocations.push_back(relocation);
        append(0);
    }

    uint64_t parse_mask(const Token& where) {
        uint64_t mask = 0;
        if (!integer_value(cursor_.next().text, mask) || mask == 0) fail_at(where, "not an address mask");
        const int low = std::countr_zero(mask);
        if (low % 8 != 0 || (mask >> low) != 0xff || declarator_.type.bytes != 1) {
            fail_at(where, "an address mask covers one byte and initialises one byte");
        }
        return mask;
    }

    Cursor& cursor_;
    Declarator& declarator_;
};

void parse_dimensions(Cursor& cursor, Declarator& declarator) {
    Variable& variable = declarator.variable;
    bool unsized = false;
    while (cursor.at("[")) {
        const Token open = cursor.next();
        if (cursor.accept("]")) {
            if (declarator.is_array) fail_at(open, "only the first dimension may be left open");
            unsized = true;
        } else {
            const Constant count = parse_constant(cursor);
            if (count.is_float || count.value > kMaxVariableBytes) fail_at(open, "the array size is no usable integer");
            variable.size = checked_size(open, variable.size, count.value);
            cursor.expect("]");
        }
        declarator.is_array = true;
    }
    if (unsized) variable.size = 0;
}

}  // namespace

bool find_type(std::string_view dotted, Type& type) {
    for (const NamedType& named : kTypes) {
        if (named.name == dotted) {
            type = named.type;
            return true;
        }
    }
    return false;
}

bool find_space(std::string_view dotted, StateSpace& space) {
    if (dotted == ".global")
        space = StateSpace::global;
    else if (dotted == ".const")
        space = StateSpace::constant;
    else if (dotted == ".shared")
        space = StateSpace::shared;
    else if (dotted == ".local")
        space = StateSpace::local;
    else if (dotted == ".param")
        space = StateSpace::param;
    else
        return false;
    return true;
}

Declarator parse_declarator(Cursor& cursor, StateSpace space, const Declarator* type_from) {
    Declarator declarator;
    Variable& variable = declarator.variable;
    variable.space = space;
    uint32_t align = 0;
    if (type_from) {
        declarator.type = type_from->type;
        align = type_from->variable.align;
    }
    while (!type_from && cursor.peek().kind == TokenKind::dotted) {
        const Token token = cursor.next();
        if (token.is(".align")) {
            align = parse_align(cursor);
        } else if (token.is(".ptr")) {
            skip_pointer_attribute(cursor);
        } else if (token.is(".attribute")) {
            skip_attribute(cursor);
        } else if (!find_type(token.text, declarator.type)) {
            fail_at(token, fmt::format("{} is not a type or attribute that is modelled", token.text));
        }
    }
    const Token name = cursor.expect(TokenKind::word, "a name");
    if (declarator.type.cls == RegClass::none) fail_at(name, fmt::format("`{}` has no type", name.text));
    variable.name = name.text;
    variable.loc.ptx_line = name.line;
    variable.size = declarator.type.bytes;
    variable.align = align ? align : (declarator.type.bytes ? declarator.type.bytes : 1);
    if (cursor.accept("<")) {
        declarator.count = static_cast<uint32_t>(cursor.expect_integer("a register count", kMaxRange));
        cursor.expect(">");
    }
    parse_dimensions(cursor, declarator);
    if (cursor.at("=")) {
        const Token equals = cursor.next();
        if (space != StateSpace::global && space != StateSpace::constant) {
            fail_at(equals, fmt::format("`{}`: only .global and .const variables have initialisers", name.text));
        }
        Initializer(cursor, declarator).run();
        if (variable.size == 0) variable.size = variable.initial.size();
        if (variable.initial.size() > variable.size) {
            fail_at(equals, fmt::format("`{}` has {} bytes, its initialiser {}", name.text, variable.size,
                                        variable.initial.size()));
        }
    }
    return declarator;
}

}  // namespace nvfp4r::sim
