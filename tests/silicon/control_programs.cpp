// Loops and branches in which the lanes of a warp go different ways, tables of targets and calls (PTX ISA 9.7.12).
#include "silicon/table.hpp"

namespace nvfp4r::silicon {

namespace {

constexpr const char* kFunctions = R"(
.func (.param .b32 out) fold(.param .b32 a, .param .b32 b)
{
.reg .b32 x, y; .reg .pred p;
ld.param.b32 x, [a]; ld.param.b32 y, [b];
setp.lt.u32 p, x, y; @p bra less;
mad.lo.u32 x, x, 7, y; st.param.b32 [out], x; ret;
less:
xor.b32 x, x, y; st.param.b32 [out], x; ret;
}
)";

std::vector<Form> branches() {
    std::vector<Form> forms;
    add_forms(forms,
              "{ .reg .b32 n; and.b32 n, r1, <1|31>; mov.u32 ro, r2; again: setp.eq.u32 p8, n, 0; @p8 bra done; "
              "mad.lo.u32 ro, ro, 1664525, 1013904223; sub.u32 n, n, 1; bra again; done: }",
              "r");
    add_forms(forms,
              "{ mov.u32 ro, 1; @<|!>p1 bra a; @p2 bra b; add.u32 ro, ro, r3; bra e; a: @p3 bra c; xor.b32 ro, ro, r2; "
              "bra e; b: mul.lo.u32 ro, ro, r4; bra e; c: sub.u32 ro, r1, r2; e: bar.warp.sync -1; "
              "redux.sync.add.u32 r8, ro, -1; add.u32 ro, ro, r8; }",
              "r");
    add_forms(forms,
              "{ and.b32 r8, r1, <0|1|3>; where: .branchtargets t0, t1, t2, t3; brx.idx r8, where; "
              "t0: mov.u32 ro, r2; bra e; t1: not.b32 ro, r2; bra e; t2: popc.b32 ro, r2; bra e; "
              "t3: shl.b32 ro, r2, 3; e: }",
              "r");
    add_forms(forms,
              "{ .param .b32 x, y, z; st.param.b32 [x], r1; st.param.b32 [y], r2; call (z), fold, (x, y); "
              "ld.param.b32 ro, [z]; }",
              "r");
    add_forms(forms,
              "{ .param .b32 x, y, z; mov.u32 ro, r3; @p1 bra over; st.param.b32 [x], r1; st.param.b32 [y], ro; "
              "call (z), fold, (x, y); ld.param.b32 ro, [z]; over: add.u32 ro, ro, 1; }",
              "r");
    // Nested loops whose counts differ from lane to lane.
    add_forms(forms,
              "{ .reg .b32 i, j; mov.u32 ro, 0; and.b32 i, r1, 7; outer: add.u32 j, i, 1; inner: "
              "mad.lo.u32 ro, ro, 3, j; sub.u32 j, j, 1; setp.ne.u32 p8, j, 0; @p8 bra inner; "
              "sub.u32 i, i, 1; setp.ge.s32 p8, i, 0; @p8 bra outer; }",
              "r");
    return forms;
}

}  // namespace

void add_control_programs(Programs& programs) {
    Program program = table_program("branches, loops and calls", branches(), {Values::words}, 81);
    program.ptx.insert(program.ptx.find(".visible"), kFunctions);
    programs.push_back(program);
}

}  // namespace nvfp4r::silicon
