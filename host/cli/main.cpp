// nvfp4-router: the command line of the library. A new subcommand is one file and one line in kMakers.
#include <fmt/format.h>

#include <exception>

#include "cli/command.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"

namespace nvfp4r::cli {
namespace {

using Maker = Command (*)(CommandLine&);
constexpr Maker kMakers[] = {sample_command, show_command,  pack_command,  route_command,   plan_command,
                             emit_command,   trace_command, bench_command, presets_command, doctor_command};

constexpr const char* kMainFooter =
    "A first run:\n"
    "  nvfp4-router sample --preset deepseek-v4-pro --tokens 64 --layers 4 --out sample\n"
    "  nvfp4-router route sample --layer 3 --hidden sample/hidden.safetensors --check\n"
    "\n"
    "Exit codes: 0 done; 1 a check failed; 2 wrong usage; 3 a file or its contents cannot be used;\n"
    "  4 not to be had here: no device, an unsupported case, or the driver, compiler or memory failed;\n"
    "  5 an error of this program itself.\n"
    "Results go to stdout, everything else to stderr. NO_COLOR=1 turns colours off.";

int exit_code(nvfp4r_status status) {
    switch (status) {
        case NVFP4R_OK: return kOk;
        case NVFP4R_INVALID_ARGUMENT: return kUsage;
        case NVFP4R_IO_ERROR:
        case NVFP4R_BAD_FILE: return kBadInput;
        case NVFP4R_UNSUPPORTED:
        case NVFP4R_NO_DEVICE:
        case NVFP4R_DRIVER_ERROR:
        case NVFP4R_COMPILE_ERROR:
        case NVFP4R_OUT_OF_MEMORY: return kDeviceFailed;
        case NVFP4R_INTERNAL: return kInternal;
    }
    return kInternal;
}

int run_main(const Command& command) {
    try {
        return command.run();
    } catch (const Error& error) {
        print_error(command.arguments.name(), error.what());
        return exit_code(error.status());
    } catch (const std::bad_alloc&) {
        print_error(command.arguments.name(), "out of memory");
        return kDeviceFailed;
    } catch (const std::exception& error) {
        print_error(command.arguments.name(), error.what());
        return kInternal;
    }
}

int main_of(int argc, char** argv) {
    CommandLine line(
        "nvfp4-router",
        "Routes tokens through a mixture-of-experts gate: hidden states in, expert ids and weights out.",
        fmt::format("nvfp4-router {}.{}.{}", NVFP4R_VERSION_MAJOR, NVFP4R_VERSION_MINOR, NVFP4R_VERSION_PATCH),
        kMainFooter);
    std::vector<Command> commands;
    for (const Maker make : kMakers) commands.push_back(make(line));
    if (const std::optional<bool> asked = line.parse(argc, argv)) return *asked ? kOk : kUsage;
    for (const Command& command : commands)
        if (command.arguments.given()) return run_main(command);
    return kUsage;
}

}  // namespace
}  // namespace nvfp4r::cli

int main(int argc, char** argv) {
    return nvfp4r::cli::main_of(argc, argv);
}
