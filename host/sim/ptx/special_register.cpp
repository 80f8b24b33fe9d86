#include "sim/ptx/special_register.hpp"

namespace nvfp4r::sim {

namespace {

struct Entry {
    std::string_view text;
    uint32_t bits;
};

constexpr Entry kEntries[] = {
#define X(text, name, bits) {text, bits},
    NVFP4R_SIM_SPECIAL_REGISTERS(X)
#undef X
};

}  // namespace

bool find_special_register(std::string_view text, SpecialRegister& found) {
    uint32_t index = 0;
    for (const Entry& entry : kEntries) {
        if (entry.text == text) {
            found = static_cast<SpecialRegister>(index);
            return true;
        }
        ++index;
    }
    return false;
}

std::string_view special_register_name(SpecialRegister which) {
    return kEntries[static_cast<uint32_t>(which)].text;
}

uint32_t special_register_bits(SpecialRegister which) {
    return kEntries[static_cast<uint32_t>(which)].bits;
}

}  // namespace nvfp4r::sim
