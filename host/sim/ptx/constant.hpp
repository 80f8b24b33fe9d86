// Constant expressions (PTX ISA 4.5.5), as operands, array sizes and initialisers have them.
#pragma once

#include <cstdint>

#include "sim/ptx/lexer.hpp"

namespace nvfp4r::sim {

/// An integer (64 bits, signed unless written or cast otherwise) or a floating-point value.
struct Constant {
    bool is_float = false;
    bool is_single = false;    // written as 0f: `value` holds f32 bits; otherwise a float holds f64 bits
    bool is_unsigned = false;  // picks the kind of division, right shift and comparison
    uint64_t value = 0;

    double as_double() const;
};

/// Whether a constant expression starts at the cursor.
bool at_constant(const Cursor& cursor);
/// A whole expression, ?: included.
Constant parse_constant(Cursor& cursor);
/// One term of a sum: stops in front of + and -.
Constant parse_constant_term(Cursor& cursor);

}  // namespace nvfp4r::sim
