// A subcommand of nvfp4-router: what main.cpp registers, parses and runs.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

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
    CLI::App* app = nullptr;
    std::function<int()> run;  // exit code; throws nvfp4r::Error
};

// One maker for each subcommand, each in the file of its name.
Command sample_command(CLI::App& root);
Command show_command(CLI::App& root);
Command pack_command(CLI::App& root);
Command route_command(CLI::App& root);
Command plan_command(CLI::App& root);
Command emit_command(CLI::App& root);
Command trace_command(CLI::App& root);
Command presets_command(CLI::App& root);
Command doctor_command(CLI::App& root);

}  // namespace nvfp4r::cli
