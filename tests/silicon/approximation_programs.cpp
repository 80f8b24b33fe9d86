// Approximate functions: outputs agree within the bound that PTX ISA 9.7.3 and 9.7.4 document, or the tighter one that
// was measured over all inputs of an H200, plus the half unit by which a correctly rounded value may be off.
#include <cmath>

#include "silicon/table.hpp"

namespace nvfp4r::silicon {

namespace {

constexpr unsigned kRows = 1024;

void add(Programs& programs, const std::string& instruction, const std::string& kinds, Values values,
         const Agreement& agreement) {
    std::vector<Form> forms;
    add_forms(forms, instruction, kinds);
    for (const Form& form : forms) {
        programs.push_back(table_program(form.text, {form}, {values}, 51, kRows));
        programs.back().agreement = agreement;
    }
}

Agreement ulps(int64_t count) {
    return {.exact = false, .ulps = count};
}

}  // namespace

void add_approximation_programs(Programs& programs) {
    add(programs, "ex2.approx<|.ftz>.f32", "rr", Values::f32, ulps(2));
    add(programs, "lg2.approx<|.ftz>.f32", "rr", Values::f32,
        {.exact = false, .relative = std::exp2(-22) + std::exp2(-24), .absolute = std::exp2(-22) + std::exp2(-24)});
    add(programs, "rcp.approx<|.ftz>.f32", "rr", Values::f32, ulps(1));
    add(programs, "rsqrt.approx<|.ftz>.f32", "rr", Values::f32, ulps(2));
    add(programs, "sqrt.approx<|.ftz>.f32", "rr", Values::f32, ulps(1));
    add(programs, "<sin|cos>.approx.f32", "rr", Values::angles, {.exact = false, .absolute = std::exp2(-20.5)});
    add(programs, "tanh.approx.f32", "rr", Values::f32, {.exact = false, .relative = std::exp2(-16)});
    add(programs, "div.<approx|full><|.ftz>.f32", "rrr", Values::f32, ulps(2));
    add(programs, "ex2.approx.f16x2", "rr", Values::f16,
        {.exact = false, .width = 16, .ulps = 1, .relative = std::exp2(-9.9)});
    add(programs, "ex2.approx.ftz.bf16x2", "rr", Values::bf16,
        {.exact = false, .width = 16, .bf16 = true, .ulps = 1, .relative = std::exp2(-7)});
    add(programs, "tanh.approx.f16x2", "rr", Values::f16,
        {.exact = false, .width = 16, .absolute = std::exp2(-10.987)});
    add(programs, "tanh.approx.bf16x2", "rr", Values::bf16,
        {.exact = false, .width = 16, .bf16 = true, .absolute = std::exp2(-8)});
}

}  // namespace nvfp4r::silicon
