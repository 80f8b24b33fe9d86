// Types and variable declarations (PTX ISA 5).
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/ptx/ast.hpp"
#include "sim/ptx/lexer.hpp"

namespace nvfp4r::sim {

struct Type {
    uint32_t bytes = 0;  // 0: .pred
    RegClass cls = RegClass::none;
    bool is_float = false;
};

/// Fundamental type by its dotted name; false when it is none.
bool find_type(std::string_view dotted, Type& type);

/// State space of a variable by its dotted name (.global, .const, .shared, .local, .param); false when it is none.
bool find_space(std::string_view dotted, StateSpace& space);

/// One variable, from its attributes to its initialiser; the cursor stands behind the state space. Neither the comma
/// nor the semicolon after it is taken. In a list, `type_from` is the variable in front of it, whose type it shares.
struct Declarator {
    Variable variable;
    Type type;
    bool is_array = false;
    uint32_t count = 0;  // name<count>: that many variables name0, name1 ...; 0: not a range
};
Declarator parse_declarator(Cursor& cursor, StateSpace space, const Declarator* type_from);

}  // namespace nvfp4r::sim
