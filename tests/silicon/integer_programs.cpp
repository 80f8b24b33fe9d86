// Integer arithmetic, logic, bit fields, comparisons and selections (PTX ISA 9.7.1, 9.7.2, 9.7.6, 9.7.8).
#include "silicon/table.hpp"

namespace nvfp4r::silicon {

namespace {

std::vector<Form> arithmetic() {
    std::vector<Form> forms;
    add_forms(forms, "<add|sub|min|max>.<u16|s16>", "hhh");
    add_forms(forms, "<add|sub|min|max>.<u32|s32>", "rrr");
    add_forms(forms, "<add|sub|min|max>.<u64|s64>", "ddd");
    add_forms(forms, "<add|sub>.sat.s32", "rrr");
    add_forms(forms, "<add|min|max>.<u16x2|s16x2>", "rrr");
    add_forms(forms, "<min|max>.relu.<s32|s16x2>", "rrr");
    add_forms(forms, "mul.<lo|hi>.<u16|s16>", "hhh");
    add_forms(forms, "mul.wide.<u16|s16>", "rhh");
    add_forms(forms, "mul.<lo|hi>.<u32|s32>", "rrr");
    add_forms(forms, "mul.wide.<u32|s32>", "drr");
    add_forms(forms, "mul.<lo|hi>.<u64|s64>", "ddd");
    add_forms(forms, "mad.<lo|hi>.<u16|s16>", "hhhh");
    add_forms(forms, "mad.wide.<u16|s16>", "rhhr");
    add_forms(forms, "mad.<lo|hi>.<u32|s32>", "rrrr");
    add_forms(forms, "mad.wide.<u32|s32>", "drrd");
    add_forms(forms, "mad.<lo|hi>.<u64|s64>", "dddd");
    add_forms(forms, "mad.hi.sat.s32", "rrrr");
    add_forms(forms, "mul24.<lo|hi>.<u32|s32>", "rrr");
    add_forms(forms, "mad24.<lo|hi>.<u32|s32>", "rrrr");
    add_forms(forms, "mad24.hi.sat.s32", "rrrr");
    add_forms(forms, "sad.<u16|s16>", "hhhh");
    add_forms(forms, "sad.<u32|s32>", "rrrr");
    add_forms(forms, "sad.<u64|s64>", "dddd");
    add_forms(forms, "<abs|neg>.s16", "hh");
    add_forms(forms, "<abs|neg>.s32", "rr");
    add_forms(forms, "<abs|neg>.s64", "dd");
    // Division by zero is unspecified: the divisor is made odd. So is the overflow of the least number by -1, which an
    // odd dividend avoids.
    add_forms(forms, "or.b16 h8, h1, 1; or.b16 h9, h2, 1; <div|rem>.<u16|s16> ho, h8, h9;", "h");
    add_forms(forms, "or.b32 r8, r1, 1; or.b32 r9, r2, 1; <div|rem>.<u32|s32> ro, r8, r9;", "r");
    add_forms(forms, "or.b64 d8, d1, 1; or.b64 d9, d2, 1; <div|rem>.<u64|s64> do, d8, d9;", "d");
    add_forms(forms, "add.cc.u32 r8, r1, r2; addc.u32 r9, r3, r4; mov.b64 do, {r8, r9};", "d");
    add_forms(forms, "sub.cc.u32 r8, r1, r2; subc.u32 r9, r3, r4; mov.b64 do, {r8, r9};", "d");
    add_forms(forms, "add.cc.u64 d8, d1, d2; addc.u64 d9, d3, d4; xor.b64 do, d8, d9;", "d");
    add_forms(forms, "add.cc.u32 r8, r1, r2; addc.cc.u32 r9, r3, r4; addc.u32 r7, 0, 0; mov.b64 do, {r9, r7};", "d");
    add_forms(forms, "mad.lo.cc.u32 r8, r1, r2, r3; madc.hi.u32 r9, r1, r2, r4; mov.b64 do, {r8, r9};", "d");
    add_forms(forms, "mad.hi.cc.u32 r8, r1, r2, r3; addc.u32 r9, 0, 0; mov.b64 do, {r8, r9};", "d");
    return forms;
}

std::vector<Form> bits() {
    std::vector<Form> forms;
    add_forms(forms, "<and|or|xor>.b16", "hhh");
    add_forms(forms, "<and|or|xor>.b32", "rrr");
    add_forms(forms, "<and|or|xor>.b64", "ddd");
    add_forms(forms, "<and|or|xor>.pred", "ppp");
    add_forms(forms, "<not|cnot>.b16", "hh");
    add_forms(forms, "<not|cnot>.b32", "rr");
    add_forms(forms, "<not|cnot>.b64", "dd");
    add_forms(forms, "not.pred", "pp");
    add_forms(forms, "shl.b16 ho, h1, r2;", "h");
    add_forms(forms, "shl.b32", "rrr");
    add_forms(forms, "shl.b64 do, d1, r2;", "d");
    add_forms(forms, "shr.<b16|u16|s16> ho, h1, r2;", "h");
    add_forms(forms, "shr.<b32|u32|s32>", "rrr");
    add_forms(forms, "shr.<b64|u64|s64> do, d1, r2;", "d");
    add_forms(forms, "shf.<l|r>.<clamp|wrap>.b32", "rrrr");
    for (const char* table : {"0x00", "0x01", "0x1b", "0x3c", "0x6a", "0x80", "0x96", "0xac", "0xca", "0xd8", "0xe8",
                              "0xf8", "0xfe", "0xff"})
        add_forms(forms, "lop3.b32", "rrrr", std::string(", ") + table);
    add_forms(forms, "lop3.<or|and>.b32 r8|po, r1, r2, r3, 0x40, p4;", "p");
    add_forms(forms, "prmt.b32", "rrrr");
    add_forms(forms, "prmt.b32.<f4e|b4e|rc8|ecl|ecr|rc16>", "rrrr");
    add_forms(forms, "<popc|clz|brev>.b32", "rr");
    add_forms(forms, "<popc|clz>.b64", "rd");
    add_forms(forms, "brev.b64", "dd");
    add_forms(forms, "bfind.<u32|s32>", "rr");
    add_forms(forms, "bfind.<u64|s64>", "rd");
    add_forms(forms, "bfind.shiftamt.<u32|s32>", "rr");
    add_forms(forms, "bfind.shiftamt.<u64|s64>", "rd");
    add_forms(forms, "bfe.<u32|s32>", "rrrr");
    // Position and length are numbers of 8 bits; only the 32-bit forms ignore the bits above.
    const std::string field = "and.b32 r8, r2, 255; and.b32 r9, r3, 255; ";
    add_forms(forms, field + "bfe.<u64|s64> do, d1, r8, r9;", "d");
    add_forms(forms, "bfi.b32", "rrrrr");
    add_forms(forms, field + "bfi.b64 do, d1, d4, r8, r9;", "d");
    add_forms(forms, "szext.<clamp|wrap>.<u32|s32>", "rrr");
    add_forms(forms, "bmsk.<clamp|wrap>.b32", "rrr");
    add_forms(forms, "dp4a.<u32|s32>.<u32|s32>", "rrrr");
    add_forms(forms, "dp2a.<lo|hi>.<u32|s32>.<u32|s32>", "rrrr");
    // The base is a bit number, the offset a small signed count.
    add_forms(forms, "and.b32 r8, r2, 31; bfe.s32 r9, r3, 0, 6; fns.b32 ro, r1, r8, r9;", "r");
    add_forms(forms, "mov.b64 {r8, r9}, d1; mov.b64 do, {r9, r8};", "d");
    add_forms(forms, "mov.b32 {h8, h9}, r1; mov.b32 ro, {h9, h8};", "r");
    add_forms(forms, "mov.b64 {h6, h7, h8, h9}, d1; mov.b64 do, {h8, h6, h9, h7};", "d");
    return forms;
}

std::vector<Form> choices() {
    std::vector<Form> forms;
    add_forms(forms, "setp.<eq|ne|lt|le|gt|ge>.<u16|s16>", "phh");
    add_forms(forms, "setp.<eq|ne|lt|le|gt|ge>.<u32|s32>", "prr");
    add_forms(forms, "setp.<eq|ne|lt|le|gt|ge>.<u64|s64>", "pdd");
    add_forms(forms, "setp.<lo|ls|hi|hs>.u32", "prr");
    add_forms(forms, "setp.<eq|ne>.b16", "phh");
    add_forms(forms, "setp.<eq|ne>.b64", "pdd");
    add_forms(forms,
              "setp.<lt|ge>.<and|or|xor>.s32 p8|p9, r1, r2, <p3|!p3>; selp.u32 r8, 2, 0, p8; "
              "selp.u32 r9, 1, 0, p9; or.b32 ro, r8, r9;",
              "r");
    add_forms(forms, "set.<eq|lt|ge>.<u32|s32>.<u32|s32>", "rrr");
    add_forms(forms, "set.<ne|le|gt>.f32.<u32|s32>", "rrr");
    add_forms(forms, "set.<lt|gt>.<and|or|xor>.u32.s32", "rrr", ", p3");
    add_forms(forms, "selp.<b16|u16|s16>", "hhhp");
    add_forms(forms, "selp.<b32|u32|s32|f32>", "rrrp");
    add_forms(forms, "selp.<b64|u64|s64|f64>", "dddp");
    add_forms(forms, "slct.<b16|u16|s16>.s32", "hhhr");
    add_forms(forms, "slct.<b32|u32|s32|f32>.s32", "rrrr");
    add_forms(forms, "slct.<b64|u64|s64|f64>.s32", "dddr");
    return forms;
}

}  // namespace

void add_integer_programs(Programs& programs) {
    programs.push_back(table_program("integer arithmetic", arithmetic(), {Values::words}, 11));
    programs.push_back(table_program("logic and bit fields", bits(), {Values::words}, 12));
    programs.push_back(table_program("integer comparisons", choices(), {Values::words}, 13));
}

}  // namespace nvfp4r::silicon
