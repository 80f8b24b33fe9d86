// The strict reader of a safetensors header. It knows the header's own grammar and nothing more of JSON, so nothing can
// nest: an object of tensors, each an object of a dtype and two arrays of integers.
#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "core/error.hpp"
#include "format/safetensors.hpp"
#include "format/utf8.hpp"

namespace nvfp4r {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kLongestSafetensorsHeader = 100'000'000;  // the limit of the format's reference implementation
constexpr uint64_t kLargestNumber = uint64_t{1} << 60;
constexpr size_t kMostSafetensorsDimensions = 32;
constexpr const char* kMetadataKey = "__metadata__";

/// Bits of an element; 0 for dtypes that this reader has not heard of.
uint64_t dtype_bits(std::string_view dtype) {
    static const std::unordered_map<std::string_view, uint64_t> bits = {
        {"BOOL", 8},        {"U8", 8},      {"I8", 8},      {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8},
        {"F8_E4M3FNUZ", 8}, {"U16", 16},    {"I16", 16},    {"F16", 16},    {"BF16", 16},   {"U32", 32},
        {"I32", 32},        {"F32", 32},    {"U64", 64},    {"I64", 64},    {"F64", 64},    {"C64", 64},
        {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4}};
    const auto found = bits.find(dtype);
    return found == bits.end() ? 0 : found->second;
}

class SafetensorsReader {
  public:
    SafetensorsReader(std::string_view text, std::string_view file) : text_(text), file_(file) {}

    /// Tensor offsets are relative to the header's end, as the format has them.
    SafetensorsHeader read() {
        SafetensorsHeader header;
        std::unordered_set<std::string> names;
        if (text_.empty() || text_[0] != '{') bad("the header must begin with '{{'");
        read_object([&](std::string key) {
            if (!names.insert(key).second) bad("key \"{}\" appears twice", key);
            if (key == kMetadataKey) {
                header.metadata = read_metadata();
            } else {
                header.tensors.push_back(read_tensor(std::move(key)));
            }
        });
        skip_space();
        if (at_ != text_.size()) bad("text after the closing '}}'");
        return header;
    }

  private:
    template <class... Args>
    [[noreturn]] void bad(fmt::format_string<Args...> text, Args&&... args) const {
        fail(NVFP4R_BAD_FILE, "{}: header byte {}: {}", file_, at_ + kLengthBytes,
             fmt::format(text, std::forward<Args>(args)...));
    }

    void skip_space() {
        while (at_ < text_.size() && std::strchr(" \t\r\n", text_[at_]) && text_[at_] != '\0') ++at_;
    }
    char peek() {
        skip_space();
        return at_ < text_.size() ? text_[at_] : '\0';
    }
    bool take(char c) {
        if (peek() != c || at_ == text_.size()) return false;
        ++at_;
        return true;
    }
    void expect(char c) {
        if (!take(c)) bad("'{}' expected", c);
    }

    template <class OnKey>
    void read_object(OnKey&& on_key) {
        expect('{');
        if (take('}')) return;
        do {
            std::string key = read_string();
            expect(':');
            on_key(std::move(key));
        } while (take(','));
        expect('}');
    }

    std::string read_string() {
        if (peek() != '"') bad("a string expected");
        ++at_;
        std::string value;
        while (true) {
            if (at_ == text_.size()) bad("a string without an end");
            const char c = text_[at_++];
            if (c == '"') break;
            if (static_cast<uint8_t>(c) < 0x20) bad("a control character in a string");
            if (c == '\\') {
                read_escape(value);
            } else {
                value += c;
            }
        }
        if (!is_utf8(value)) bad("a string that is not UTF-8");
        return value;
    }

    void read_escape(std::string& value) {
        static constexpr std::string_view kEscapes = "\"\\/bfnrt";
        static constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
        const char c = at_ < text_.size() ? text_[at_++] : '\0';
        if (c == 'u') return append_utf8(value, read_code_point());
        const size_t which = kEscapes.find(c);
        if (which == std::string_view::npos) bad("an unknown escape in a string");
        value += kMeanings[which];
    }

