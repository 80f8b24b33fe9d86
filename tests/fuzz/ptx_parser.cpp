// libFuzzer target: the PTX parser. `make fuzz` builds it.
#include <cstdint>
#include <cstdlib>

#include "core/error.hpp"
#include "sim/ptx/ast.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    try {
        const auto module = nvfp4r::sim::parse_ptx({reinterpret_cast<const char*>(data), size});
        for (const nvfp4r::sim::Function& function : module->functions) {
            for (const std::vector<uint32_t>& table : function.branch_tables) {
                for (const uint32_t target : table) {
                    if (target >= function.statements.size()) std::abort();
                }
            }
        }
    } catch (const nvfp4r::Error&) {
        // A refusal is a right answer to most inputs.
    }
    return 0;
}
