#include "format/npy.hpp"

#include <cstring>

#include "core/atomic_file.hpp"
#include "core/error.hpp"
#include "format/mapped_file.hpp"
#include "format/npy_bytes.hpp"

namespace nvfp4r {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kVersionAt = 6;
constexpr size_t kLongestNpyHeader = 65'536;  // NumPy itself refuses to evaluate more than 10,000
constexpr size_t kMostNpyDimensions = 32;     // NumPy's own limit
constexpr size_t kAlignment = 64;             // where the data starts, for the sake of readers that map the file

struct NpyHeader {
    std::string descr;
    bool fortran_order = false;
    std::vector<uint64_t> shape;
};

/// The header is a Python literal: a dictionary of exactly descr, fortran_order and shape.
class NpyReader {
  public:
    NpyReader(std::string_view text, std::string_view file) : text_(text), file_(file) {}

    NpyHeader read() {
        NpyHeader header;
        bool has_descr = false, has_order = false, has_shape = false;
        expect('{');
        while (!take('}')) {
            const std::string key = read_string();
            expect(':');
            bool& seen = key == "descr" ? has_descr : key == "fortran_order" ? has_order : has_shape;
            if (key != "descr" && key != "fortran_order" && key != "shape") bad("unknown key '" + key + "'");
            if (seen) bad("key '" + key + "' appears twice");
            seen = true;
            if (key == "descr") header.descr = read_descr();
            if (key == "fortran_order") header.fortran_order = read_bool();
            if (key == "shape") header.shape = read_shape();
            if (!take(',') && peek() != '}') bad("',' or '}' expected");
        }
        skip_space();
        if (at_ != text_.size()) bad("text after the closing '}'");
        if (!has_descr || !has_order || !has_shape) bad("descr, fortran_order and shape are needed");
        return header;
    }

  private:
    [[noreturn]] void bad(const std::string& why) const {
        fail(NVFP4R_BAD_FILE, "{}: npy header character {}: {}", file_, at_, why);
    }
    void skip_space() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
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
        if (!take(c)) bad(std::string("'") + c + "' expected");
    }
    std::string read_string() {
        const char quote = peek();
        if (quote != '\'' && quote != '"') bad("a string expected");
        const size_t end = text_.find(quote, at_ + 1);
        if (end == std::string_view::npos) bad("a string without an end");
        const std::string value(text_.substr(at_ + 1, end - at_ - 1));
        at_ = end + 1;
        return value;
    }
    std::string read_descr() {
        if (peek() == '[') bad("a structured dtype; save one plain array");
        return read_string();
    }
    bool read_bool() {
        skip_space();
        for (const bool value : {false, true}) {
            const std::string_view word = value ? "True" : "False";
            if (text_.substr(at_, word.size()) != word) continue;
            at_ += word.size();
            return value;
        }
        bad("True or False expected");
    }
    std::vector<uint64_t> read_shape() {
        std::vector<uint64_t> shape;
        expect('(');
        while (!take(')')) {
            if (shape.size() == kMostNpyDimensions) bad("more than 32 dimensions");
            shape.push_back(read_number());
            if (!take(',') && peek() != ')') bad("',' or ')' expected");
        }
        return shape;
    }
    uint64_t read_number() {
        constexpr uint64_t kLargest = uint64_t{1} << 60;
        uint64_t value = 0;
        if (peek() < '0' || peek() > '9') bad("a whole number expected");
        while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
            value = value * 10 + static_cast<uint64_t>(text_[at_++] - '0');
            if (value > kLargest) bad("a dimension above 2^60");
        }
        return value;
    }

    std::string_view text_;
    std::string_view file_;
    size_t at_ = 0;
};

/// Which of our types a dtype string is; UNSET when none.
nvfp4r_dtype type_of(std::string_view descr, nvfp4r_dtype raw_type) {
    if (descr == "<f4") return NVFP4R_F32;
    if (descr == "<f2") return NVFP4R_F16;
    if (descr == "|u1" || descr == "|b1") return NVFP4R_U8;
    if (descr == "<i2") return NVFP4R_I16;
    if (descr == "<i4") return NVFP4R_I32;
    if (descr == "<i8") return NVFP4R_I64;
    const bool two_raw = descr == "|V2" || descr == "<V2";
    const bool one_raw = descr == "|V1" || descr == "<V1";
    if (two_raw && raw_type == NVFP4R_BF16) return NVFP4R_BF16;
    if (one_raw && raw_type == NVFP4R_F8_E4M3) return NVFP4R_F8_E4M3;
    return NVFP4R_DTYPE_UNSET;
}

/// What to do about a dtype that is not taken.
std::string remedy(std::string_view descr) {
    if (descr.ends_with("V2")) return "raw 2-byte values: taken as bf16 only when the caller says BF16";
    if (descr.ends_with("V1")) return "raw 1-byte values: taken as e4m3 only when the caller says F8_E4M3";
    if (descr.starts_with(">")) return fmt::format("big-endian: save it as <{}", descr.substr(1));
    if (descr == "<f8") return "float64: save it as <f4 (float32)";
    return "not a type that a router reads";
}

