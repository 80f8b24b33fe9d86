// The kernels on a real GPU against the CPU device. Without a GPU these tests say so and pass.
#include <catch2/catch.hpp>

#include "gpu_case.hpp"

using namespace nvfp4r::test;

namespace {

bool skip_without_gpu() {
    const std::string missing = cuda_missing();
    if (!missing.empty()) WARN("skipped: " << missing);
    return !missing.empty();
}

void require_right(const GpuCase& c) {
    INFO(c.name << ", M " << c.tokens);
    const std::string failure = run_gpu_case(c);
    CHECK(failure == "");
}

}  // namespace

TEST_CASE("a GPU routes every preset", "[kernel][cuda][differential]") {
    if (skip_without_gpu()) return;
    for (uint32_t i = 0; i < nvfp4r_preset_count(); ++i)
        for (const int64_t tokens : {1, 5, 16, 40}) require_right(preset_case(nvfp4r_preset_name(i), tokens));
}

TEST_CASE("a GPU multiplies in every precision and with every kind of tokens", "[kernel][cuda][differential]") {
    if (skip_without_gpu()) return;
    for (const nvfp4r_precision precision :
         {NVFP4R_PRECISION_NVFP4, NVFP4R_PRECISION_NVFP4X2, NVFP4R_PRECISION_NVFP4X3, NVFP4R_PRECISION_NVFP4_W,
          NVFP4R_PRECISION_NVFP4X2_W, NVFP4R_PRECISION_BF16})
        for (const nvfp4r_dtype type : {NVFP4R_BF16, NVFP4R_F16, NVFP4R_F32, NVFP4R_E2M1})
            for (const int64_t tokens : {3, 37, 300}) {
                GpuCase c = gpu_case(96, 720, 6, NVFP4R_SCORE_SIGMOID, precision);
                c.hidden_type = type;
                c.tokens = tokens;
                c.name += " type " + std::to_string(type);
                require_right(c);
            }
}

TEST_CASE("A18 A19 A20 a GPU takes every number of experts, k and hidden size", "[kernel][cuda][differential]") {
    if (skip_without_gpu()) return;
    const uint32_t shapes[][3] = {{1, 64, 1},      {2, 16, 2},     {3, 48, 2},      {8, 16, 8},      {31, 80, 7},
                                  {33, 112, 8},    {40, 64, 8},    {100, 240, 3},   {144, 2880, 8},  {160, 5120, 8},
                                  {200, 48, 32},   {256, 64, 1},   {256, 7168, 32}, {257, 320, 5},   {513, 2688, 22},
                                  {896, 7168, 16}, {1000, 80, 17}, {2047, 64, 32},  {2048, 4096, 32}};
    for (const auto& s : shapes)
        for (const int64_t tokens : {1, 9, 70, 300}) {
            GpuCase c = gpu_case(s[0], s[1], s[2]);
            c.tokens = tokens;
            require_right(c);
        }
}

TEST_CASE("a GPU reads rows of any stride and alignment", "[kernel][cuda][differential]") {
    if (skip_without_gpu()) return;
    for (const nvfp4r_dtype type : {NVFP4R_BF16, NVFP4R_F16, NVFP4R_F32, NVFP4R_E2M1})
        for (const int64_t padding : {0, 8, 2, 30}) {
            GpuCase c = gpu_case(64, 208, 4);
            c.hidden_type = type;
            c.stride_padding = padding;
            c.misalign = type == NVFP4R_E2M1 ? 0 : static_cast<uint32_t>(padding % 4);
            c.tokens = 19;
            c.name += " padding " + std::to_string(padding);
            require_right(c);
        }
}

