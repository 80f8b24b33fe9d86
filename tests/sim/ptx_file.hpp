// The PTX files of tests/sim/data.
#pragma once

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace nvfp4r::sim::test {

/// Found from the repository's root, or from anywhere when the build folder lies in it.
inline std::filesystem::path data_folder() {
    const auto here = std::filesystem::path(__FILE__).parent_path() / "data";
    if (std::filesystem::exists(here)) return here;
    return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / here;
}

inline std::string ptx_of(const std::string& name) {
    std::ifstream file(data_folder() / name);
    std::stringstream text;
    text << file.rdbuf();
    INFO(name);
    REQUIRE(text.str().size() > 100);
    return text.str();
}

}  // namespace nvfp4r::sim::test
