// The contract table on a GPU. Without one these tests say so and pass.
#include <catch2/catch.hpp>

#include "contract/contract_case.hpp"
#include "format/presets.hpp"
#include "gpu_case.hpp"

using namespace contract;

namespace {

void run_on_gpu(const std::vector<Entry>& table) {
    if (const std::string missing = nvfp4r::test::cuda_missing(); !missing.empty()) {
        WARN("skipped: " << missing);
        return;
    }
    Device gpu;
    gpu.options.device = NVFP4R_DEVICE_CUDA;
    // Scores are within a few units in the last place, logits within the tensor core's truncation.
    gpu.rank_margin = 1e-5;
    gpu.weight_margin = 1e-5;
    gpu.may_refuse = true;
    for (const Entry& entry : table) DYNAMIC_SECTION(entry.name) {
            run(entry.build(), gpu);
        }
}

}  // namespace

TEST_CASE("contract on a GPU: odd values", "[contract][cuda]") {
    run_on_gpu(odd_value_cases());
}
TEST_CASE("contract on a GPU: sizes", "[contract][cuda]") {
    run_on_gpu(size_cases());
}
TEST_CASE("contract on a GPU: scores", "[contract][cuda]") {
    run_on_gpu(score_cases());
}
TEST_CASE("contract on a GPU: memory", "[contract][cuda]") {
    run_on_gpu(memory_cases());
}
TEST_CASE("contract on a GPU: NVFP4", "[contract][cuda]") {
    run_on_gpu(nvfp4_cases());
}
TEST_CASE("contract on a GPU: features", "[contract][cuda]") {
    run_on_gpu(feature_cases());
}
TEST_CASE("contract on a GPU: outputs", "[contract][cuda]") {
    run_on_gpu(output_cases());
}
TEST_CASE("contract on a GPU: presets", "[contract][cuda]") {
    if (const std::string missing = nvfp4r::test::cuda_missing(); !missing.empty()) {
        WARN("skipped: " << missing);
        return;
    }
    Device gpu;
    gpu.options.device = NVFP4R_DEVICE_CUDA;
    gpu.rank_margin = 1e-5;
    gpu.weight_margin = 1e-5;
    for (uint32_t i = 0; i < nvfp4r::presets().size(); ++i) DYNAMIC_SECTION(nvfp4r::presets()[i].name) {
            run(preset_case(i), gpu);
        }
}
