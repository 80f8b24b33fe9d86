// What the user sees that is not a result: errors, notices and progress, all on stderr.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace nvfp4r::cli {

/// Colours are for terminals, and not where NO_COLOR is set to anything (no-color.org).
std::string bold(std::string_view text);  // as it is where stdout takes no colours
std::string green(std::string_view text);
std::string red(std::string_view text);

void print_error(std::string_view command, std::string_view text);
void print_notice(std::string_view text);

/// "quantising 12/61" on one line, rewritten in place; silent off a terminal and in the first second.
class Progress {
  public:
    Progress(std::string_view what, int64_t total);
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    void at(int64_t done);

  private:
    std::string what_;
    int64_t total_;
    bool on_terminal_;
    bool shown_ = false;
    std::chrono::steady_clock::time_point start_, last_;
};

}  // namespace nvfp4r::cli
