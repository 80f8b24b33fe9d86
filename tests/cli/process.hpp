// The built command line as a user runs it: a process with arguments, an exit code and two streams.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace nvfp4r::test {

struct CliResult {
    int exit_code = -1;  // 128 + signal when the process was killed
    std::string out, err;

    /// `out` as JSON; lives as long as this object.
    const nlohmann::json& json() const {
        if (!parsed) parsed = nlohmann::json::parse(out);
        return *parsed;
    }
    mutable std::optional<nlohmann::json> parsed = std::nullopt;
};

/// Runs the nvfp4-router beside the test binary. `environment`: "NAME=value", added to this process's own.
CliResult run_cli(const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {});

/// An empty folder, gone with this object.
class TemporaryFolder {
  public:
    TemporaryFolder();
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    std::string operator/(const std::string& name) const { return (path_ / name).string(); }
    const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

}  // namespace nvfp4r::test