TEST_CASE("a GPU keeps the contract's extras", "[kernel][cuda][differential]") {
    if (skip_without_gpu()) return;
    const auto base = [] {
        GpuCase c = gpu_case(64, 256, 6, NVFP4R_SCORE_SIGMOID);
        c.tokens = 21;
        return c;
    };
    std::vector<GpuCase> cases;
    const auto add = [&](const char* name, auto&& change) {
        GpuCase c = base();
        change(c);
        c.name = name;
        cases.push_back(c);
    };
    add("bias", [](GpuCase& c) { c.bias = true, c.settings.use_bias = 1; });
    add("bias and image bias", [](GpuCase& c) { c.bias = c.image = true, c.settings.use_bias = 1; });
    add("linear bias, softmax after", [](GpuCase& c) {
        c.linear_bias = true, c.settings.score = NVFP4R_SCORE_IDENTITY;
        c.settings.weighting = NVFP4R_WEIGHT_SOFTMAX_AFTER, c.settings.renormalise = 0;
    });
    add("sigmoid after", [](GpuCase& c) {
        c.settings.score = NVFP4R_SCORE_IDENTITY, c.settings.weighting = NVFP4R_WEIGHT_SIGMOID_AFTER;
        c.settings.renormalise = 0;
    });
    add("softmax", [](GpuCase& c) { c.settings.score = NVFP4R_SCORE_SOFTMAX; });
    add("soft cap", [](GpuCase& c) { c.settings.logit_soft_cap = 2.0f; });
    add("expert factor", [](GpuCase& c) { c.factor = true; });
    add("hash table", [](GpuCase& c) { c.table = true; });
    add("forced ids", [](GpuCase& c) { c.forced = true; });
    add("replicas", [](GpuCase& c) { c.replicas = true; });
    add("replicas, batch invariant", [](GpuCase& c) { c.replicas = true, c.settings.batch_invariant = 1; });
    add("mask", [](GpuCase& c) { c.mask = true; });
    add("num_valid", [](GpuCase& c) { c.num_valid = true; });
    add("NaN rows", [](GpuCase& c) { c.nan_rows = 3; });
    add("NaN rows, softmax", [](GpuCase& c) { c.nan_rows = 3, c.settings.score = NVFP4R_SCORE_SOFTMAX; });
    add("ties", [](GpuCase& c) { c.duplicate_experts = true; });
    add("groups",
        [](GpuCase& c) { c.bias = true, c.settings.use_bias = 1, c.settings.groups = 8, c.settings.groups_kept = 3; });
    add("groups by maximum", [](GpuCase& c) {
        c.settings.groups = 4, c.settings.groups_kept = 2, c.settings.group_score = NVFP4R_GROUP_MAX;
    });
    add("shared slots", [](GpuCase& c) { c.settings.shared_slots = 2, c.settings.shared_weight = 0.25f; });
    add("scaling without renormalising",
        [](GpuCase& c) { c.settings.renormalise = 0, c.settings.routed_scaling = 2.5f; });
    add("bf16 weights", [](GpuCase& c) { c.weights_type = NVFP4R_BF16; });
    add("64-bit ids", [](GpuCase& c) { c.ids_type = NVFP4R_I64; });
    add("packed ids", [](GpuCase& c) { c.ids_type = NVFP4R_PACKED; });
    add("static activation scale",
        [](GpuCase& c) { c.settings.precision = NVFP4R_PRECISION_NVFP4, c.settings.activation_scale = 0.01f; });
    for (const GpuCase& c : cases) require_right(c);
}

TEST_CASE("a GPU keeps every row of large batches", "[kernel][cuda][differential]") {
    if (skip_without_gpu()) return;
    for (const int64_t tokens : {64, 65, 256, 257, 2048, 2049, 5000}) {
        GpuCase c = gpu_case(256, 512, 8);
        c.tokens = tokens;
        require_right(c);
    }
    GpuCase c = gpu_case(384, 7168, 6);
    c.tokens = 300;
    require_right(c);
}

TEST_CASE("small shapes for compute-sanitizer", "[kernel][cuda][sanitize]") {
    if (skip_without_gpu()) return;
    for (const nvfp4r_precision precision : {NVFP4R_PRECISION_NVFP4_W, NVFP4R_PRECISION_NVFP4X2, NVFP4R_PRECISION_BF16})
        for (const int64_t tokens : {1, 5, 40, 270}) {
            GpuCase c = gpu_case(40, 208, 5, NVFP4R_SCORE_SOFTMAX, precision);
            c.tokens = tokens;
            c.mask = c.bias = true;
            c.settings.use_bias = 1;
            require_right(c);
        }
    GpuCase grouped = preset_case("deepseek-v3", 3);
    grouped.settings.hidden = 512;
    require_right(grouped);
}
