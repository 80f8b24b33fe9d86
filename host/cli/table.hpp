// One list of records, printed as a table for people or as JSON for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

namespace nvfp4r::cli {

using Json = nlohmann::ordered_json;

struct Column {
    const char* key;    // of the record
    const char* title;  // above the column
};

/// Aligned text, one line a record. Numbers stand right, everything else left; null is "-", true "yes", a list is
/// joined by spaces.
std::string table_text(const Json& records, std::span<const Column> columns);

void print_json(const Json& value);

}  // namespace nvfp4r::cli
