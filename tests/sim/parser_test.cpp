// The PTX parser: every construct that compilers and inline assembly produce, and refusals by place.
#include <catch2/catch.hpp>

#include "core/error.hpp"
#include "sim/ptx/ast.hpp"

using namespace nvfp4r;
using namespace nvfp4r::sim;

namespace {

std::string parser_module(const std::string& body, const std::string& globals = "") {
    return ".version 8.8\n.target sm_100a\n.address_size 64\n" + globals + "\n.visible .entry k()\n{\n" + body +
           "\nret;\n}\n";
}

std::string parser_refusal(const std::string& text) {
    try {
        parse_ptx(text);
    } catch (const Error& error) {
        CHECK(error.status() == NVFP4R_COMPILE_ERROR);
        return error.what();
    }
    return "accepted";
}

}  // namespace

TEST_CASE("PTX header, targets and directives of an entry", "[sim]") {
    const auto module = parse_ptx(
        "// comment\n.version 9.0\n.target sm_100a, debug\n.address_size 64\n"
        ".file 1 \"a \\\" b.cu\", 1700000000, 42\n"
        ".extern .func (.param .b32 func_retval0) vprintf\n(\n.param .b64 p0,\n.param .b64 p1\n)\n;\n"
        ".visible .entry k(.param .u64 .ptr .global .align 16 k_param_0, .param .align 64 .b8 k_param_1[128],\n"
        " .param .u8 k_param_2, .param .f32 k_param_3)\n"
        ".maxntid 256, 1, 1\n.minnctapersm 1\n.maxnreg 64\n.explicitcluster\n.reqnctapercluster 2, 1, 1\n"
        "{ .loc 1 12 3\n /* block\n comment */ .pragma \"nounroll\"; ret; }\n"
        ".weak .entry w() .reqntid 32 .maxclusterrank 8 .blocksareclusters { exit; }\n"
        ".section .debug_str\n{\n$L__info_string0:\n.b8 118,101\n.b8 0\n}\n");
    CHECK(module->version_major == 9);
    CHECK(module->version_minor == 0);
    CHECK(module->target == "sm_100a");
    CHECK(module->files.at(1) == "a \\\" b.cu");
    const Function* k = module->find("k");
    REQUIRE(k);
    CHECK(k->is_entry);
    REQUIRE(k->params.size() == 4);
    CHECK(k->params[0].offset == 0);
    CHECK(k->params[1].offset == 64);
    CHECK(k->params[1].size == 128);
    CHECK(k->params[2].offset == 192);
    CHECK(k->params[3].offset == 196);
    CHECK(k->param_bytes == 200);
    CHECK(k->max_threads[0] == 256);
    CHECK(k->min_ctas_per_sm == 1);
    CHECK(k->max_registers == 64);
    CHECK(k->explicit_cluster);
    CHECK(k->required_cluster[0] == 2);
    CHECK(k->required_cluster[2] == 1);
    REQUIRE(k->statements.size() == 2);  // the written ret and the one that ends every body
    CHECK(k->statements[0].loc.line == 12);
    CHECK(k->statements[0].loc.file == 1);
    const Function* w = module->find("w");
    REQUIRE(w);
    CHECK(w->required_threads[0] == 32);
    CHECK(w->max_cluster_rank == 8);
    CHECK(w->blocks_are_clusters);
    CHECK_FALSE(module->find("vprintf")->has_body);
    CHECK(module->find("absent") == nullptr);
}

TEST_CASE("PTX variables, initialisers and addresses in initialisers", "[sim]") {
    const auto module = parse_ptx(
        ".version 8.0\n.target sm_90a\n.address_size 64\n"
        ".global .align 4 .b8 g[16] = {1, 0, 0, 0, 2, 0x10, -1};\n"
        ".const .f32 c[3] = {0f3F800000, 2.0, -1};\n"
        ".global .u64 p = generic(g)+4;\n"
        ".global .u64 q[2] = {g, g+8};\n"
        ".global .b8 parts[2] = {0xFF(g), 0xFF00(generic(g)+1)};\n"
        ".global .u32 matrix[2][2] = {{1, 2}, {3, 4}};\n"
        ".global .u16 open[] = {1, 2, 3};\n"
        ".global .b8 text[4] = \"abc\";\n"
        ".global .u32 a = (1 << 4) | 3, b = 7 > 3 ? 2 : 1;\n"
        ".extern .shared .align 1024 .b8 dyn[];\n"
        ".shared .align 8 .b8 fixed[40];\n");
    const Variable& g = *module->find_variable("g");
    CHECK(g.size == 16);
    CHECK(g.align == 4);
    CHECK(g.initial == std::vector<uint8_t>{1, 0, 0, 0, 2, 0x10, 0xff});
    CHECK(module->find_variable("c")->initial ==
          std::vector<uint8_t>{0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0, 0, 0x80, 0xbf});
    const Variable& p = *module->find_variable("p");
    REQUIRE(p.relocations.size() == 1);
    CHECK(p.relocations[0].generic);
    CHECK(p.relocations[0].symbol == "g");
    CHECK(p.relocations[0].addend == 4);
    CHECK(p.relocations[0].bytes == 8);
    const Variable& q = *module->find_variable("q");
    REQUIRE(q.relocations.size() == 2);
    CHECK(q.relocations[1].at == 8);
    CHECK(q.relocations[1].addend == 8);
    const Variable& parts = *module->find_variable("parts");
    REQUIRE(parts.relocations.size() == 2);
    CHECK(parts.relocations[0].bytes == 1);
    CHECK(parts.relocations[1].shift == 8);
    CHECK(parts.relocations[1].addend == 1);
    CHECK(module->find_variable("matrix")->size == 16);
    CHECK(module->find_variable("matrix")->initial[12] == 4);
    CHECK(module->find_variable("open")->size == 6);
    CHECK(module->find_variable("text")->initial == std::vector<uint8_t>{'a', 'b', 'c', 0});
    CHECK(module->find_variable("a")->initial[0] == 19);
    CHECK(module->find_variable("b")->initial[0] == 2);
    CHECK(module->find_variable("dyn")->size == 0);
    CHECK(module->find_variable("dyn")->is_extern);
    CHECK(module->find_variable("dyn")->align == 1024);
    CHECK(module->find_variable("fixed")->size == 40);
}

