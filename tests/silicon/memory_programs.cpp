// Loads and stores of every width, atomics and cp.async, each thread on memory of its own, and atomics of a whole CTA on
// one word (PTX ISA 9.7.9, 9.7.13.8).
#include "silicon/table.hpp"

namespace nvfp4r::silicon {

namespace {

const std::string kHash4 = " mov.b64 d8, {r5, r6}; mov.b64 d9, {r7, r8}; mad.lo.u64 do, d8, 3, d9;";

std::vector<Form> loads_and_stores() {
    std::vector<Form> forms;
    add_forms(forms, "st.shared.b64 [s], d1; ld.shared.<u8|s8|b8> ro, [s+<0|3|7>];", "r");
    add_forms(forms, "st.shared.b64 [s], d1; ld.shared.<u16|s16|b16> ro, [s+<0|2|6>];", "r");
    add_forms(forms, "st.shared.b64 [s], d1; ld.shared.<u32|s32> do, [s+4];", "d");
    add_forms(forms, "st.shared.b64 [s], d1; st.shared.<u8|s8> [s+<1|6>], r2; ld.shared.b64 do, [s];", "d");
    add_forms(forms, "st.shared.b64 [s], d1; st.shared.<u16|s16> [s+<2|4>], r2; ld.shared.b64 do, [s];", "d");
    add_forms(forms, "st.global.b64 [q], d1; ld.global.<u8|s8|u16|s16|u32> ro, [q+4];", "r");
    add_forms(forms, "st.global.b64 [q], d1; st.global.<u8|u16|u32> [q+4], r2; ld.global.b64 do, [q];", "d");
    add_forms(forms, "st.local.b64 [stack], d1; ld.local.<u8|s8|u16|s16|u32> ro, [stack+4];", "r");
    add_forms(forms, "st.local.v2.b64 [stack], {d1, d2}; ld.local.v4.b32 {r5, r6, r7, r8}, [stack];" + kHash4, "d");
    add_forms(forms, "st.shared.v2.b64 [s], {d1, d2}; ld.shared.v4.<b32|u32|f32> {r5, r6, r7, r8}, [s];" + kHash4, "d");
    add_forms(forms,
              "st.global.v4.b32 [q], {r1, r2, r3, r4}; ld.global.v2.b64 {d8, d9}, [q]; mad.lo.u64 do, d8, 3, d9;", "d");
    add_forms(forms, "st.shared.v2.b64 [s], {d1, d2}; ld.shared.v4.<u8|s8> {r5, r6, r7, r8}, [s+4];" + kHash4, "d");
    add_forms(forms, "st.shared.v2.b64 [s], {d1, d2}; ld.shared.v4.<u16|s16> {r5, r6, r7, r8}, [s+8];" + kHash4, "d");
    add_forms(forms, "st.shared.b64 [s], d1; ld.shared.v2.<u8|s8|u16|s16|u32> {r8, r9}, [s]; mov.b64 do, {r8, r9};",
              "d");
    add_forms(forms, "st.shared.b64 [s], d1; st.shared.v4.<b8|u8> [s+4], {r1, r2, r3, r4}; ld.shared.b64 do, [s];",
              "d");
    add_forms(forms, "st.shared.b64 [s], d1; st.shared.v4.b16 [s], {h1, h2, h3, h4}; ld.shared.b64 do, [s];", "d");
    add_forms(forms, "ld.global.nc.v2.b64 {d8, d9}, [base]; mad.lo.u64 do, d8, 3, d9;", "d");
    add_forms(forms,
              "ld.global<.ca|.cg|.cs|.L1::no_allocate|.L2::128B>.v2.b64 {d8, d9}, [base+16]; "
              "mad.lo.u64 do, d8, 3, d9;",
              "d");
    add_forms(forms, "st.global<.wb|.cg|.cs>.b64 [q], d3; ld<.volatile|.relaxed.gpu|.acquire.sys>.global.b64 do, [q];",
              "d");
    add_forms(forms,
              "cvt.u64.u32 d9, s; cvta.shared.u64 d9, d9; st.b64 [d9], d1; "
              "ld.b64 do, [d9];",
              "d");
    return forms;
}

// Old and new value of one atomic operation on memory that holds d2.
void add_atomics(std::vector<Form>& forms, const std::string& operation, unsigned bits) {
    const std::string wide = bits == 64 ? "d" : bits == 32 ? "r" : "h";
    const std::string result = bits == 64   ? " mad.lo.u64 do, d8, 3, d9;"
                               : bits == 32 ? " mov.b64 do, {r8, r9};"
                                            : " mov.b32 r8, {h8, h9}; cvt.u64.u32 do, r8;";
    // The driver's compiler adds the wrong half of a pair that comes straight from a 64-bit register to shared memory.
    const bool pair = operation.ends_with("x2");
    const std::string prepare = pair ? "xor.b32 r5, r1, 0x80008000; " : "";
    const std::string value = pair ? "r5" : wide + "1";
    for (const std::string space : {"shared", "global"}) {
        const std::string at = space == "shared" ? "[s]" : "[q]";
        add_forms(forms,
                  prepare + "st." + space + ".b64 " + at + ", d2; atom." + space + "." + operation + " " + wide +
                      "8, " + at + ", " + value + "; ld." + space + ".b" + std::to_string(bits) + " " + wide + "9, " +
                      at + ";" + result,
                  "d");
        if (operation.find("exch") != std::string::npos) continue;
        add_forms(forms,
                  prepare + "st." + space + ".b64 " + at + ", d2; red." + space + "." + operation + " " + at + ", " +
                      value + "; ld." + space + ".b64 do, " + at + ";",
                  "d");
    }
}

std::vector<Form> integer_atomics() {
    std::vector<Form> forms;
    add_atomics(forms, "<add|min|max>.<u32|s32>", 32);
    add_atomics(forms, "<inc|dec>.u32", 32);
    add_atomics(forms, "<and|or|xor>.b32", 32);
    add_atomics(forms, "exch.b32", 32);
    add_atomics(forms, "add.u64", 64);
    add_atomics(forms, "<min|max>.<u64|s64>", 64);
    add_atomics(forms, "<and|or|xor>.b64", 64);
    add_atomics(forms, "exch.b64", 64);
    for (const char* bits : {"16", "32", "64"}) {
        const std::string b = bits, r = b == "64" ? "d" : b == "32" ? "r" : "h";
        // Half of the rows compare with what is there.
        for (const char* place : {"shared [s]", "global [q]"}) {
            const std::string space = std::string(place).substr(0, 6), at = std::string(place).substr(7);
            add_forms(forms,
                      "selp.b" + b + " " + r + "7, " + r + "2, " + r + "3, p4; st." + space + ".b64 " + at +
                          ", d2; atom." + space + ".cas.b" + b + " " + r + "8, " + at + ", " + r + "7, " + r +
                          "1; ld." + space + ".b64 d9, " + at + "; " +
                          (b == "64"   ? "mad.lo.u64 do, d8, 3, d9;"
                           : b == "32" ? "cvt.u64.u32 d8, r8; mad.lo.u64 do, d8, 3, d9;"
                                       : "cvt.u64.u16 d8, h8; mad.lo.u64 do, d8, 3, d9;"),
                      "d");
        }
    }
    // A whole CTA on one word.
    const std::string clear = "mov.u32 r8, slots; bar.sync 0; st.shared.b32 [s], 0; bar.sync 0; ";
    const std::string fetch = "bar.sync 0; ld.shared.b32 ro, [r8];";
    add_forms(forms, clear + "red.shared.<add.u32|max.s32|min.s32|max.u32|or.b32|xor.b32> [r8], r1; " + fetch, "r");
    add_forms(forms, clear + "red.shared.<inc|dec>.u32 [r8], 100; " + fetch, "r");
    return forms;
}

std::vector<Form> single_atomics() {
    std::vector<Form> forms;
    add_atomics(forms, "add.f32", 32);
    add_forms(forms,
              "st.global.b64 [q], d2; mov.b64 {r5, r6}, d1; atom.global.add.v2.f32 {r8, r9}, [q], {r5, r6}; "
              "ld.global.b64 do, [q];",
              "d");
    return forms;
}

std::vector<Form> twice_atomics() {
    std::vector<Form> forms;
    add_atomics(forms, "add.f64", 64);
    return forms;
}

std::vector<Form> half_atomics() {
    std::vector<Form> forms;
    add_atomics(forms, "add.noftz.f16", 16);
    add_atomics(forms, "add.noftz.f16x2", 32);
    add_forms(forms,
              "st.global.b64 [q], d2; mov.b64 {r5, r6}, d1; "
              "atom.global.<add|min|max>.noftz.v2.f16x2 {r8, r9}, [q], {r5, r6}; ld.global.b64 do, [q];",
              "d");
    return forms;
}

std::vector<Form> brain_half_atomics() {
    std::vector<Form> forms;
    add_atomics(forms, "add.noftz.bf16", 16);
    add_atomics(forms, "add.noftz.bf16x2", 32);
    add_forms(forms,
              "st.global.b64 [q], d2; mov.b64 {r5, r6}, d1; "
              "atom.global.<add|min|max>.noftz.v2.bf16x2 {r8, r9}, [q], {r5, r6}; ld.global.b64 do, [q];",
              "d");
    return forms;
}

std::vector<Form> async_copies() {
    std::vector<Form> forms;
    const std::string put = "st.global.v2.b64 [q], {d1, d2}; st.shared.v2.b64 [s], {d3, d4}; ";
    const std::string get = " cp.async.wait_all; ld.shared.v2.b64 {d8, d9}, [s]; mad.lo.u64 do, d8, 3, d9;";
    add_forms(forms, put + "cp.async.ca.shared.global [s], [q], <4|8|16>;" + get, "d");
    add_forms(forms, put + "cp.async.ca.shared.global [s+8], [q+<0|8>], <4|8>;" + get, "d");
    add_forms(forms, put + "cp.async.cg.shared.global [s], [q], 16;" + get, "d");
    add_forms(forms, put + "and.b32 r8, r1, 15; cp.async.cg.shared.global [s], [q], 16, r8;" + get, "d");
    add_forms(forms, put + "and.b32 r8, r1, 3; cp.async.ca.shared.global [s], [q], 4, r8;" + get, "d");
    add_forms(forms, put + "cp.async.ca.shared.global [s], [q], 8, p1;" + get, "d");
    add_forms(forms,
              put +
                  "cp.async.ca.shared.global [s], [q], 8; cp.async.commit_group; "
                  "cp.async.ca.shared.global [s+8], [q], 8; cp.async.commit_group; cp.async.wait_group <0|1>; "
                  "ld.shared.b64 do, [s]; cp.async.wait_all;",
              "d");
    return forms;
}

}  // namespace

void add_memory_programs(Programs& programs) {
    programs.push_back(table_program("loads and stores", loads_and_stores(), {Values::words}, 71));
    programs.push_back(table_program("integer atomics", integer_atomics(), {Values::words}, 72));
    programs.push_back(table_program("f32 atomics", single_atomics(), {Values::f32}, 73));
    programs.push_back(
        table_program("f32 atomics around the least normal number", single_atomics(), {Values::f32_tiny}, 78));
    programs.push_back(table_program("f64 atomics", twice_atomics(), {Values::f64}, 74));
    programs.push_back(table_program("f16 atomics", half_atomics(), {Values::f16}, 75));
    programs.push_back(table_program("bf16 atomics", brain_half_atomics(), {Values::bf16}, 76));
    programs.push_back(table_program("asynchronous copies of threads", async_copies(), {Values::words}, 77));
}

}  // namespace nvfp4r::silicon