const char* descr_of(nvfp4r_dtype type) {
    switch (type) {
        case NVFP4R_F32: return "<f4";
        case NVFP4R_F16: return "<f2";
        case NVFP4R_BF16: return "<V2";
        case NVFP4R_F8_E4M3: return "<V1";
        case NVFP4R_U8: return "|u1";
        case NVFP4R_I16: return "<i2";
        case NVFP4R_I32: return "<i4";
        case NVFP4R_I64: return "<i8";
        default: break;
    }
    fail(NVFP4R_INVALID_ARGUMENT, "npy: {} cannot be saved", dtype_name(type));
}

}  // namespace

Tensor parse_npy(std::span<const uint8_t> bytes, std::shared_ptr<const void> owner, std::string_view file,
                 nvfp4r_dtype raw_type) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!text.starts_with(kMagic) || text.size() < kVersionAt + 4) fail(NVFP4R_BAD_FILE, "{}: not a .npy file", file);
    const uint8_t version = bytes[kVersionAt];
    if (version < 1 || version > 3 || bytes[kVersionAt + 1] != 0) {
        fail(NVFP4R_BAD_FILE, "{}: npy version {}.{}; 1.0, 2.0 and 3.0 are known", file, version,
             bytes[kVersionAt + 1]);
    }
    // Version 1 has a 2-byte header length, later ones 4 bytes.
    const size_t length_bytes = version == 1 ? 2 : 4;
    const size_t header_at = kVersionAt + 2 + length_bytes;
    uint64_t length = 0;
    for (size_t i = 0; i < length_bytes && header_at <= text.size(); ++i) {
        length |= uint64_t{bytes[kVersionAt + 2 + i]} << (8 * i);
    }
    if (header_at > text.size() || length > text.size() - header_at || length > kLongestNpyHeader) {
        fail(NVFP4R_BAD_FILE, "{}: npy header needs bytes {}..{}, file has {} and the limit is {}", file, header_at,
             header_at + length, text.size(), kLongestNpyHeader);
    }
    NpyHeader header = NpyReader(text.substr(header_at, length), file).read();
    const nvfp4r_dtype type = type_of(header.descr, raw_type);
    if (type == NVFP4R_DTYPE_UNSET) {
        fail(NVFP4R_BAD_FILE,
             "{}: dtype {} ({}); supported: <f4 F32, <f2 F16, |V2 BF16, |V1 F8_E4M3, |u1 U8, <i2 I16, <i4 I32, <i8 I64",
             file, header.descr, remedy(header.descr));
    }
    if (header.fortran_order && header.shape.size() > 1) {
        fail(NVFP4R_BAD_FILE, "{}: Fortran order; save it with numpy.ascontiguousarray", file);
    }
    const uint64_t count = element_count(header.shape, file);
    const uint64_t held = bytes.size() - header_at - length;
    if (count > held / element_size(type) || count * element_size(type) != held) {
        fail(NVFP4R_BAD_FILE, "{}: {} {} needs {} values of {} bytes, file has {} bytes of data", file, header.descr,
             shape_text(header.shape), count, element_size(type), held);
    }
    return Tensor{"", type, std::move(header.shape), bytes.subspan(header_at + length), std::move(owner)};
}

std::string npy_header(const Tensor& tensor) {
    std::string shape;
    for (const uint64_t n : tensor.shape) shape += std::to_string(n) + ", ";
    // Python writes a one-element tuple as (3,): a trailing comma is right for every length but zero.
    std::string dictionary = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                         descr_of(tensor.type), shape.substr(0, shape.empty() ? 0 : shape.size() - 1));
    const size_t before = kVersionAt + 2 + 2;
    const size_t padded = (before + dictionary.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
    dictionary.append(padded - before - dictionary.size() - 1, ' ');
    dictionary += '\n';
    std::string header(kMagic);
    header += {'\x01', '\x00'};
    header += static_cast<char>(dictionary.size() & 0xffu);
    header += static_cast<char>(dictionary.size() >> 8);
    return header + dictionary;
}

void check_bytes(const Tensor& tensor, std::string_view file) {
    if (element_count(tensor.shape, tensor.name) * element_size(tensor.type) == tensor.bytes.size()) return;
    fail(NVFP4R_INVALID_ARGUMENT, "{}: array \"{}\", {} {}, has {} bytes", file, tensor.name, dtype_name(tensor.type),
         shape_text(tensor.shape), tensor.bytes.size());
}

Tensor read_npy(const std::filesystem::path& path, nvfp4r_dtype raw_type) {
    std::shared_ptr<const MappedFile> file = MappedFile::open(path);
    return parse_npy(file->bytes(), file, path.string(), raw_type);
}

void write_npy(const std::filesystem::path& path, const Tensor& tensor) {
    check_bytes(tensor, path.string());
    AtomicFile file(path);
    file.write(npy_header(tensor));
    file.write(tensor.bytes);
    file.commit();
}

}  // namespace nvfp4r