TEST_CASE("PTX operands", "[sim]") {
    const auto module = parse_ptx(parser_module(
        ".reg .pred %p<3>; .reg .b32 %r<20>; .reg .b64 %rd<5>; .reg .b32 %f<4>; .reg .b16 a, b; .reg .pred q;\n"
        "@!%p1 add.s32 %r1, %r2, -4; mov.b32 %f1, 0f3F800000;\n"
        "ld.global.v4.b32 {%r1, %r2, _, %r4}, [%rd1+-16];\n"
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], "
        "[%r4];\n"
        "shfl.sync.bfly.b32 %r1|%p1, %r2, 16, 31, 0xffffffff;\n"
        "elect.sync _|q, -1; setp.lt.and.s32 %p1|%p2, %r1, %r2, !q;\n"
        "mov.u32 %r5, %tid.x; ld.shared.b32 %r1, [var+8]; st.shared.b32 [4096], %r1;\n"
        "mov.b32 %r6, {a, b}; mov.u32 %r7, var+4;",
        ".shared .b32 var[8];"));
    const std::vector<Statement>& s = module->find("k")->statements;
    CHECK(s[0].guard.kind == OperandKind::pred);
    CHECK(s[0].guard.negated);
    CHECK(s[0].opcode == "add");
    CHECK(s[0].modifiers == std::vector<std::string>{"s32"});
    CHECK(s[0].operands[2].imm == -4);
    CHECK(s[0].text == "@!%p1 add.s32 %r1, %r2, -4");
    CHECK(s[1].operands[1].is_float);
    CHECK(s[1].operands[1].imm == 0x3f800000);
    CHECK(s[2].operands[0].kind == OperandKind::vector);
    CHECK(s[2].operands[0].parts[2].kind == OperandKind::sink);
    CHECK(s[2].operands[1].kind == OperandKind::address);
    CHECK(s[2].operands[1].imm == -16);
    CHECK(s[3].modifiers[0] == "async");
    CHECK(s[3].modifiers[6] == "mbarrier::complete_tx::bytes");
    CHECK(s[3].operands[1].parts[1].kind == OperandKind::vector);
    CHECK(s[4].operands[0].kind == OperandKind::pair);
    CHECK(s[5].operands[0].parts[0].kind == OperandKind::sink);
    CHECK(s[6].operands[3].negated);
    CHECK(s[7].operands[1].kind == OperandKind::special);
    CHECK(s[8].operands[1].parts[0].symbol == "var");
    CHECK(s[8].operands[1].imm == 8);
    CHECK(s[9].operands[0].parts[0].kind == OperandKind::none);
    CHECK(s[9].operands[0].imm == 4096);
    CHECK(s[10].operands[1].parts.size() == 2);
    CHECK(s[11].operands[1].imm == 4);
    // Only the registers that occur get slots.
    CHECK(module->find("k")->registers == 11);
    CHECK(module->find("k")->predicates == 3);
}

TEST_CASE("PTX names and labels follow the braces", "[sim]") {
    const auto module =
        parse_ptx(parser_module(".reg .b32 x;\n"
                                "{ .reg .b32 x; .reg .pred p; mov.b32 x, 1; @p bra L; mov.b32 x, 2; L: }\n"
                                "{ .reg .b32 x; mov.b32 x, 3; L: bra.uni L; bra M; }\n"
                                "M: mov.b32 x, 4;"));
    const Function& k = *module->find("k");
    const std::vector<Statement>& s = k.statements;
    CHECK(s[0].operands[0].reg == 1);
    CHECK(s[1].operands[0].kind == OperandKind::label);
    CHECK(s[1].operands[0].imm == 3);
    CHECK(s[3].operands[0].reg == 2);
    CHECK(s[4].operands[0].imm == 4);
    CHECK(s[5].operands[0].imm == 6);
    CHECK(s[6].operands[0].reg == 0);
    CHECK(k.register_names == std::vector<std::string>{"x", "x", "x"});
}

