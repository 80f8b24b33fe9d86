// Collects a kernel's source and the headers it reaches from the files embedded in the library.
#include <algorithm>

#include "core/error.hpp"
#include "jit/compile.hpp"
#include "jit/embedded.hpp"

namespace nvfp4r {

namespace {

/// Names of the lines `#include "name"` and `#include <name>`.
std::vector<std::string> included_names(std::string_view text) {
    constexpr std::string_view kBlank = " \t";
    std::vector<std::string> names;
    while (!text.empty()) {
        std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(text.size(), line.size() + 1));
        for (const std::string_view word : {"#", "include"}) {
            line.remove_prefix(std::min(line.size(), line.find_first_not_of(kBlank)));
            if (!line.starts_with(word)) line = {};
            line.remove_prefix(std::min(line.size(), word.size()));
        }
        line.remove_prefix(std::min(line.size(), line.find_first_not_of(kBlank)));
        if (line.empty() || (line[0] != '"' && line[0] != '<')) continue;
        const size_t end = line.find(line[0] == '<' ? '>' : '"', 1);
        if (end != std::string_view::npos) names.emplace_back(line.substr(1, end - 1));
    }
    return names;
}

SourceFile embedded_source(std::string_view name, std::string_view wanted_by) {
    const auto files = embedded_sources();
    const auto file = std::find_if(files.begin(), files.end(), [&](const EmbeddedFile& f) { return f.name == name; });
    if (file == files.end())
        fail(NVFP4R_INTERNAL, "{}: includes {}, which is not among the embedded device sources", wanted_by, name);
    return {std::string(file->name), std::string(file->bytes)};
}

void add_headers(const SourceFile& file, const std::vector<SourceFile>& made, std::vector<SourceFile>& headers) {
    for (const std::string& name : included_names(file.text)) {
        const auto has_name = [&](const SourceFile& f) { return f.name == name; };
        if (std::any_of(headers.begin(), headers.end(), has_name)) continue;
        const auto ready = std::find_if(made.begin(), made.end(), has_name);
        headers.push_back(ready != made.end() ? *ready : embedded_source(name, file.name));
        const SourceFile header = headers.back();  // a copy: the vector grows below
        add_headers(header, made, headers);
    }
}

}  // namespace

CompileRequest embedded_request(std::string_view name, const std::string& arch, std::vector<std::string> options,
                                std::vector<SourceFile> more_headers) {
    CompileRequest request;
    request.source = embedded_source(name, "a compile request");
    request.arch = arch;
    request.options = std::move(options);
    add_headers(request.source, more_headers, request.headers);
    return request;
}

}  // namespace nvfp4r
