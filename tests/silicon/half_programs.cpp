// f16, bf16 and their packed pairs (PTX ISA 9.7.4, 9.7.7).
#include "silicon/table.hpp"

namespace nvfp4r::silicon {

namespace {

std::vector<Form> halves() {
    std::vector<Form> forms;
    add_forms(forms, "<add|sub|mul>.rn<|.ftz><|.sat>.f16", "hhh");
    add_forms(forms, "<add|sub|mul>.rn<|.ftz><|.sat>.f16x2", "rrr");
    add_forms(forms, "fma.rn<|.ftz><|.sat|.relu>.f16", "hhhh");
    add_forms(forms, "fma.rn<|.ftz><|.sat|.relu>.f16x2", "rrrr");
    add_forms(forms, "<min|max><|.ftz><|.NaN><|.xorsign.abs>.f16", "hhh");
    add_forms(forms, "<min|max><|.ftz><|.NaN><|.xorsign.abs>.f16x2", "rrr");
    add_forms(forms, "<abs|neg><|.ftz>.f16", "hh");
    add_forms(forms, "<abs|neg><|.ftz>.f16x2", "rr");
    add_forms(forms, "setp.<eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan><|.ftz>.f16", "phh");
    add_forms(forms,
              "setp.<lt|geu|num>.f16x2 p8|p9, r1, r2; selp.u32 r8, 2, 0, p8; selp.u32 r9, 1, 0, p9; "
              "or.b32 ro, r8, r9;",
              "r");
    add_forms(forms, "set.<lt|neu>.<f16|u16|s16>.f16", "hhh");
    add_forms(forms, "set.<gt|equ>.<f16x2>.f16x2", "rrr");
    return forms;
}

std::vector<Form> brain_halves() {
    std::vector<Form> forms;
    add_forms(forms, "<add|sub|mul>.rn.bf16", "hhh");
    add_forms(forms, "<add|sub|mul>.rn.bf16x2", "rrr");
    add_forms(forms, "fma.rn<|.relu>.bf16", "hhhh");
    add_forms(forms, "fma.rn<|.relu>.bf16x2", "rrrr");
    add_forms(forms, "<min|max><|.NaN><|.xorsign.abs>.bf16", "hhh");
    add_forms(forms, "<min|max><|.NaN><|.xorsign.abs>.bf16x2", "rrr");
    add_forms(forms, "<abs|neg>.bf16", "hh");
    add_forms(forms, "<abs|neg>.bf16x2", "rr");
    add_forms(forms, "setp.<eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan>.bf16", "phh");
    add_forms(forms,
              "setp.<lt|geu|num>.bf16x2 p8|p9, r1, r2; selp.u32 r8, 2, 0, p8; selp.u32 r9, 1, 0, p9; "
              "or.b32 ro, r8, r9;",
              "r");
    return forms;
}

std::vector<Form> half_tiny() {
    std::vector<Form> forms;
    add_forms(forms, "<add|sub|mul>.rn<|.ftz>.f16", "hhh");
    add_forms(forms, "mul.rn<|.ftz>.sat.f16", "hhh");
    add_forms(forms, "mov.b16 h9, <0|0x8000>; fma.rn<|.ftz>.f16 ho, h1, h2, h9;", "h");
    add_forms(forms, "fma.rn<|.ftz>.f16", "hhhh");
    return forms;
}

}  // namespace

void add_half_programs(Programs& programs) {
    programs.push_back(table_program("f16 arithmetic", halves(), {Values::f16}, 31));
    programs.push_back(table_program("bf16 arithmetic", brain_halves(), {Values::bf16}, 32));
    programs.push_back(table_program("f16 around the least normal number", half_tiny(), {Values::f16_tiny}, 33));
}

}  // namespace nvfp4r::silicon
