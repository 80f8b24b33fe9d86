#include "cli/arguments.hpp"

#include <CLI/CLI.hpp>

namespace nvfp4r::cli {

Argument Argument::required() const {
    option_->required();
    return *this;
}

Argument Argument::show_default() const {
    option_->capture_default_str();
    return *this;
}

Argument Argument::group(const std::string& heading) const {
    option_->group(heading);
    return *this;
}

Argument Argument::one_of(const std::vector<std::string>& values) const {
    option_->check(CLI::IsMember(values));
    return *this;
}

Argument Argument::between(int64_t low, int64_t high) const {
    option_->check(CLI::Range(low, high));
    return *this;
}

Argument Argument::non_negative() const {
    option_->check(CLI::NonNegativeNumber);
    return *this;
}

Argument Argument::comma_separated() const {
    option_->delimiter(',');
    return *this;
}

Argument Argument::check(std::function<std::string(std::string&)> fault, const std::string& form) const {
    option_->check(CLI::Validator(std::move(fault), form));
    return *this;
}

void Arguments::footer(const std::string& text) const {
    app_->footer(text);
}

template <typename T>
Argument Arguments::option(const std::string& name, T& value, const std::string& help) const {
    return Argument(*app_->add_option(name, value, help));
}

template Argument Arguments::option(const std::string&, std::string&, const std::string&) const;
template Argument Arguments::option(const std::string&, std::vector<std::string>&, const std::string&) const;
template Argument Arguments::option(const std::string&, std::vector<int64_t>&, const std::string&) const;
template Argument Arguments::option(const std::string&, int32_t&, const std::string&) const;
template Argument Arguments::option(const std::string&, uint32_t&, const std::string&) const;
template Argument Arguments::option(const std::string&, int64_t&, const std::string&) const;
template Argument Arguments::option(const std::string&, uint64_t&, const std::string&) const;
template Argument Arguments::option(const std::string&, std::optional<std::string>&, const std::string&) const;
template Argument Arguments::option(const std::string&, std::optional<uint32_t>&, const std::string&) const;
template Argument Arguments::option(const std::string&, std::optional<int64_t>&, const std::string&) const;
template Argument Arguments::option(const std::string&, std::optional<float>&, const std::string&) const;

template <typename T>
Argument Arguments::flag(const std::string& name, T& value, const std::string& help) const {
    return Argument(*app_->add_flag(name, value, help));
}

template Argument Arguments::flag(const std::string&, bool&, const std::string&) const;
template Argument Arguments::flag(const std::string&, int32_t&, const std::string&) const;

Argument Arguments::on_flag(const std::string& name, std::function<void()> action, const std::string& help) const {
    return Argument(*app_->add_flag_callback(name, std::move(action), help));
}

void Arguments::exactly_one_of(const std::string& heading, const std::vector<Switch>& switches) const {
    CLI::Option_group* group = app_->add_option_group(heading);
    for (const Switch& s : switches) group->add_flag(s.flag, s.value, s.help);
    group->require_option(1);
}

void Arguments::remove(const std::string& name) const {
    app_->remove_option(app_->get_option(name));
}

std::string Arguments::name() const {
    return app_->get_name();
}

bool Arguments::given() const {
    return app_->parsed();
}

CommandLine::CommandLine(const std::string& name, const std::string& description, const std::string& version,
                         const std::string& footer)
    : app_(new CLI::App(description, name)) {
    app_->footer(footer);
    app_->require_subcommand(1);
    app_->set_version_flag("--version", version);
}

CommandLine::~CommandLine() {
    delete app_;
}

Arguments CommandLine::subcommand(const std::string& name, const std::string& description) {
    return Arguments(*app_->add_subcommand(name, description));
}

std::optional<bool> CommandLine::parse(int argc, char** argv) {
    try {
        app_->parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        // --help and --version arrive here too, with exit code 0.
        return app_->exit(error) == 0;
    }
    return std::nullopt;
}

}  // namespace nvfp4r::cli
