// Collects a kernel's source and the headers it reaches from the files embedded in the library.
#include <algorithm>
#include <regex>

#include "core/error.hpp"
#include "jit/compile.hpp"
#include "jit/embedded.hpp"

namespace nvfp4r {

namespace {

std::vector<std::string> included_names(const std::string& text) {
    static const std::regex include(R"(^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">])",
                                    std::regex::ECMAScript | std::regex::multiline);
    std::vector<std::string> names;
    for (std::sregex_iterator match(text.begin(), text.end(), include), end; match != end; ++match)
        names.push_back((*match)[1]);
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
