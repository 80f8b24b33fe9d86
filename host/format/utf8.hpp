// UTF-8 as RFC 3629 defines it: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nvfp4r {

bool is_utf8(std::string_view text);
void append_utf8(std::string& text, uint32_t code_point);

}  // namespace nvfp4r
