#include "cli/terminal.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace nvfp4r::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kQuietTime = std::chrono::seconds(1);
constexpr auto kRedrawTime = std::chrono::milliseconds(100);
constexpr const char* kEraseLine = "\r\033[K";

bool colours(int fd) {
    const char* no_color = std::getenv("NO_COLOR");
    const char* term = std::getenv("TERM");
    return isatty(fd) && !(no_color && *no_color) && !(term && std::string_view(term) == "dumb");
}

std::string painted(std::string_view code, std::string_view text, int fd) {
    return colours(fd) ? fmt::format("\033[{}m{}\033[0m", code, text) : std::string(text);
}

}  // namespace

std::string bold(std::string_view text) {
    return painted("1", text, STDOUT_FILENO);
}
std::string green(std::string_view text) {
    return painted("32", text, STDOUT_FILENO);
}
std::string red(std::string_view text) {
    return painted("31", text, STDOUT_FILENO);
}

void print_error(std::string_view command, std::string_view text) {
    fmt::print(stderr, "{} {}: {}\n", painted("1;31", "error:", STDERR_FILENO), command, text);
}

void print_notice(std::string_view text) {
    fmt::print(stderr, "{} {}\n", painted("33", "note:", STDERR_FILENO), text);
}

Progress::Progress(std::string_view what, int64_t total)
    : what_(what), total_(total), on_terminal_(isatty(STDERR_FILENO)), start_(Clock::now()), last_(start_) {}

Progress::~Progress() {
    if (shown_) std::fputs(kEraseLine, stderr);
}

void Progress::at(int64_t done) {
    const auto now = Clock::now();
    if (!on_terminal_ || now - start_ < kQuietTime || now - last_ < kRedrawTime) return;
    last_ = now;
    shown_ = true;
    fmt::print(stderr, "{}{} {}/{}", kEraseLine, what_, done, total_);
    std::fflush(stderr);
}

}  // namespace nvfp4r::cli
