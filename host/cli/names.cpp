#include "cli/names.hpp"

#include "core/error.hpp"

namespace nvfp4r::cli {

std::vector<std::string> names_of(std::span<const Named> table) {
    std::vector<std::string> names;
    for (const Named& entry : table) names.emplace_back(entry.name);
    return names;
}

int value_of(std::span<const Named> table, std::string_view name) {
    for (const Named& entry : table)
        if (name == entry.name) return entry.value;
    fail(NVFP4R_INVALID_ARGUMENT, "{} is none of the known names", name);
}

const char* name_of(std::span<const Named> table, int value) {
    for (const Named& entry : table)
        if (value == entry.value) return entry.name;
    return "?";
}

}  // namespace nvfp4r::cli
