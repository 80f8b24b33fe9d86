#include "jit/compile.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/error.hpp"
#include "jit/embedded.hpp"
#include "jit/jit.hpp"
#include "jit/target.hpp"
#include "tiny_kernel.hpp"

using namespace nvfp4r;
using Catch::Matchers::Contains;
using nvfp4r::test::tiny_request;

namespace {

bool have_nvrtc() {
    try {
        nvrtc();
        return true;
    } catch (const Error&) {
        WARN("no NVRTC here: compilation is not tested");
        return false;
    }
}

}  // namespace

TEST_CASE("every supported architecture compiles to PTX and CUBIN of that target", "[jit]") {
    if (!have_nvrtc()) return;
    for (const char* arch : {"sm_90a", "sm_100a", "sm_103a", "sm_110a"}) {
        const CompiledKernel kernel = compile(nvrtc(), tiny_request(arch));
        CHECK_THAT(kernel.ptx, Contains(std::string(".target ") + arch) && Contains(".entry tiny("));
        CHECK(kernel.ptx.find('\0') == std::string::npos);
        CHECK_THAT(kernel.ptx, Contains("0f40400000"));  // 3.0f: the option reached the header
        CHECK(kernel.cubin.substr(0, 4) ==
              "\x7f"
              "ELF");
        CHECK(kernel.origin == "compiled");
    }
}

TEST_CASE("C46 a compile error carries the log, the source and the target", "[jit]") {
    if (!have_nvrtc()) return;
    CompileRequest request = tiny_request();
    request.options = {};
    try {
        compile(nvrtc(), request);
        FAIL("compiled without FACTOR");
    } catch (const Error& error) {
        CHECK(error.status() == NVFP4R_COMPILE_ERROR);
        CHECK_THAT(error.what(), Contains("tiny.cu") && Contains("sm_90a") && Contains("\"FACTOR\" is undefined") &&
                                     Contains("tiny.cuh(1)"));
    }
}

TEST_CASE("C40 an architecture that this NVRTC does not know is named", "[jit]") {
    if (!have_nvrtc()) return;
    CHECK_THROWS_WITH(compile(nvrtc(), tiny_request("sm_997a")), Contains("sm_997a") && Contains(nvrtc().version()));
}

TEST_CASE("C46 a missing NVRTC is reported with what was tried and the remedy", "[jit]") {
    CHECK_THROWS_WITH(
        open_nvrtc({"/nowhere/libnvrtc.so.13", "/nowhere/libnvrtc.so.12"}),
        Contains("/nowhere/libnvrtc.so.13") && Contains("/nowhere/libnvrtc.so.12") && Contains("NVFP4R_LIBNVRTC"));
    CHECK_THROWS_WITH(open_nvrtc({"libz.so.1"}), Contains("libz.so.1") && Contains("not NVRTC"));
}

TEST_CASE("NVFP4R_LIBNVRTC alone decides where NVRTC comes from", "[jit]") {
    const char* before = std::getenv("NVFP4R_LIBNVRTC");
    const std::string saved = before != nullptr ? before : "";
    setenv("NVFP4R_LIBNVRTC", "/some/where.so", 1);
    CHECK(nvrtc_candidates() == std::vector<std::string>{"/some/where.so"});
    unsetenv("NVFP4R_LIBNVRTC");
    CHECK(nvrtc_candidates().size() > 2);
    CHECK(nvrtc_candidates().front() == "libnvrtc.so.13");
    if (!saved.empty()) setenv("NVFP4R_LIBNVRTC", saved.c_str(), 1);
}

// Runs in a process of its own, started by the next test with a broken builtins library first on the loader's path.
TEST_CASE("child: compile with whatever builtins there are", "[.jit-child]") {
    try {
        compile(nvrtc(), tiny_request());
        std::puts("compiled");
    } catch (const Error& error) {
        std::puts(error.what());
    }
}

TEST_CASE("C46 missing NVRTC builtins: the log is shown in full", "[jit]") {
    if (!have_nvrtc()) return;
    Dl_info info = {};
    REQUIRE(dladdr(reinterpret_cast<void*>(nvrtc().nvrtcVersion), &info) != 0);
    const auto folder = std::filesystem::temp_directory_path() / ("nvfp4r-builtins-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
    std::filesystem::create_symlink(info.dli_fname, folder / "libnvrtc.so");
    std::ofstream(folder / ("libnvrtc-builtins.so." + nvrtc().version())) << "not a library";
    const std::string own = std::filesystem::read_symlink("/proc/self/exe").string();
    const std::string command = fmt::format(
        "LD_LIBRARY_PATH={0} NVFP4R_LIBNVRTC={0}/libnvrtc.so {1} '[.jit-child]' 2>&1", folder.string(), own);
    FILE* child = popen(command.c_str(), "r");
    REQUIRE(child != nullptr);
    std::string output;
    char buffer[4096];
    while (const std::size_t got = fread(buffer, 1, sizeof buffer, child)) output.append(buffer, got);
    pclose(child);
    std::filesystem::remove_all(folder);
    CHECK_THAT(output, Contains("failed to open libnvrtc-builtins") && Contains("belongs beside libnvrtc"));
}

TEST_CASE("C47 device sources include nothing outside themselves", "[jit]") {
    std::vector<std::string> names;
    for (const EmbeddedFile& file : embedded_sources()) names.emplace_back(file.name);
    REQUIRE_FALSE(names.empty());
    names.emplace_back("kernel_plan.h");  // the plan as constants, written by the host for each compilation
    for (const EmbeddedFile& file : embedded_sources()) {
        std::istringstream text{std::string(file.bytes)};
        for (std::string word; text >> word;) {
            if (word != "#include") continue;
            std::string name;
            text >> name;
            INFO(file.name << " includes " << name);
            REQUIRE(name.size() > 2);
            CHECK(std::find(names.begin(), names.end(), name.substr(1, name.size() - 2)) != names.end());
        }
    }
}

TEST_CASE("embedded files have their bytes and alignment", "[jit]") {
    for (const EmbeddedFile& file : embedded_sources()) {
        INFO(file.name);
        CHECK_FALSE(file.bytes.empty());
        CHECK(reinterpret_cast<std::uintptr_t>(file.bytes.data()) % 64 == 0);
        CHECK(file.bytes.find('\0') == std::string_view::npos);
    }
}

TEST_CASE("a request carries every header that its source reaches, once", "[jit]") {
    const CompileRequest request =
        embedded_request("router_sm100.cu", "sm_100a", {}, {{"kernel_plan.h", "// made here\n"}});
    std::vector<std::string> names;
    for (const SourceFile& header : request.headers) names.push_back(header.name);
    const auto count = [&](const char* name) { return std::count(names.begin(), names.end(), name); };
    CHECK(count("kernel_plan.h") == 1);
    CHECK(count("isa/mbarrier.cuh") == 1);
    CHECK(count("router_params.h") == 1);
    CHECK(count("router_sm90.cu") == 0);
    for (const SourceFile& header : request.headers) {
        if (header.name == "kernel_plan.h") CHECK(header.text == "// made here\n");
    }
}

TEST_CASE("an unknown embedded source is named", "[jit]") {
    CHECK_THROWS_WITH(embedded_request("no_such.cu", "sm_90a", {}), Contains("no_such.cu"));
}