    uint32_t read_code_point() {
        const uint32_t first = read_hex4();
        if (first < 0xd800 || first > 0xdfff) return first;
        // A surrogate pair spells one code point above U+FFFF (RFC 8259 section 7).
        if (first > 0xdbff || at_ + 2 > text_.size() || text_[at_] != '\\' || text_[at_ + 1] != 'u') {
            bad("half a surrogate pair in a string");
        }
        at_ += 2;
        const uint32_t second = read_hex4();
        if (second < 0xdc00 || second > 0xdfff) bad("half a surrogate pair in a string");
        return 0x10000u + ((first - 0xd800u) << 10) + (second - 0xdc00u);
    }

    uint32_t read_hex4() {
        uint32_t value = 0;
        for (int i = 0; i < 4; ++i) {
            const char c = at_ < text_.size() ? text_[at_++] : '\0';
            const char lower = static_cast<char>(c | 0x20);
            if (c >= '0' && c <= '9') {
                value = value * 16 + static_cast<uint32_t>(c - '0');
            } else if (lower >= 'a' && lower <= 'f') {
                value = value * 16 + static_cast<uint32_t>(lower - 'a' + 10);
            } else {
                bad("four hexadecimal digits expected after \\u");
            }
        }
        return value;
    }

    uint64_t read_number() {
        const char c = peek();
        if (c == '-') bad("a negative number");
        if (c < '0' || c > '9') bad("a whole number expected");
        uint64_t value = 0;
        const size_t start = at_;
        while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
            value = value * 10 + static_cast<uint64_t>(text_[at_++] - '0');
            if (value > kLargestNumber) bad("a number above 2^60");
        }
        if (text_[start] == '0' && at_ - start > 1) bad("a number with a leading zero");
        if (at_ < text_.size() && std::strchr(".eE", text_[at_]) && text_[at_] != '\0') bad("a number with a fraction");
        return value;
    }

    std::vector<uint64_t> read_numbers(size_t most) {
        std::vector<uint64_t> values;
        expect('[');
        if (take(']')) return values;
        do {
            if (values.size() == most) bad("more than {} numbers", most);
            values.push_back(read_number());
        } while (take(','));
        expect(']');
        return values;
    }

    std::map<std::string, std::string> read_metadata() {
        std::map<std::string, std::string> metadata;
        if (peek() != '{') bad("{} is not an object", kMetadataKey);
        read_object([&](std::string key) {
            std::string value = read_string();
            if (!metadata.emplace(key, std::move(value)).second) bad("metadata key \"{}\" appears twice", key);
        });
        return metadata;
    }

    TensorEntry read_tensor(std::string name) {
        TensorEntry entry;
        entry.name = std::move(name);
        bool has_dtype = false, has_shape = false, has_offsets = false;
        const auto once = [&](bool& seen, const std::string& key) {
            if (seen) bad("tensor \"{}\": key \"{}\" appears twice", entry.name, key);
            seen = true;
        };
        read_object([&](const std::string& key) {
            if (key == "dtype") {
                once(has_dtype, key);
                entry.dtype = read_string();
            } else if (key == "shape") {
                once(has_shape, key);
                entry.shape = read_numbers(kMostSafetensorsDimensions);
            } else if (key == "data_offsets") {
                once(has_offsets, key);
                const std::vector<uint64_t> offsets = read_numbers(2);
                if (offsets.size() != 2) bad("tensor \"{}\": data_offsets needs two numbers", entry.name);
                entry.begin = offsets[0];
                entry.end = offsets[1];
            } else {
                bad("tensor \"{}\": unknown key \"{}\"", entry.name, key);
            }
        });
        if (!has_dtype) bad("tensor \"{}\" has no dtype", entry.name);
        if (!has_shape) bad("tensor \"{}\" has no shape", entry.name);
        if (!has_offsets) bad("tensor \"{}\" has no data_offsets", entry.name);
        return entry;
    }

