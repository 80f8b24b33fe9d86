// The command line as the subcommands see it. CLI11 is large and in its headers alone, so arguments.cpp is the one file
// that takes it in; every other file of this room compiles in a fraction of the time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace nvfp4r::cli {

/// One option of a subcommand, to say more about. A handle: CLI11 owns the option.
class Argument {
  public:
    explicit Argument(CLI::Option& option) : option_(&option) {}
    Argument required() const;
    Argument show_default() const;
    Argument group(const std::string& heading) const;
    Argument one_of(const std::vector<std::string>& values) const;
    Argument between(int64_t low, int64_t high) const;
    Argument non_negative() const;
    Argument comma_separated() const;
    /// `fault` returns what is wrong with a value, "" when nothing is; `form` stands for the value in the help.
    Argument check(std::function<std::string(std::string&)> fault, const std::string& form) const;

  private:
    CLI::Option* option_;
};

struct Switch {
    const char* flag;
    bool& value;
    const char* help;
};

/// The options of one subcommand. A handle: CommandLine owns what is behind it.
class Arguments {
  public:
    explicit Arguments(CLI::App& app) : app_(&app) {}
    void footer(const std::string& text) const;
    /// A positional argument where `name` has no dashes. `value` outlives the parse. T: what arguments.cpp lists.
    template <typename T>
    Argument option(const std::string& name, T& value, const std::string& help) const;
    /// T: bool, or int32_t which becomes 1.
    template <typename T>
    Argument flag(const std::string& name, T& value, const std::string& help) const;
    Argument on_flag(const std::string& name, std::function<void()> action, const std::string& help) const;
    /// Flags of which exactly one must be given.
    void exactly_one_of(const std::string& heading, const std::vector<Switch>& switches) const;
    void remove(const std::string& name) const;
    std::string name() const;
    bool given() const;

  private:
    CLI::App* app_;
};

class CommandLine {
  public:
    CommandLine(const std::string& name, const std::string& description, const std::string& version,
                const std::string& footer);
    ~CommandLine();
    CommandLine(const CommandLine&) = delete;
    CommandLine& operator=(const CommandLine&) = delete;

    Arguments subcommand(const std::string& name, const std::string& description);
    /// Nothing when a subcommand is to run; else help, version or the fault has been printed and this tells which:
    /// true for the first two.
    std::optional<bool> parse(int argc, char** argv);

  private:
    CLI::App* app_;
};

}  // namespace nvfp4r::cli
