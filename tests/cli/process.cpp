#include "process.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace nvfp4r::test {
namespace {

constexpr int kExecFailed = 127;

std::string contents(const std::filesystem::path& file) {
    std::ostringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    return text.str();
}

[[noreturn]] void become_cli(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
                             const std::string& out, const std::string& err) {
    const std::string cli = (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "nvfp4-router").string();
    std::vector<char*> argv = {const_cast<char*>(cli.c_str())};
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    for (const std::string& variable : environment) putenv(const_cast<char*>(variable.c_str()));
    const int mode = O_WRONLY | O_CREAT | O_TRUNC;
    const bool redirected = dup2(open(out.c_str(), mode, 0600), STDOUT_FILENO) >= 0 &&
                            dup2(open(err.c_str(), mode, 0600), STDERR_FILENO) >= 0;
    if (redirected) execv(cli.c_str(), argv.data());
    _exit(kExecFailed);
}

}  // namespace

CliResult run_cli(const std::vector<std::string>& arguments, const std::vector<std::string>& environment) {
    const TemporaryFolder folder;
    const std::string out = folder / "out", err = folder / "err";
    const pid_t child = fork();
    if (child == 0) become_cli(arguments, environment, out, err);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) throw std::runtime_error("cannot run nvfp4-router");
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code == kExecFailed) throw std::runtime_error("there is no nvfp4-router beside the test binary");
    return {code, contents(out), contents(err)};
}

TemporaryFolder::TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "nvfp4r-cli-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("cannot make a folder like " + name);
    path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

}  // namespace nvfp4r::test
