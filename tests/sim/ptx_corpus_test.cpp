// What nvcc 13.0 makes of the kernels in tests/sim/data parses and decodes; mutations of it never crash the parser.
#include <catch2/catch.hpp>
#include <random>

#include "core/error.hpp"
#include "sim/program/instr.hpp"
#include "sim/ptx_file.hpp"

using namespace nvfp4r;
using namespace nvfp4r::sim;
using nvfp4r::sim::test::ptx_of;

namespace {

const char* const kFiles[] = {"softmax.ptx", "cluster.ptx", "blackwell.ptx"};

// One edit of the kind that finds parser bugs: cut, repeat, swap, or a token from elsewhere.
std::string mutated(const std::string& text, std::mt19937_64& random) {
    static const char* const kPieces[] = {"{",
                                          "}",
                                          "[",
                                          "]",
                                          "(",
                                          ")",
                                          ";",
                                          ",",
                                          ":",
                                          "@",
                                          "|",
                                          ".",
                                          "::",
                                          "<",
                                          ">",
                                          "-",
                                          "!",
                                          "_",
                                          "0f",
                                          "1e999",
                                          "\"",
                                          "/*",
                                          "%r",
                                          "bra",
                                          "call",
                                          ".reg",
                                          ".param",
                                          ".shared",
                                          ".branchtargets",
                                          ".loc",
                                          "0x"};
    std::string out = text;
    const size_t edits = 1 + random() % 4;
    for (size_t i = 0; i < edits; ++i) {
        const size_t at = random() % out.size();
        const size_t length = std::min<size_t>(1 + random() % 40, out.size() - at);
        switch (random() % 5) {
            case 0: out.erase(at, length); break;
            case 1: out.insert(at, out.substr(random() % out.size(), length)); break;
            case 2: out.insert(at, kPieces[random() % std::size(kPieces)]); break;
            case 3: out[at] = static_cast<char>(random()); break;
            default: out.replace(at, length, kPieces[random() % std::size(kPieces)]); break;
        }
        if (out.empty()) out = ".";
    }
    return out;
}

// Parses, and decodes every entry; a refusal is a right answer.
bool survives(const std::string& text) {
    try {
        const auto module = parse_ptx(text);
        for (const Function& function : module->functions) {
            if (function.is_entry && function.has_body) decode_program(*module, function);
        }
        return true;
    } catch (const Error& error) {
        CHECK(std::string(error.what()).size() > 10);
        return false;
    }
}

}  // namespace

TEST_CASE("PTX of nvcc parses, keeps source lines, and every entry decodes", "[sim]") {
    for (const char* const name : kFiles) {
        INFO(name);
        const auto module = parse_ptx(ptx_of(name));
        CHECK(module->target == "sm_100a");
        size_t entries = 0, with_source = 0;
        for (const Function& function : module->functions) {
            for (const Statement& statement : function.statements) with_source += statement.loc.line != 0;
            if (!function.is_entry) continue;
            ++entries;
            const auto program = decode_program(*module, function);
            for (const Instr& instr : program->code) {
                CHECK(instr.exec != nullptr);
                CHECK(instr.statement != nullptr);
            }
        }
        CHECK(entries == 1);
        CHECK(with_source > 20);
    }
}

TEST_CASE("PTX of a cluster kernel: dimensions, calls, tables, addresses in initialisers", "[sim]") {
    const auto module = parse_ptx(ptx_of("cluster.ptx"));
    const Function* reduce = module->find("reduce");
    REQUIRE(reduce);
    CHECK(reduce->explicit_cluster);
    CHECK(reduce->required_cluster[0] == 4);
    const auto program = decode_program(*module, *reduce);
    CHECK(program->communicates);
    CHECK(program->local_bytes > 0);
    CHECK(program->static_shared == 16);
    REQUIRE(module->find_variable("where"));
    CHECK(module->find_variable("where")->relocations.size() == 1);
    CHECK(module->find_variable("kTable")->space == StateSpace::constant);
}

TEST_CASE("mutated PTX is parsed or refused, never worse", "[sim]") {
    constexpr size_t kRounds = 400;
    std::mt19937_64 random(7);
    size_t refused = 0;
    for (const char* const name : {"softmax.ptx", "blackwell.ptx"}) {
        const std::string text = ptx_of(name);
        for (size_t i = 0; i < kRounds; ++i) refused += !survives(mutated(text, random));
    }
    CHECK(refused > kRounds / 2);
}

TEST_CASE("every prefix of a PTX file is refused in good time", "[sim]") {
    const std::string text = ptx_of("blackwell.ptx");
    for (size_t length = 0; length < text.size(); length += 23) survives(text.substr(0, length));
    CHECK_FALSE(survives(text.substr(0, text.size() - 4)));
}
