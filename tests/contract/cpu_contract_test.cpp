// The contract on the CPU, in both arithmetics.
#include <catch2/catch.hpp>

#include "contract/contract_case.hpp"
#include "format/presets.hpp"

using namespace contract;

namespace {

Device cpu(nvfp4r_cpu_arithmetic arithmetic) {
    Device device;
    device.options.device = NVFP4R_DEVICE_CPU;
    device.options.cpu_arithmetic = arithmetic;
    if (arithmetic == NVFP4R_CPU_HARDWARE) {
        // Truncated steps move random logits by some units in the last place.
        device.rank_margin = 1e-5;
        device.weight_margin = 1e-5;
    }
    return device;
}

void run_table(const std::vector<Entry>& table, const Device& device) {
    for (const Entry& entry : table) DYNAMIC_SECTION(entry.name) {
            run(entry.build(), device);
        }
}

}  // namespace

TEST_CASE("contract: odd values", "[contract]") {
    run_table(odd_value_cases(), cpu(NVFP4R_CPU_EXACT));
}
TEST_CASE("contract: sizes", "[contract]") {
    run_table(size_cases(), cpu(NVFP4R_CPU_EXACT));
}
TEST_CASE("contract: scores", "[contract]") {
    run_table(score_cases(), cpu(NVFP4R_CPU_EXACT));
}
TEST_CASE("contract: memory", "[contract]") {
    run_table(memory_cases(), cpu(NVFP4R_CPU_EXACT));
}
TEST_CASE("contract: NVFP4", "[contract]") {
    run_table(nvfp4_cases(), cpu(NVFP4R_CPU_EXACT));
}
TEST_CASE("contract: features", "[contract]") {
    run_table(feature_cases(), cpu(NVFP4R_CPU_EXACT));
}
TEST_CASE("contract: outputs", "[contract]") {
    run_table(output_cases(), cpu(NVFP4R_CPU_EXACT));
}

TEST_CASE("contract with the tensor core's rounding: odd values", "[contract]") {
    run_table(odd_value_cases(), cpu(NVFP4R_CPU_HARDWARE));
}
TEST_CASE("contract with the tensor core's rounding: sizes", "[contract]") {
    run_table(size_cases(), cpu(NVFP4R_CPU_HARDWARE));
}
TEST_CASE("contract with the tensor core's rounding: NVFP4", "[contract]") {
    run_table(nvfp4_cases(), cpu(NVFP4R_CPU_HARDWARE));
}

TEST_CASE("contract: presets", "[contract]") {
    for (uint32_t i = 0; i < nvfp4r::presets().size(); ++i) DYNAMIC_SECTION(nvfp4r::presets()[i].name) {
            run(preset_case(i), cpu(NVFP4R_CPU_EXACT));
        }
}
