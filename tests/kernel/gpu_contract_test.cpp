// The contract table on a GPU, and on the simulator that plays one (NVFP4R_SIM_ARCH: 100a unless set, or 90a ...).
// Without a GPU its tests say so and pass.
#include <catch2/catch.hpp>

#include "contract/contract_case.hpp"
#include "format/presets.hpp"
#include "gpu_case.hpp"

using namespace contract;

namespace {

struct Room {
    const char* name;
    std::vector<Entry> (*cases)();
};
constexpr Room kRooms[] = {{"odd values", odd_value_cases}, {"sizes", size_cases},  {"scores", score_cases},
                           {"memory", memory_cases},        {"NVFP4", nvfp4_cases}, {"features", feature_cases},
                           {"outputs", output_cases}};

bool is_missing(nvfp4r_device device) {
    if (device == NVFP4R_DEVICE_SIM) return false;
    const std::string missing = nvfp4r::test::cuda_missing();
    if (!missing.empty()) WARN("skipped: " << missing);
    return !missing.empty();
}

Device compared(nvfp4r_device kind) {
    Device device;
    device.options.device = kind;
    // Scores are within a few units in the last place, logits within the tensor core's truncation.
    device.rank_margin = 1e-5;
    device.weight_margin = 1e-5;
    device.may_refuse = true;
    return device;
}

void run_room(nvfp4r_device kind, const Room& room) {
    for (const Entry& entry : room.cases()) DYNAMIC_SECTION(room.name << ": " << entry.name) {
            run(entry.build(), compared(kind));
        }
}

void run_presets(nvfp4r_device kind) {
    Device device = compared(kind);
    device.may_refuse = false;
    for (uint32_t i = 0; i < nvfp4r::presets().size(); ++i) DYNAMIC_SECTION(nvfp4r::presets()[i].name) {
            run(preset_case(i), device);
        }
}

}  // namespace

TEST_CASE("contract on a GPU", "[contract][cuda]") {
    if (is_missing(NVFP4R_DEVICE_CUDA)) return;
    for (const Room& room : kRooms) run_room(NVFP4R_DEVICE_CUDA, room);
}
TEST_CASE("contract on a GPU: presets", "[contract][cuda]") {
    if (is_missing(NVFP4R_DEVICE_CUDA)) return;
    run_presets(NVFP4R_DEVICE_CUDA);
}

// Every case needs its own kernel compiled, so all but one room wait to be asked for.
TEST_CASE("contract on the simulator: odd values", "[contract][sim]") {
    run_room(NVFP4R_DEVICE_SIM, kRooms[0]);
}
TEST_CASE("contract on the simulator", "[contract][sim][.long]") {
    for (const Room& room : kRooms) run_room(NVFP4R_DEVICE_SIM, room);
}
TEST_CASE("contract on the simulator: presets", "[contract][sim][.long]") {
    run_presets(NVFP4R_DEVICE_SIM);
}
