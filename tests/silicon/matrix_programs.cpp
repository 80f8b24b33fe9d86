// ldmatrix, stmatrix and mma.sync of one warp (PTX ISA 9.7.14.5). A row of the table is a thread, 32 rows are a tile.
#include "silicon/table.hpp"

namespace nvfp4r::silicon {

namespace {

std::vector<Form> moves() {
    std::vector<Form> forms;
    const std::string put = "bar.warp.sync -1; st.shared.v2.b64 [s], {d1, d2}; bar.warp.sync -1; ";
    const std::string hash = " mov.b64 d8, {r5, r6}; mov.b64 d9, {r7, r8}; mad.lo.u64 do, d8, 3, d9;";
    add_forms(forms, put + "ldmatrix.sync.aligned.m8n8.x4<|.trans>.shared.b16 {r5, r6, r7, r8}, [s];" + hash, "d");
    add_forms(forms, put + "ldmatrix.sync.aligned.m8n8.x2<|.trans>.shared.b16 {r5, r6}, [s]; mov.b64 do, {r5, r6};",
              "d");
    add_forms(forms, put + "ldmatrix.sync.aligned.m8n8.x1<|.trans>.shared.b16 {ro}, [s];", "r");
    const std::string get = " bar.warp.sync -1; ld.shared.v2.b64 {d8, d9}, [s]; mad.lo.u64 do, d8, 3, d9;";
    add_forms(forms, put + "stmatrix.sync.aligned.m8n8.x4<|.trans>.shared.b16 [s], {r1, r2, r3, r4};" + get, "d");
    add_forms(forms, put + "stmatrix.sync.aligned.m8n8.x2<|.trans>.shared.b16 [s], {r1, r2};" + get, "d");
    add_forms(forms, put + "stmatrix.sync.aligned.m8n8.x1<|.trans>.shared.b16 [s], {r1};" + get, "d");
    return forms;
}

// A in d1 and d2, B in d3, C from both words of d4; the halves of D one after the other.
std::vector<Form> multiplies(const std::string& shape_and_types, bool f32_result) {
    const std::string unpack =
        ".reg .b32 a0, a1, a2, a3, b0, b1, c0, c1, e0, e1, e2, e3; mov.b64 {a0, a1}, d1; mov.b64 {a2, a3}, d2; "
        "mov.b64 {b0, b1}, d3; mov.b64 {c0, c1}, d4; ";
    const std::string mma = "mma.sync.aligned." + shape_and_types;
    std::vector<Form> forms;
    if (!f32_result) {
        forms.push_back(
            {"{ " + unpack + mma + " {e0, e1}, {a0, a1, a2, a3}, {b0, b1}, {c0, c1}; mov.b64 do, {e0, e1}; }", "d",
             ""});
        return forms;
    }
    for (const char* half : {"e0, e1", "e2, e3"})
        for (const char* c : {"c0, c1, c1, c0", "0f00000000, 0f00000000, 0f80000000, 0f80000000"}) {
            std::string text = "{ " + unpack;
            std::string from = c;
            if (from.starts_with("0f")) {
                text += "mov.b32 c0, 0; mov.b32 c1, 0x80000000; ";
                from = "c0, c0, c1, c1";
            }
            text +=
                mma + " {e0, e1, e2, e3}, {a0, a1, a2, a3}, {b0, b1}, {" + from + "}; mov.b64 do, {" + half + "}; }";
            forms.push_back({text, "d", ""});
        }
    return forms;
}

// K = 8: A in d1, B in the low word of d2.
std::vector<Form> short_multiplies(const std::string& type) {
    return {
        {"{ .reg .b32 a0, a1, c0, c1, e0, e1, e2, e3; mov.b64 {a0, a1}, d1; mov.b64 {c0, c1}, d4; "
         "mma.sync.aligned.m16n8k8.row.col.f32." +
             type + "." + type +
             ".f32 {e0, e1, e2, e3}, {a0, a1}, {r2}, {c0, c1, c0, c1}; mov.b64 d8, {e0, e1}; "
             "mov.b64 d9, {e2, e3}; mad.lo.u64 do, d8, 3, d9; }",
         "d", ""}};
}

}  // namespace

void add_matrix_programs(Programs& programs) {
    const auto f16 = Values::f16_matrix, bf16 = Values::bf16_matrix, fp8 = Values::eight_bit_matrix;
    programs.push_back(table_program("ldmatrix and stmatrix", moves(), {Values::words}, 501));
    for (uint64_t seed = 510; seed < 513; ++seed) {
        const std::string which = " " + std::to_string(seed - 510);
        programs.push_back(table_program("mma.sync f16" + which, multiplies("m16n8k16.row.col.f32.f16.f16.f32", true),
                                         {f16, f16, f16, Values::f32}, seed));
        programs.push_back(table_program("mma.sync bf16" + which,
                                         multiplies("m16n8k16.row.col.f32.bf16.bf16.f32", true),
                                         {bf16, bf16, bf16, Values::f32}, seed));
    }
    programs.push_back(
        table_program("mma.sync f16 into f16", multiplies("m16n8k16.row.col.f16.f16.f16.f16", false), {f16}, 520));
    programs.push_back(table_program("mma.sync k8 f16", short_multiplies("f16"), {f16, f16, f16, Values::f32}, 521));
    programs.push_back(
        table_program("mma.sync k8 bf16", short_multiplies("bf16"), {bf16, bf16, bf16, Values::f32}, 522));
    for (const char* types : {"e4m3.e4m3", "e5m2.e5m2", "e4m3.e5m2"})
        programs.push_back(table_program(std::string("mma.sync ") + types,
                                         multiplies(std::string("m16n8k32.row.col.f32.") + types + ".f32", true),
                                         {fp8, fp8, fp8, Values::f32}, 523));
}

}  // namespace nvfp4r::silicon
