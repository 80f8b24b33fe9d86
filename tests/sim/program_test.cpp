// Decoding whole programs: what an entry calls, its shared and local memory, and refusals by line.
#include <catch2/catch.hpp>

#include "core/error.hpp"
#include "sim/program/instr.hpp"

using namespace nvfp4r;
using namespace nvfp4r::sim;

namespace {

std::string program_module(const std::string& body, const std::string& globals = "") {
    return ".version 8.8\n.target sm_100a\n.address_size 64\n" + globals + "\n.visible .entry k()\n{\n" + body +
           "\nret;\n}\n";
}

}  // namespace

TEST_CASE("PTX programs link callees, refuse recursion and unknown instructions by line", "[sim]") {
    auto refused = [](const std::string& text) -> std::string {
        const auto module = parse_ptx(text);
        try {
            decode_program(*module, *module->find("k"));
        } catch (const Error& error) {
            CHECK(error.status() == NVFP4R_UNSUPPORTED);
            return error.what();
        }
        return "accepted";
    };
    CHECK_THAT(refused(program_module("frobnicate.u32;")),
               Catch::Contains("PTX line 7: `frobnicate.u32`: instruction frobnicate is not modelled"));
    CHECK_THAT(refused(program_module("exit.now;")), Catch::Contains("modifier .now is not modelled here"));
    CHECK(refused(program_module("call f;", ".func g() { ret; } .func f() { call g; ret; }")) == "accepted");
    CHECK_THAT(refused(program_module("call f;", ".func g(); .func f() { call g; ret; } .func g() { call f; ret; }")),
               Catch::Contains("recursion through f"));
    CHECK_THAT(refused(program_module("call f;", ".func f() { call f; ret; }")),
               Catch::Contains("recursion through f"));
    CHECK_THAT(refused(program_module("call f;", ".extern .func f();")), Catch::Contains("no body"));
    CHECK_THAT(refused(program_module(".reg .b64 a; call a, ();")), Catch::Contains("indirect call"));
    CHECK_THAT(refused(program_module(".param .b32 p; call f, (p);", ".func f(.param .b64 a) { ret; }")),
               Catch::Contains("4 bytes are passed for a, which has 8"));

    const auto module = parse_ptx(program_module(".shared .align 8 .b8 b[8]; .local .b32 l; call f; L: bra L;",
                                                 ".extern .shared .align 1024 .b8 dyn[]; .shared .b8 unused[99];\n"
                                                 ".func f() { .local .b8 m[3]; .reg .b32 r; bra M; M: ret; }"));
    const auto program = decode_program(*module, *module->find("k"));
    // k: call, its return, bra, ret, ret; f: bra, ret, ret.
    REQUIRE(program->code.size() == 8);
    CHECK(program->code[0].target == 5);
    CHECK(program->code[2].target == 2);
    CHECK(program->code[5].target == 6);
    CHECK(program->static_shared == 8);
    CHECK(program->dynamic_shared == 0x408);
    CHECK(program->local_bytes == 32);
    CHECK_FALSE(program->communicates);
}
