// Comparisons of setp and set (PTX ISA 9.7.6): three masks over the warp answer every operator.
#pragma once

#include "sim/instr/floats.hpp"
#include "sim/instr/integers.hpp"

namespace nvfp4r::sim {

enum class Compare : uint8_t { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };
enum class BoolOp : uint8_t { none, and_, or_, xor_ };

/// A comparison as an instruction names it.
struct Comparison {
    Compare compare = Compare::eq;
    BoolOp bool_op = BoolOp::none;
    bool ftz = false;
    DataType type = DataType::none;
    Src c;  // of bool_op
};

/// Takes .CmpOp{.BoolOp}{.ftz}; the type is the family's to take. check_comparison refuses what the type does not have.
Comparison take_comparison(Decoder& decoder, Modifiers& modifiers);
void check_comparison(Decoder& decoder, const Comparison& comparison);

/// Lanes where a CmpOp b holds. Packed types: the low halves, and in `high` the high ones.
LaneMask compare_lanes(const Comparison& comparison, const uint64_t* a, const uint64_t* b, LaneMask lanes,
                       LaneMask* high);

inline LaneMask combine(BoolOp op, LaneMask value, LaneMask c) {
    switch (op) {
        case BoolOp::and_: return value & c;
        case BoolOp::or_: return value | c;
        case BoolOp::xor_: return value ^ c;
        case BoolOp::none: break;
    }
    return value;
}

}  // namespace nvfp4r::sim