TEST_CASE("PTX call sequences share their frame, branch tables are resolved", "[sim]") {
    const auto module = parse_ptx(
        ".version 8.0\n.target sm_90a\n.address_size 64\n"
        ".func (.param .b32 r) f(.param .b32 a, .param .align 8 .b8 s[16]) { ret; }\n"
        ".entry k() { .reg .b32 %r<4>; .local .align 16 .b8 depot[24];\n"
        "{ .param .b32 param0; .param .align 8 .b8 param1[16]; .param .b32 retval0;\n"
        "st.param.b32 [param0], %r1; call.uni (retval0), f, (param0, param1); ld.param.b32 %r2, [retval0]; }\n"
        "{ .param .b32 param0; .param .align 8 .b8 param1[16]; .param .b32 retval0;\n"
        "call.uni (retval0), f, (param0, param1); }\n"
        "T: .branchtargets A, B; brx.idx %r1, T; A: mov.b32 %r1, 0; B: ret; }");
    const Function& k = *module->find("k");
    REQUIRE(k.locals.size() == 7);
    CHECK(k.locals[1].offset == 24);
    CHECK(k.locals[2].offset == 32);
    CHECK(k.locals[4].offset == k.locals[1].offset);
    CHECK(k.locals[4].name != k.locals[1].name);
    CHECK(k.frame_bytes == 52);
    REQUIRE(k.branch_tables.size() == 1);
    CHECK(k.branch_tables[0] == std::vector<uint32_t>{5, 6});
    CHECK(module->find("f")->frame_bytes == 24);
}

TEST_CASE("PTX that is wrong is refused with its place", "[sim]") {
    const char* const kCases[][2] = {
        {".reg .b32 a; add.s32 a, a, 1", "`ret` found where `;` is expected"},
        {"mov.b32 nowhere, 1;", "PTX line 7, column 9: `nowhere` is not declared"},
        {"bra L;", "label `L` is not defined"},
        {"{ L: ret; } bra L;", "label `L` is not defined"},
        {"L: L: ret;", "already defined"},
        {".reg .b32 a; .reg .b32 a;", "already declared"},
        {".reg .v4 .b32 a;", ".v4 is not a type"},
        {".reg .b32 a; @a ret;", "not a predicate"},
        {".reg .b32 a; mov.b32 a, %envreg3;", "no special register that is modelled"},
        {".reg .b32 a; mov.b32 a, 0f123;", "8 hexadecimal digits"},
        {".reg .b32 a; mov.b32 a, 12ab;", "not a number"},
        {".reg .b32 a; mov.b32 a, 1/0;", "division by zero"},
        {".reg .b32 a; mov.b32 a, (1;", "`;` found where `)`"},
        {".reg .b32 a; mov.b32 a, 99999999999999999999;", "is not a number"},
        {".align 4;", "directive .align inside a function"},
        {"/* open", "comment without an end"},
        {"{ {", "the text ends inside a function"},
        {"mov.b32 a, \x01;", "character 0x01"},
        {".local .align 3 .b8 a[4];", "not a power of two"},
        {".local .b8 a[2000000];", "exceed 1 MiB"},
    };
    for (const auto& [body, why] : kCases) {
        INFO(body);
        CHECK_THAT(parser_refusal(parser_module(body)), Catch::Contains(why));
    }
    CHECK_THAT(parser_refusal(""), Catch::Contains("`.version` is expected"));
    CHECK_THAT(parser_refusal(".version 8\n"), Catch::Contains("not a version"));
    CHECK_THAT(parser_refusal(".version 8.0 .target sm_90 .address_size 32"), Catch::Contains("64-bit"));
    CHECK_THAT(parser_refusal(".version 8.0 .target sm_90 .tex .u32 t;"), Catch::Contains("`.tex` at module scope"));
    CHECK_THAT(parser_refusal(".version 8.0 .target sm_90 .global .b8 a[4] = {1,2,3,4,5};"),
               Catch::Contains("its initialiser 5"));
    CHECK_THAT(parser_refusal(".version 8.0 .target sm_90 .global .b8 a[4294967297];"), Catch::Contains("PTX line 1"));
    // Nesting that would exhaust the stack of a careless parser.
    CHECK_THAT(parser_refusal(parser_module(std::string(10000, '{'))), Catch::Contains("nested too deeply"));
    CHECK_THAT(parser_refusal(parser_module(".reg .b32 a; mov.b32 a, " + std::string(10000, '('))),
               Catch::Contains("too deeply"));
    CHECK_THAT(parser_refusal(parser_module(".reg .b32 a; mov.b32 a, " + std::string(10000, '~'))),
               Catch::Contains("too deeply"));
}
