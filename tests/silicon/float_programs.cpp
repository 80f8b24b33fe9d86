// f32 and f64: arithmetic in every rounding, with .ftz and .sat, min and max, comparisons (PTX ISA 9.7.3, 9.7.6).
#include "silicon/table.hpp"

namespace nvfp4r::silicon {

namespace {

constexpr const char* kComparisons = "<eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan>";

std::vector<Form> single() {
    std::vector<Form> forms;
    add_forms(forms, "<add|sub|mul>.<rn|rz|rm|rp><|.ftz><|.sat>.f32", "rrr");
    add_forms(forms, "fma.<rn|rz|rm|rp><|.ftz><|.sat>.f32", "rrrr");
    add_forms(forms, "div.<rn|rz|rm|rp><|.ftz>.f32", "rrr");
    add_forms(forms, "<rcp|sqrt>.<rn|rz|rm|rp><|.ftz>.f32", "rr");
    add_forms(forms, "<min|max><|.ftz><|.NaN><|.xorsign.abs>.f32", "rrr");
    add_forms(forms, "<abs|neg><|.ftz>.f32", "rr");
    add_forms(forms, "copysign.f32", "rrr");
    add_forms(forms, "testp.<finite|infinite|number|notanumber|normal|subnormal>.f32", "pr");
    return forms;
}

std::vector<Form> single_comparisons() {
    std::vector<Form> forms;
    add_forms(forms, std::string("setp.") + kComparisons + "<|.ftz>.f32", "prr");
    add_forms(forms,
              "setp.<lt|geu>.<and|or|xor><|.ftz>.f32 p8|p9, r1, r2, p3; selp.u32 r8, 2, 0, p8; "
              "selp.u32 r9, 1, 0, p9; or.b32 ro, r8, r9;",
              "r");
    add_forms(forms, "set.<lt|neu><|.ftz>.<u32|s32|f32>.f32", "rrr");
    add_forms(forms, "set.<gt|num><|.ftz>.f32.f32", "rrr");
    add_forms(forms, "slct<|.ftz>.<b32|f32>.f32", "rrrr");
    return forms;
}

std::vector<Form> twice() {
    std::vector<Form> forms;
    add_forms(forms, "<add|sub|mul>.<rn|rz|rm|rp>.f64", "ddd");
    add_forms(forms, "fma.<rn|rz|rm|rp>.f64", "dddd");
    add_forms(forms, "div.<rn|rz|rm|rp>.f64", "ddd");
    add_forms(forms, "<rcp|sqrt>.<rn|rz|rm|rp>.f64", "dd");
    add_forms(forms, "<min|max>.f64", "ddd");
    add_forms(forms, "<abs|neg>.f64", "dd");
    add_forms(forms, "copysign.f64", "ddd");
    add_forms(forms, "testp.<finite|infinite|number|notanumber|normal|subnormal>.f64", "pd");
    add_forms(forms, std::string("setp.") + kComparisons + ".f64", "pdd");
    return forms;
}

std::vector<Form> single_tiny() {
    std::vector<Form> forms;
    add_forms(forms, "<add|sub|mul|div>.<rn|rz|rm|rp><|.ftz>.f32", "rrr");
    add_forms(forms, "fma.<rn|rz|rm|rp><|.ftz>.f32", "rrr", ", 0f00000000");
    add_forms(forms, "fma.<rn|rz|rm|rp><|.ftz>.f32", "rrrr");
    add_forms(forms, "mul.<rn|rp>.ftz.sat.f32", "rrr");
    return forms;
}

}  // namespace

void add_float_programs(Programs& programs) {
    programs.push_back(table_program("f32 arithmetic", single(), {Values::f32}, 21));
    programs.push_back(table_program("f32 comparisons", single_comparisons(), {Values::f32}, 22));
    programs.push_back(table_program("f64 arithmetic", twice(), {Values::f64}, 23));
    programs.push_back(table_program("f32 around the least normal number", single_tiny(), {Values::f32_tiny}, 24));
}

}  // namespace nvfp4r::silicon
