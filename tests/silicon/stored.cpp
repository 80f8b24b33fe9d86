#include "silicon/stored.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "format/number.hpp"

namespace nvfp4r::silicon {

namespace {

constexpr size_t kBytesPerLine = 64, kCrcsPerLine = 16;

uint32_t crc_of(uint32_t seed, const void* data, size_t bytes) {
    return static_cast<uint32_t>(crc32(seed, static_cast<const Bytef*>(data), static_cast<uInt>(bytes)));
}

std::vector<uint32_t> block_crcs(const std::vector<uint8_t>& bytes) {
    std::vector<uint32_t> crcs;
    for (size_t at = 0; at < bytes.size(); at += kBlockBytes)
        crcs.push_back(crc_of(0, bytes.data() + at, std::min(kBlockBytes, bytes.size() - at)));
    return crcs;
}

float value_of(const Agreement& agreement, uint32_t bits) {
    if (agreement.width == 16) {
        const auto half = static_cast<uint16_t>(bits);
        return agreement.bf16 ? bf16_to_f32(half) : f16_to_f32(half);
    }
    float value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
}

// Position of a value on the line of all values of its format: neighbours differ by 1.
int64_t position(const Agreement& agreement, uint32_t bits) {
    const uint32_t sign = 1u << (agreement.width - 1);
    const auto magnitude = static_cast<int64_t>(bits & (sign - 1));
    return bits & sign ? -magnitude : magnitude;
}

bool agrees(const Agreement& agreement, uint32_t a, uint32_t b) {
    if (a == b) return true;
    const float x = value_of(agreement, a), y = value_of(agreement, b);
    if (!std::isfinite(x) || !std::isfinite(y)) return false;
    const double difference = std::fabs(static_cast<double>(x) - static_cast<double>(y));
    return std::abs(position(agreement, a) - position(agreement, b)) <= agreement.ulps ||
           difference <= agreement.absolute || difference <= agreement.relative * std::fabs(static_cast<double>(x));
}

uint32_t word_at(const std::vector<uint8_t>& bytes, size_t index, size_t width) {
    uint32_t word = 0;
    std::memcpy(&word, bytes.data() + index * width, width);
    return word;
}

std::string label(const Program& program, size_t output, size_t byte) {
    const size_t block = byte / kBlockBytes;
    const std::string name = output == 0 && block < program.labels.size() ? program.labels[block] : "";
    return fmt::format("{}: output {} byte {:#x}{}{}", program.name, output, byte, name.empty() ? "" : ", ", name);
}

void compare_values(const Program& program, size_t output, const StoredOutput& stored,
                    const std::vector<uint8_t>& bytes, Comparison& result) {
    const Agreement& agreement = program.agreement;
    const size_t width = agreement.width / 8;
    for (size_t i = 0; i < bytes.size() / width; ++i) {
        const uint32_t want = word_at(stored.values, i, width), got = word_at(bytes, i, width);
        ++result.values;
        if (agreement.exact ? want == got : agrees(agreement, want, got)) continue;
        if (result.differing++ == 0)
            result.first = fmt::format("{}: {:x}, the GPU gave {:x}", label(program, output, i * width), got, want);
    }
}

void compare_blocks(const Program& program, size_t output, const StoredOutput& stored,
                    const std::vector<uint8_t>& bytes, Comparison& result) {
    const std::vector<uint32_t> crcs = block_crcs(bytes);
    result.values += bytes.size() / sizeof(uint32_t);
    for (size_t block = 0; block < crcs.size(); ++block) {
        if (crcs[block] == stored.blocks[block]) continue;
        if (result.differing++ == 0)
            result.first = fmt::format("{}: this block of {} bytes differs",
                                       label(program, output, block * kBlockBytes), kBlockBytes);
    }
}

[[noreturn]] void malformed(const std::string& path, size_t line, const char* what) {
    throw std::runtime_error(fmt::format("{}:{}: {}", path, line, what));
}

std::vector<uint8_t> bytes_of_hex(const std::string& text) {
    std::vector<uint8_t> bytes;
    for (size_t i = 0; i + 1 < text.size(); i += 2)
        bytes.push_back(static_cast<uint8_t>(std::stoul(text.substr(i, 2), nullptr, 16)));
    return bytes;
}

}  // namespace

uint32_t program_key(const Program& program) {
    uint32_t key = crc_of(0, program.ptx.data(), program.ptx.size());
    for (const Buffer& buffer : program.buffers) key = crc_of(key, buffer.bytes.data(), buffer.bytes.size());
    for (const TensorMapSpec& map : program.maps) {
        for (const auto* list : {&map.dims, &map.strides}) key = crc_of(key, list->data(), list->size() * 8);
        for (const auto* list : {&map.box, &map.element_strides}) key = crc_of(key, list->data(), list->size() * 4);
        for (const int part : {static_cast<int>(map.type), static_cast<int>(map.swizzle), static_cast<int>(map.fill)})
            key = crc_of(key, &part, sizeof(part));
    }
    return key;
}

StoredProgram store(const Program& program, const Outputs& outputs) {
    StoredProgram stored;
    stored.key = program_key(program);
    for (const auto& bytes : outputs) {
        const bool whole = !program.agreement.exact || bytes.size() <= kShortBytes;
        StoredOutput output;
        output.bytes = bytes.size();
        if (whole)
            output.values = bytes;
        else
            output.blocks = block_crcs(bytes);
        stored.outputs.push_back(output);
    }
    return stored;
}

// machine TEXT
// program KEY NAME
// values BYTES, then lines of hexadecimal bytes
// blocks BYTES, then lines of CRCs
StoredFile read_stored(const std::string& path) {
    std::ifstream in(path);
    if (!in) throw std::runtime_error(path + ": cannot be opened");
    StoredFile file;
    StoredProgram* program = nullptr;
    bool whole = false;
    std::string line;
    for (size_t number = 1; std::getline(in, line); ++number) {
        std::istringstream words(line);
        std::string first;
        words >> first;
        if (first == "machine") {
            file.machine = line.substr(first.size() + 1);
        } else if (first == "program") {
            std::string key, name;
            words >> key;
            std::getline(words >> std::ws, name);
            program = &file.programs[name];
            program->key = static_cast<uint32_t>(std::stoul(key, nullptr, 16));
        } else if (first == "values" || first == "blocks") {
            if (!program) malformed(path, number, "an output before the first program");
            whole = first == "values";
            program->outputs.emplace_back();
            words >> program->outputs.back().bytes;
        } else if (!program || program->outputs.empty()) {
            malformed(path, number, "a line of values before the first output");
        } else if (whole) {
            const std::vector<uint8_t> bytes = bytes_of_hex(first);
            std::vector<uint8_t>& values = program->outputs.back().values;
            values.insert(values.end(), bytes.begin(), bytes.end());
        } else {
            for (std::string crc = first; !crc.empty(); crc.clear(), words >> crc)
                program->outputs.back().blocks.push_back(static_cast<uint32_t>(std::stoul(crc, nullptr, 16)));
        }
    }
    return file;
}

void write_stored(const std::string& path, const StoredFile& file) {
    std::string text = "machine " + file.machine + "\n";
    for (const auto& [name, program] : file.programs) {
        text += fmt::format("program {:08x} {}\n", program.key, name);
        for (const StoredOutput& output : program.outputs) {
            text += fmt::format("{} {}\n", output.blocks.empty() ? "values" : "blocks", output.bytes);
            for (size_t i = 0; i < output.values.size(); ++i)
                text +=
                    fmt::format("{:02x}{}", output.values[i],
                                i % kBytesPerLine == kBytesPerLine - 1 || i + 1 == output.values.size() ? "\n" : "");
            for (size_t i = 0; i < output.blocks.size(); ++i)
                text += fmt::format("{:08x}{}", output.blocks[i],
                                    i % kCrcsPerLine == kCrcsPerLine - 1 || i + 1 == output.blocks.size() ? "\n" : " ");
        }
    }
    std::ofstream out(path);
    out << text;
    out.close();
    if (!out) throw std::runtime_error(path + ": cannot be written");
}

Comparison compare(const Program& program, const StoredProgram& stored, const Outputs& outputs) {
    if (stored.key != program_key(program))
        throw std::runtime_error(program.name + ": the program changed since it ran on the GPU: record it again");
    if (stored.outputs.size() != outputs.size()) throw std::runtime_error(program.name + ": other outputs are stored");
    Comparison result;
    for (size_t i = 0; i < outputs.size(); ++i) {
        const StoredOutput& output = stored.outputs[i];
        const bool whole = output.blocks.empty();
        const size_t blocks = (outputs[i].size() + kBlockBytes - 1) / kBlockBytes;
        if (output.bytes != outputs[i].size() ||
            (whole ? output.values.size() != output.bytes : output.blocks.size() != blocks))
            throw std::runtime_error(program.name + ": an output of another size is stored");
        if (whole)
            compare_values(program, i, output, outputs[i], result);
        else
            compare_blocks(program, i, output, outputs[i], result);
    }
    return result;
}

}  // namespace nvfp4r::silicon