    std::string_view text_;
    std::string_view file_;
    size_t at_ = 0;
};

void check_size(const TensorEntry& entry, std::string_view file) {
    const std::string what = fmt::format("{}: tensor \"{}\"", file, entry.name);
    if (entry.begin > entry.end) {
        fail(NVFP4R_BAD_FILE, "{}: data_offsets [{}, {}] run backwards", what, entry.begin, entry.end);
    }
    const uint64_t bits = dtype_bits(entry.dtype);
    const uint64_t count = element_count(entry.shape, what);
    if (bits == 0) return;  // refused by name if it is asked for; its size cannot be judged
    // At most 2^60 elements: in bytes of eight elements the product cannot overflow.
    const uint64_t bytes = count / 8 * bits + count % 8 * bits / 8;
    if (count % 8 * bits % 8 != 0 || bytes != entry.end - entry.begin) {
        fail(NVFP4R_BAD_FILE, "{}: {} {} needs {} bytes, data_offsets [{}, {}] hold {}", what, entry.dtype,
             shape_text(entry.shape), bytes, entry.begin, entry.end, entry.end - entry.begin);
    }
}

/// The data must be covered once, without gap or overlap, as the reference implementation demands.
void check_cover(std::vector<TensorEntry>& tensors, uint64_t data_start, uint64_t file_size, std::string_view file) {
    std::sort(tensors.begin(), tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
        return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
    });
    uint64_t covered = 0;
    const TensorEntry* before = nullptr;
    for (const TensorEntry& entry : tensors) {
        if (entry.begin < covered) {
            fail(NVFP4R_BAD_FILE, "{}: tensors \"{}\" and \"{}\" overlap at data bytes [{}, {})", file, before->name,
                 entry.name, entry.begin, covered);
        }
        if (entry.begin > covered) {
            fail(NVFP4R_BAD_FILE, "{}: no tensor owns data bytes [{}, {}) before \"{}\"", file, covered, entry.begin,
                 entry.name);
        }
        covered = entry.end;
        before = &entry;
    }
    const uint64_t data_size = file_size - data_start;
    for (const TensorEntry& entry : tensors) {
        if (entry.end <= data_size) continue;
        fail(NVFP4R_BAD_FILE, "{}: tensor \"{}\" needs bytes {}..{}, file has {}; the file is cut short", file,
             entry.name, data_start + entry.begin, data_start + entry.end, file_size);
    }
    if (covered != data_size) {
        fail(NVFP4R_BAD_FILE, "{}: {} bytes after the last tensor", file, data_size - covered);
    }
}

}  // namespace

SafetensorsHeader parse_safetensors(std::span<const uint8_t> bytes, std::string_view file) {
    if (bytes.size() < kLengthBytes) {
        fail(NVFP4R_BAD_FILE, "{}: {} bytes are too few for a safetensors file", file, bytes.size());
    }
    uint64_t length = 0;
    for (uint64_t i = 0; i < kLengthBytes; ++i) length |= uint64_t{bytes[i]} << (8 * i);
    if (length == 0) fail(NVFP4R_BAD_FILE, "{}: header length 0", file);
    if (length > kLongestSafetensorsHeader) {
        fail(NVFP4R_BAD_FILE, "{}: header length {} is above {}; this is not a safetensors file", file, length,
             kLongestSafetensorsHeader);
    }
    if (length > bytes.size() - kLengthBytes) {
        fail(NVFP4R_BAD_FILE, "{}: the header needs bytes {}..{}, file has {}", file, kLengthBytes,
             kLengthBytes + length, bytes.size());
    }
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
    SafetensorsHeader header = SafetensorsReader(text, file).read();
    for (const TensorEntry& entry : header.tensors) check_size(entry, file);
    const uint64_t data_start = kLengthBytes + length;
    check_cover(header.tensors, data_start, bytes.size(), file);
    for (TensorEntry& entry : header.tensors) {
        entry.begin += data_start;
        entry.end += data_start;
    }
    return header;
}

}  // namespace nvfp4r
