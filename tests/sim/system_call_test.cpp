// printf and assert of device code: vprintf and __assertfail, declared by the module and provided by the driver.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>

#include "core/error.hpp"
#include "run_ptx.hpp"

using namespace nvfp4r::sim;
using namespace nvfp4r::sim::test;

namespace {

const std::string kPrototypes = R"(
.extern .func (.param .b32 count) vprintf(.param .b64 format, .param .b64 arguments);
.extern .func __assertfail(.param .b64 message, .param .b64 file, .param .b32 line, .param .b64 function,
                           .param .b64 width);
)";

std::string bytes_of(const char* name, const std::string& text) {
    std::string list;
    for (const char c : text) list += fmt::format("{}, ", static_cast<int>(c));
    return fmt::format(".global .align 1 .b8 {}[{}] = {{{}0}};\n", name, text.size() + 1, list);
}

GridResult run_system_call(Bench& bench, const std::string& globals, const std::string& body,
                           const std::vector<uint64_t>& arguments) {
    const std::string kernel = kernel_text(body, arguments.size(), ".local .align 8 .b8 list[64];\n");
    const GridLaunch launch = bench.launch_of(module_text(100, kPrototypes + globals + kernel), {1}, arguments);
    return bench.gpu().run(std::span(&launch, 1)).front();
}

/// What `act` writes to stdout.
template <class Act>
std::string printed(Act act) {
    std::fflush(stdout);
    std::FILE* file = std::tmpfile();
    REQUIRE(file);
    const int before = dup(STDOUT_FILENO);
    dup2(fileno(file), STDOUT_FILENO);
    act();
    std::fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    std::string text(4096, '\0');
    std::rewind(file);
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
    return text;
}

}  // namespace

TEST_CASE("vprintf formats integers, floats and strings from a packed list, and counts them", "[sim]") {
    Bench bench;
    const uint64_t out = bench.room(4, "out");
    GridResult result;
    const std::string text = printed([&] {
        result = run_system_call(bench,
                                 bytes_of("form", "%d %5u|%-4x|%c %lld %.2f %s 100%%\n") + bytes_of("word", "end"), R"(
            mov.b32 %r0, -7;
            st.local.u32 [list], %r0;
            mov.b32 %r0, 42;
            st.local.u32 [list+4], %r0;
            mov.b32 %r0, 255;
            st.local.u32 [list+8], %r0;
            mov.b32 %r0, 65;
            st.local.u32 [list+12], %r0;
            mov.b64 %rd0, -5000000000;
            st.local.u64 [list+16], %rd0;
            mov.b64 %rd0, 0d3FF8000000000000;
            st.local.u64 [list+24], %rd0;
            mov.u64 %rd0, word;
            cvta.global.u64 %rd0, %rd0;
            st.local.u64 [list+32], %rd0;
            mov.u64 %rd0, form;
            cvta.global.u64 %rd0, %rd0;
            mov.u64 %rd1, list;
            cvta.local.u64 %rd1, %rd1;
            {
            .param .b64 param0;
            st.param.b64 [param0], %rd0;
            .param .b64 param1;
            st.param.b64 [param1], %rd1;
            .param .b32 value;
            call.uni (value), vprintf, (param0, param1);
            ld.param.b32 %r1, [value];
            }
            st.global.u32 [%a0], %r1;)",
                                 {out});
    });
    INFO(result.finding.text);
    REQUIRE(result.ok);
    CHECK(text == "-7    42|ff  |A -5000000000 1.50 end 100%\n");
    CHECK(bench.read<uint32_t>(out, 1)[0] == 7);
}

TEST_CASE("__assertfail stops the launch with the assertion and its place; other prototypes are refused", "[sim]") {
    const std::string call = R"(
        mov.u64 %rd0, text;
        cvta.global.u64 %rd0, %rd0;
        {
        .param .b64 param0;
        st.param.b64 [param0], %rd0;
        .param .b64 param1;
        st.param.b64 [param1], %rd0;
        .param .b32 param2;
        st.param.b32 [param2], 12;
        .param .b64 param3;
        st.param.b64 [param3], %rd0;
        .param .b64 param4;
        st.param.b64 [param4], 1;
        call.uni __assertfail, (param0, param1, param2, param3, param4);
        })";
    Bench bench;
    const GridResult result = run_system_call(bench, bytes_of("text", "k < 4"), call, {});
    REQUIRE_FALSE(result.ok);
    CHECK(result.finding.kind == FindingKind::trap);
    CHECK(result.finding.text.find("k < 4:12: k < 4: assertion `k < 4` failed") != std::string::npos);
    CHECK_THROWS_WITH(run_system_call(bench, ".extern .func other();\n", "call.uni other;", {}),
                      Catch::Contains("function other has no body"));
}
