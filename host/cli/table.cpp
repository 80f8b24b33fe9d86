#include "cli/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cli/terminal.hpp"

namespace nvfp4r::cli {
namespace {

std::string cell(const Json& value) {
    if (value.is_null()) return "-";
    if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
    if (value.is_string()) return value.get<std::string>();
    if (value.is_number_float()) return fmt::format("{:.6g}", value.get<double>());
    if (value.is_array()) {
        std::string joined;
        for (const Json& item : value) joined += (joined.empty() ? "" : " ") + cell(item);
        return joined;
    }
    return value.dump();
}

std::string padded(const std::string& text, size_t width, bool right) {
    return right ? fmt::format("{:>{}}", text, width) : fmt::format("{:<{}}", text, width);
}

}  // namespace

std::string table_text(const Json& records, std::span<const Column> columns) {
    std::vector<size_t> width;
    std::vector<bool> number;
    for (const Column& column : columns) {
        size_t widest = std::string_view(column.title).size();
        bool numeric = !records.empty();
        for (const Json& record : records) {
            const Json& value = record.at(column.key);
            widest = std::max(widest, cell(value).size());
            numeric = numeric && (value.is_number() || value.is_null());
        }
        width.push_back(widest);
        number.push_back(numeric);
    }
    std::string text, line;
    const auto end_line = [&](bool title) {
        line.erase(line.find_last_not_of(' ') + 1);
        text += (title ? bold(line) : line) + "\n";
        line.clear();
    };
    for (size_t c = 0; c < columns.size(); ++c) line += padded(columns[c].title, width[c], number[c]) + "  ";
    end_line(true);
    for (const Json& record : records) {
        for (size_t c = 0; c < columns.size(); ++c)
            line += padded(cell(record.at(columns[c].key)), width[c], number[c]) + "  ";
        end_line(false);
    }
    return text;
}

// A file's text may not be UTF-8; it is shown with replacement characters instead of ending the program.
void print_json(const Json& value) {
    fmt::print("{}\n", value.dump(2, ' ', false, nlohmann::detail::error_handler_t::replace));
}

}  // namespace nvfp4r::cli
