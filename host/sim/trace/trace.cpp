#include "sim/trace/trace.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace nvfp4r::sim {
namespace {

std::string quoted(std::string_view text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

Trace::Trace(const std::string& path) : file_(std::fopen(path.c_str(), "w")) {
    if (!file_) fail(NVFP4R_IO_ERROR, "{}: cannot write the trace: {}", path, std::strerror(errno));
    std::fputs("{\"traceEvents\":[\n", file_);
}

Trace::~Trace() {
    std::fputs("\n]}\n", file_);
    std::fclose(file_);
}

void Trace::event(std::string_view text) {
    if (!first_) std::fputs(",\n", file_);
    first_ = false;
    std::fwrite(text.data(), 1, text.size(), file_);
}

uint64_t Trace::process(std::string_view name) {
    uint64_t id = processes_++;
    event(fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})", id, quoted(name)));
    return id;
}

void Trace::thread_name(uint64_t process, uint64_t thread, std::string_view name) {
    event(fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})", process, thread,
                      quoted(name)));
}

void Trace::span(uint64_t process, uint64_t thread, std::string_view name, uint64_t start, uint64_t end,
                 std::string_view detail) {
    event(fmt::format(R"({{"ph":"X","name":{},"pid":{},"tid":{},"ts":{},"dur":{},"args":{{"detail":{}}}}})",
                      quoted(name), process, thread, start, end - start, quoted(detail)));
}

void Trace::flow(uint64_t process, uint64_t from_thread, uint64_t start, uint64_t to_thread, uint64_t end) {
    uint64_t id = flows_++;
    event(fmt::format(R"({{"ph":"s","name":"issue","cat":"async","id":{},"pid":{},"tid":{},"ts":{}}})", id, process,
                      from_thread, start));
    event(fmt::format(R"({{"ph":"f","bp":"e","name":"issue","cat":"async","id":{},"pid":{},"tid":{},"ts":{}}})", id,
                      process, to_thread, end));
}

}  // namespace nvfp4r::sim
