#include "sim/instr/families.hpp"

#include <string>
#include <unordered_map>

namespace nvfp4r::sim {

namespace {

using ByOpcode = std::unordered_map<std::string_view, std::vector<const Family*>>;

const ByOpcode& by_opcode() {
    static const ByOpcode index = [] {
        ByOpcode made;
        for (const Family* family : families()) {
            for (const std::string_view opcode : family->opcodes) made[opcode].push_back(family);
        }
        return made;
    }();
    return index;
}

// Length of the longest type of the family that the statement ends in; 0 when it names none; -1 when none fits.
int type_match(const Family& family, std::string_view text) {
    if (family.types.empty()) return 0;
    int best = -1;
    for (const std::string_view type : family.types) {
        const bool ends =
            text.size() > type.size() && text.ends_with(type) && text[text.size() - type.size() - 1] == '.';
        if (ends) best = std::max(best, static_cast<int>(type.size()));
    }
    return best;
}

}  // namespace

const std::vector<const Family*>& families() {
    static const std::vector<const Family*> all = {
#define X(name) &name##_family,
        NVFP4R_SIM_FAMILIES(X)
#undef X
    };
    return all;
}

const Family* find_family(const Statement& statement) {
    std::string text = statement.opcode;
    std::vector<size_t> ends = {text.size()};
    for (const std::string& modifier : statement.modifiers) {
        text += '.';
        text += modifier;
        ends.push_back(text.size());
    }
    while (!ends.empty()) {
        const auto found = by_opcode().find(std::string_view(text).substr(0, ends.back()));
        if (found != by_opcode().end()) {
            const Family* best = nullptr;
            int best_match = -1;
            for (const Family* family : found->second) {
                const int match = type_match(*family, text);
                if (match > best_match) {
                    best_match = match;
                    best = family;
                }
            }
            if (best) return best;
        }
        ends.pop_back();
    }
    return nullptr;
}

}  // namespace nvfp4r::sim
