// A subcommand of nvfp4-router: what main.cpp registers, parses and runs.
#pragma once

#include <functional>

#include "cli/arguments.hpp"

namespace nvfp4r::cli {

/// Exit codes, documented in `nvfp4-router --help`.
enum ExitCode : int {
    kOk = 0,
    kCheckFailed = 1,
    kUsage = 2,
    kBadInput = 3,
    kDeviceFailed = 4,
    kInternal = 5,
};

struct Command {
    Arguments arguments;
    std::function<int()> run;  // exit code; throws nvfp4r::Error
};

// One maker for each subcommand, each in the file of its name.
Command sample_command(CommandLine& root);
Command show_command(CommandLine& root);
Command pack_command(CommandLine& root);
Command route_command(CommandLine& root);
Command plan_command(CommandLine& root);
Command emit_command(CommandLine& root);
Command trace_command(CommandLine& root);
Command bench_command(CommandLine& root);
Command presets_command(CommandLine& root);
Command doctor_command(CommandLine& root);

}  // namespace nvfp4r::cli
