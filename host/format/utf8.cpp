#include "format/utf8.hpp"

namespace nvfp4r {
namespace {

bool is_continuation(uint8_t byte) {
    return (byte & 0xc0u) == 0x80u;
}

/// Length of the sequence that starts with these bytes, 0 when there is none (RFC 3629 section 4).
size_t sequence_length(std::string_view text) {
    const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0}; };
    const uint8_t first = byte(0);
    const uint8_t second = byte(1);
    if (first < 0x80) return 1;
    if (first < 0xc2 || first > 0xf4 || !is_continuation(second)) return 0;
    if (first < 0xe0) return 2;
    if (!is_continuation(byte(2))) return 0;
    if (first < 0xf0) {
        const bool overlong = first == 0xe0 && second < 0xa0;
        const bool surrogate = first == 0xed && second > 0x9f;
        return overlong || surrogate ? 0 : 3;
    }
    if (!is_continuation(byte(3))) return 0;
    const bool overlong = first == 0xf0 && second < 0x90;
    const bool too_large = first == 0xf4 && second > 0x8f;
    return overlong || too_large ? 0 : 4;
}

}  // namespace

bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        const size_t length = sequence_length(text);
        if (length == 0) return false;
        text.remove_prefix(length);
    }
    return true;
}

void append_utf8(std::string& text, uint32_t code_point) {
    const auto tail = [&](int shift) { text += static_cast<char>(0x80u | ((code_point >> shift) & 0x3fu)); };
    if (code_point < 0x80) {
        text += static_cast<char>(code_point);
    } else if (code_point < 0x800) {
        text += static_cast<char>(0xc0u | (code_point >> 6));
        tail(0);
    } else if (code_point < 0x10000) {
        text += static_cast<char>(0xe0u | (code_point >> 12));
        tail(6);
        tail(0);
    } else {
        text += static_cast<char>(0xf0u | (code_point >> 18));
        tail(12);
        tail(6);
        tail(0);
    }
}

}  // namespace nvfp4r
