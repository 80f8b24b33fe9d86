// `emit`: a compiled kernel and its launch sheet as files, for programs that launch it themselves.
#include <fmt/format.h>

#include <filesystem>

#include "cli/command.hpp"
#include "cli/launch_sheet.hpp"
#include "cli/terminal.hpp"
#include "core/atomic_file.hpp"
#include "jit/cache_key.hpp"
#include "jit/jit.hpp"
#include "plan/kernel_request.hpp"

namespace nvfp4r::cli {
namespace {

constexpr const char* kEmitFooter =
    "Beside FILE stands FILE.json, the launch sheet: entry, parameters, grid as a formula of M, memory and its "
    "initial\n"
    "contents, packing of the gate. The kernel serves the range of M that --tokens lies in.\n"
    "Example: nvfp4-router emit --preset deepseek-v4-pro --precision nvfp4 --arch 100a --ptx --out router.ptx";

struct EmitOptions {
    ProblemOptions problem;
    std::string out;
    bool ptx = false, cubin = false, built_in = false, json = false;
};

/// Both forms, under the name by which a library finds the kernels that it was built with.
void write_built_in(const CompileRequest& request, const CompiledKernel& kernel, const std::string& folder) {
    std::filesystem::create_directories(folder);
    const std::string stem = fmt::format("{}/{}", folder, request_key(request));
    write_file(stem + ".cubin", kernel.cubin);
    write_file(stem + ".ptx", kernel.ptx);
    fmt::print("{}.cubin and .ptx: {} and {} bytes, {}\n", stem, kernel.cubin.size(), kernel.ptx.size(), kernel.origin);
}

int run_emit(const EmitOptions& o) {
    const PlannedProblem problem = o.problem.resolve();
    const CompileRequest request = kernel_request(problem.plan, fmt::format("sm_{}", problem.gpu->arch));
    const CompiledKernel kernel = get_kernel(request);
    if (o.built_in) {
        write_built_in(request, kernel, o.out);
        return kOk;
    }
    const Json sheet = launch_sheet(problem);
    const std::string& code = o.ptx ? kernel.ptx : kernel.cubin;
    const std::string sheet_file = o.out + ".json";
    write_file(o.out, code);
    write_file(sheet_file, sheet.dump(2) + "\n");
    if (o.json)
        print_json(sheet);
    else
        fmt::print("{}: {} bytes of {}, {}\n{}: launch sheet\n", o.out, code.size(), o.ptx ? "PTX" : "cubin",
                   kernel.origin, sheet_file);
    return kOk;
}

}  // namespace

Command emit_command(CommandLine& root) {
    const Arguments app = root.subcommand("emit", "Write a compiled kernel and its launch sheet");
    app.footer(kEmitFooter);
    const auto o = std::make_shared<EmitOptions>();
    app.exactly_one_of("Form", {{"--ptx", o->ptx, "PTX text"},
                                {"--cubin", o->cubin, "Machine code for exactly this architecture"},
                                {"--built-in", o->built_in,
                                 "Both, into the folder FILE, to be built into the library (`make kernels`)"}});
    o->problem.add_to(app, "--arch");
    app.option("--out", o->out, "FILE of the kernel").required();
    app.flag("--json", o->json, "Print the launch sheet");
    return {app, [o] { return run_emit(*o); }};
}

}  // namespace nvfp4r::cli
