// The C API's own rules: status codes, error texts, versioned structures, refusals before anything is written.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "nvfp4router.h"

namespace {

constexpr uint32_t kExperts = 8, kHidden = 32, kTopK = 2;

/// A valid gate, router and call that tests break in one place.
struct Valid {
    Valid() {
        desc.experts = kExperts;
        desc.hidden = kHidden;
        desc.weight = weight.data();
        desc.weight_type = NVFP4R_F32;
        settings.experts = kExperts;
        settings.hidden = kHidden;
        settings.top_k = kTopK;
        settings.score = NVFP4R_SCORE_SIGMOID;
        options.device = NVFP4R_DEVICE_CPU;
        call.tokens = 2;
        call.hidden = hidden.data();
        call.hidden_type = NVFP4R_F32;
        call.weights = weights.data();
        call.ids = ids.data();
    }
    ~Valid() {
        nvfp4r_router_destroy(router);
        nvfp4r_gate_destroy(gate);
    }
    nvfp4r_status make_gate() { return nvfp4r_gate_create(&desc, &gate); }
    nvfp4r_status make_router() {
        if (!gate && make_gate() != NVFP4R_OK) return NVFP4R_INTERNAL;
        return nvfp4r_router_create(gate, &settings, &options, &router);
    }
    nvfp4r_status route() {
        if (!router && make_router() != NVFP4R_OK) return NVFP4R_INTERNAL;
        return nvfp4r_route(router, &call);
    }

    std::vector<float> weight = std::vector<float>(kExperts * kHidden, 0.5f);
    std::vector<float> hidden = std::vector<float>(2 * kHidden, 1.0f);
    std::vector<float> weights = std::vector<float>(2 * kTopK, -7.0f);
    std::vector<int32_t> ids = std::vector<int32_t>(2 * kTopK, -7);
    nvfp4r_gate_desc desc = NVFP4R_GATE_DESC_INIT;
    nvfp4r_settings settings = NVFP4R_SETTINGS_INIT;
    nvfp4r_router_options options = NVFP4R_ROUTER_OPTIONS_INIT;
    nvfp4r_call call = NVFP4R_CALL_INIT;
    nvfp4r_gate* gate = nullptr;
    nvfp4r_router* router = nullptr;
};

std::string error() {
    return nvfp4r_last_error();
}

template <class Enum>
Enum enumerator(int value) {
    Enum e;
    std::memcpy(&e, &value, sizeof(e));
    return e;
}

struct Refusal {
    const char* name;
    std::function<void(Valid&)> spoil;
    std::vector<std::string> words;
    nvfp4r_status status = NVFP4R_INVALID_ARGUMENT;
};

void check_words(const Refusal& refusal) {
    for (const std::string& word : refusal.words) CHECK_THAT(error(), Catch::Contains(word));
}

const float kNan = std::numeric_limits<float>::quiet_NaN();
const float kInf = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("a valid call routes", "[api]") {
    Valid v;
    REQUIRE(v.route() == NVFP4R_OK);
    CHECK(v.ids == std::vector<int32_t>{0, 1, 0, 1});
    CHECK(std::string(nvfp4r_router_description(v.router)).find("cpu") == 0);
    CHECK(nvfp4r_router_prepare(v.router, 100) == NVFP4R_OK);
}

TEST_CASE("gate refusals name the field, the value and the remedy", "[api]") {
    const uint8_t byte = 0;
    const Refusal refusals[] = {
        {"no experts", [](Valid& v) { v.desc.experts = 0; }, {"desc.experts 0", "1 to 2048"}},
        {"too many experts", [](Valid& v) { v.desc.experts = 2049; }, {"desc.experts 2049", "2048"}},
        {"hidden 24", [](Valid& v) { v.desc.hidden = 24; }, {"desc.hidden 24", "multiple of 16"}},
        {"hidden 0", [](Valid& v) { v.desc.hidden = 0; }, {"desc.hidden 0"}},
        {"hidden too large", [](Valid& v) { v.desc.hidden = 65552; }, {"desc.hidden 65552", "65536"}},
        {"nothing", [](Valid& v) { v.desc.weight = nullptr; }, {"either a weight or NVFP4 terms"}},
        {"both", [](Valid& v) { v.desc.terms = 1; }, {"either a weight or NVFP4 terms"}},
        {"four terms", [](Valid& v) { v.desc.terms = 4; }, {"desc.terms 4", "at most 3"}},
        {"weight type", [](Valid& v) { v.desc.weight_type = NVFP4R_I64; }, {"desc.weight_type 9", "F32 (1)"}},
        {"stride", [](Valid& v) { v.desc.weight_stride = 31; }, {"desc.weight_stride 31", "32"}},
        {"layout",
         [](Valid& v) { v.desc.scale_layout = enumerator<nvfp4r_scale_layout>(7); },
         {"desc.scale_layout 7", "128x4"}},
        {"rule", [](Valid& v) { v.desc.scale_rule = enumerator<nvfp4r_scale_rule>(2); }, {"desc.scale_rule 2"}},
        {"input scale", [](Valid& v) { v.desc.input_scale = kNan; }, {"desc.input_scale", "finite and positive"}},
        {"no codes",
         [&](Valid& v) {
             v.desc.weight = nullptr;
             v.desc.terms = 1;
             v.desc.scales[0] = &byte;
             v.desc.global_scale = 1.0f;
         },
         {"desc.codes[0]", "NULL"}},
        {"B02 a divisor of 0",
         [&](Valid& v) {
             v.desc.weight = nullptr;
             v.desc.terms = 1;
             v.desc.scale_rule = NVFP4R_SCALE_DIVIDES;
         },
         {"desc.global_scale 0", "finite and positive"}},
        {"table type", [&](Valid& v) { v.desc.tid2eid = &byte; }, {"desc.table_type 0", "I64 (9)"}},
        {"empty table",
         [&](Valid& v) {
             v.desc.tid2eid = &byte;
             v.desc.table_type = NVFP4R_I32;
         },
         {"desc.vocabulary 0"}},
        {"size 0", [](Valid& v) { v.desc.size = 0; }, {"desc.size 0", "_INIT"}},
    };
    for (const Refusal& refusal : refusals) {
        DYNAMIC_SECTION(refusal.name) {
            Valid v;
            refusal.spoil(v);
            CHECK(v.make_gate() == refusal.status);
            CHECK(v.gate == nullptr);
            check_words(refusal);
        }
    }
    SECTION("B29 8x4 scales") {
        const std::vector<uint8_t> bytes(8 * 512);
        Valid v;
        v.desc.weight = nullptr;
        v.desc.terms = 1;
        v.desc.global_scale = 1.0f;
        v.desc.codes[0] = v.desc.scales[0] = bytes.data();
        v.desc.scale_layout = NVFP4R_SCALES_8X4;
        CHECK(v.make_gate() == NVFP4R_UNSUPPORTED);
        CHECK_THAT(error(), Catch::Contains("8x4"));
    }
}

TEST_CASE("settings refusals name the field, the value and the remedy", "[api]") {
    const Refusal refusals[] = {
        {"A49 score not set", [](Valid& v) { v.settings.score = NVFP4R_SCORE_UNSET; }, {"settings.score 0"}},
        {"A49 unknown score", [](Valid& v) { v.settings.score = enumerator<nvfp4r_score>(99); }, {"settings.score 99"}},
        {"weighting",
         [](Valid& v) { v.settings.weighting = enumerator<nvfp4r_weighting>(5); },
         {"settings.weighting 5"}},
        {"precision",
         [](Valid& v) { v.settings.precision = enumerator<nvfp4r_precision>(8); },
         {"settings.precision 8", "nvfp4x2 (2)"}},
        {"block rule", [](Valid& v) { v.settings.block_rule = enumerator<nvfp4r_block_rule>(3); }, {"block_rule 3"}},
        {"group score",
         [](Valid& v) { v.settings.group_score = enumerator<nvfp4r_group_score>(2); },
         {"group_score 2"}},
        {"experts", [](Valid& v) { v.settings.experts = 7; }, {"settings.experts 7", "gate has 8"}},
        {"hidden", [](Valid& v) { v.settings.hidden = 64; }, {"settings.hidden 64", "gate has 32"}},
        {"top_k 0", [](Valid& v) { v.settings.top_k = 0; }, {"settings.top_k 0", "1 to 32"}},
        {"A14 top_k above E", [](Valid& v) { v.settings.top_k = 9; }, {"settings.top_k 9", "8 experts"}},
        {"groups", [](Valid& v) { v.settings.groups = 3; }, {"settings.groups 3", "divide the 8"}},
        {"groups kept",
         [](Valid& v) {
             v.settings.groups = 4;
             v.settings.groups_kept = 5;
         },
         {"settings.groups_kept 5", "1 to 4"}},
        {"too few eligible",
         [](Valid& v) {
             v.settings.groups = 8;
             v.settings.groups_kept = 1;
         },
         {"settings.groups_kept 1", "leaves 1 experts for top_k 2"}},
        {"renormalise", [](Valid& v) { v.settings.renormalise = 2; }, {"settings.renormalise 2", "0 or 1"}},
        {"eps", [](Valid& v) { v.settings.renormalise_eps = -1.0f; }, {"renormalise_eps -1"}},
        {"scaling", [](Valid& v) { v.settings.routed_scaling = kInf; }, {"routed_scaling inf"}},
        {"cap", [](Valid& v) { v.settings.logit_soft_cap = kNan; }, {"logit_soft_cap nan"}},
        {"bias", [](Valid& v) { v.settings.use_bias = 1; }, {"use_bias 1", "no selection bias"}},
        {"slots", [](Valid& v) { v.settings.shared_slots = 33; }, {"shared_slots 33", "at most 32"}},
        {"activation scale", [](Valid& v) { v.settings.activation_scale = -2.0f; }, {"activation_scale -2"}},
        {"size", [](Valid& v) { v.settings.size = 4; }, {"settings.size 4"}},
        {"device", [](Valid& v) { v.options.device = enumerator<nvfp4r_device>(4); }, {"options.device 4", "cpu (1)"}},
        {"arithmetic",
         [](Valid& v) { v.options.cpu_arithmetic = enumerator<nvfp4r_cpu_arithmetic>(2); },
         {"options.cpu_arithmetic 2"}},
        {"ordinal", [](Valid& v) { v.options.ordinal = -1; }, {"options.ordinal -1"}},
        {"threads", [](Valid& v) { v.options.threads = 5000; }, {"options.threads 5000", "1024"}},
        {"an infinite weight is not quantised",
         [](Valid& v) {
             v.weight[37] = kInf;
             v.settings.precision = NVFP4R_PRECISION_NVFP4;
         },
         {"gate weight", "inf", "row 1, column 5"}},
    };
    for (const Refusal& refusal : refusals) {
        DYNAMIC_SECTION(refusal.name) {
            Valid v;
            refusal.spoil(v);
            CHECK(v.make_router() == refusal.status);
            CHECK(v.router == nullptr);
            check_words(refusal);
        }
    }
}

TEST_CASE("call refusals name the field, the value and the remedy, and write nothing", "[api]") {
    static const uint8_t bytes[4096] = {};
    const int32_t one = 1;
    const Refusal refusals[] = {
        {"negative tokens", [](Valid& v) { v.call.tokens = -1; }, {"call.tokens -1"}},
        {"too many tokens", [](Valid& v) { v.call.tokens = (1 << 24) + 1; }, {"call.tokens 16777217", "16777216"}},
        {"memory", [](Valid& v) { v.call.memory = enumerator<nvfp4r_memory>(2); }, {"call.memory 2"}},
        {"device memory on the CPU",
         [](Valid& v) { v.call.memory = NVFP4R_MEMORY_DEVICE; },
         {"memory", "host"},
         NVFP4R_UNSUPPORTED},
        {"no hidden", [](Valid& v) { v.call.hidden = nullptr; }, {"call.hidden", "NULL"}},
        {"hidden type", [](Valid& v) { v.call.hidden_type = NVFP4R_DTYPE_UNSET; }, {"call.hidden_type 0"}},
        {"hidden stride", [](Valid& v) { v.call.hidden_stride = 31; }, {"call.hidden_stride 31", "32"}},
        {"A55 misaligned hidden",
         [](Valid& v) { v.call.hidden = reinterpret_cast<const char*>(v.hidden.data()) + 1; },
         {"call.hidden", "aligned to 4"}},
        {"no scales", [](Valid& v) { v.call.hidden_type = NVFP4R_E2M1; }, {"call.hidden_scales"}},
        {"B29 8x4 scales",
         [](Valid& v) {
             v.call.hidden_type = NVFP4R_E2M1;
             v.call.hidden_scales = bytes;
             v.call.hidden_scale_layout = NVFP4R_SCALES_8X4;
         },
         {"8x4"},
         NVFP4R_UNSUPPORTED},
        {"A13 no global scale",
         [](Valid& v) {
             v.call.hidden_type = NVFP4R_E2M1;
             v.call.hidden_scales = bytes;
         },
         {"hidden_global_scale 0", "finite and positive"}},
        {"A13 a token's global scale",
         [](Valid& v) {
             static const float scales[2] = {1.0f, kNan};
             v.call.hidden_type = NVFP4R_E2M1;
             v.call.hidden_scales = bytes;
             v.call.hidden_global_scales = scales;
         },
         {"hidden_global_scales nan", "finite and positive"}},
        {"no ids", [](Valid& v) { v.call.ids = nullptr; }, {"call.ids", "NULL"}},
        {"no weights", [](Valid& v) { v.call.weights = nullptr; }, {"call.weights", "NULL"}},
        {"ids type", [](Valid& v) { v.call.ids_type = NVFP4R_I16; }, {"call.ids_type 7"}},
        {"weights type", [](Valid& v) { v.call.weights_type = NVFP4R_F16; }, {"call.weights_type 3"}},
        {"A34 capacity", [](Valid& v) { v.call.weights_capacity = 3; }, {"weights_capacity 3", "4 elements"}},
        {"A34 negative capacity", [](Valid& v) { v.call.ids_capacity = -1; }, {"ids_capacity -1"}},
        {"logits stride",
         [](Valid& v) {
             v.call.logits = v.weights.data();
             v.call.logits_stride = 7;
         },
         {"logits_stride 7", "8"}},
        {"logical type",
         [](Valid& v) {
             v.call.logical_ids = v.ids.data();
             v.call.logical_ids_type = NVFP4R_I64;
         },
         {"logical_ids_type 9"}},
        {"permutation without offsets", [](Valid& v) { v.call.permutation = v.ids.data(); }, {"expert_offsets"}},
        {"permutation capacity",
         [](Valid& v) {
             v.call.permutation = v.call.expert_offsets = v.ids.data();
             v.call.permutation_capacity = 3;
         },
         {"permutation_capacity 3", "4 elements"}},
        {"codes without scales",
         [](Valid& v) { v.call.hidden_codes_out = reinterpret_cast<uint8_t*>(v.ids.data()); },
         {"hidden_codes_out", "hidden_scales_out"}},
        {"replicas without counts", [&](Valid& v) { v.call.logit_to_physical = &one; }, {"replica_count"}},
        {"physical experts", [](Valid& v) { v.call.experts_physical = 9; }, {"experts_physical 9"}},
        {"size", [](Valid& v) { v.call.size = 0; }, {"call.size 0"}},
    };
    for (const Refusal& refusal : refusals) {
        DYNAMIC_SECTION(refusal.name) {
            Valid v;
            refusal.spoil(v);
            CHECK(v.route() == refusal.status);
            check_words(refusal);
            CHECK(v.ids == std::vector<int32_t>(2 * kTopK, -7));
            CHECK(v.weights == std::vector<float>(2 * kTopK, -7.0f));
        }
    }
}

TEST_CASE("A28 no tokens succeed with null pointers", "[api]") {
    Valid v;
    REQUIRE(v.make_router() == NVFP4R_OK);
    nvfp4r_call call = NVFP4R_CALL_INIT;
    CHECK(nvfp4r_route(v.router, &call) == NVFP4R_OK);
}

TEST_CASE("null handles and pointers are refused", "[api]") {
    Valid v;
    CHECK(nvfp4r_gate_create(nullptr, &v.gate) == NVFP4R_INVALID_ARGUMENT);
    CHECK(nvfp4r_gate_create(&v.desc, nullptr) == NVFP4R_INVALID_ARGUMENT);
    CHECK(nvfp4r_gate_load(nullptr, 0, nullptr, &v.gate) == NVFP4R_INVALID_ARGUMENT);
    CHECK(nvfp4r_gate_get_info(nullptr, nullptr) == NVFP4R_INVALID_ARGUMENT);
    CHECK(nvfp4r_router_create(nullptr, &v.settings, nullptr, &v.router) == NVFP4R_INVALID_ARGUMENT);
    CHECK(nvfp4r_route(nullptr, &v.call) == NVFP4R_INVALID_ARGUMENT);
    CHECK(nvfp4r_router_prepare(nullptr, 1) == NVFP4R_INVALID_ARGUMENT);
    CHECK(nvfp4r_settings_preset(nullptr, &v.settings) == NVFP4R_INVALID_ARGUMENT);
    CHECK(nvfp4r_settings_from_checkpoint(nullptr, &v.settings) == NVFP4R_INVALID_ARGUMENT);
    CHECK(std::string(nvfp4r_router_description(nullptr)).empty());
    nvfp4r_gate_destroy(nullptr);
    nvfp4r_router_destroy(nullptr);
}

TEST_CASE("a shorter structure takes the missing tail from the defaults", "[api]") {
    Valid v;
    REQUIRE(v.make_gate() == NVFP4R_OK);
    // A header whose settings ended before routed_scaling: garbage there must not be read.
    v.settings.size = offsetof(nvfp4r_settings, routed_scaling);
    v.settings.routed_scaling = kNan;
    REQUIRE(v.make_router() == NVFP4R_OK);
    v.call.size = offsetof(nvfp4r_call, logits);
    v.call.logits = reinterpret_cast<float*>(1);
    REQUIRE(v.route() == NVFP4R_OK);
    CHECK(v.weights[0] == Approx(1.0 / (1.0 + std::exp(-16.0))));
}

TEST_CASE("a longer structure is taken while its unknown tail is zero", "[api]") {
    struct Newer {
        nvfp4r_settings settings;
        uint64_t unknown;
    };
    Valid v;
    REQUIRE(v.make_gate() == NVFP4R_OK);
    Newer newer;
    std::memset(static_cast<void*>(&newer), 0, sizeof(newer));
    newer.settings = v.settings;
    newer.settings.size = sizeof(Newer);
    CHECK(nvfp4r_router_create(v.gate, &newer.settings, &v.options, &v.router) == NVFP4R_OK);
    newer.unknown = 1;
    nvfp4r_router* other = nullptr;
    CHECK(nvfp4r_router_create(v.gate, &newer.settings, &v.options, &other) == NVFP4R_INVALID_ARGUMENT);
    CHECK(other == nullptr);
    CHECK_THAT(error(), Catch::Contains("settings.size"));
}

TEST_CASE("a structure written by the library keeps to the caller's size", "[api]") {
    nvfp4r_settings settings = NVFP4R_SETTINGS_INIT;
    settings.size = offsetof(nvfp4r_settings, routed_scaling);
    settings.routed_scaling = 77.0f;
    REQUIRE(nvfp4r_settings_preset("deepseek-v3", &settings) == NVFP4R_OK);
    CHECK(settings.experts == 256);
    CHECK(settings.size == offsetof(nvfp4r_settings, routed_scaling));
    CHECK(settings.routed_scaling == 77.0f);
}

TEST_CASE("presets by name and by number", "[api]") {
    nvfp4r_settings settings = NVFP4R_SETTINGS_INIT;
    REQUIRE(nvfp4r_preset_count() == 25);  // the rows of the contract's section 6
    for (uint32_t i = 0; i < nvfp4r_preset_count(); ++i)
        CHECK(nvfp4r_settings_preset(nvfp4r_preset_name(i), &settings) == NVFP4R_OK);
    CHECK(nvfp4r_preset_name(nvfp4r_preset_count()) == nullptr);
    CHECK(nvfp4r_settings_preset("deepseek-v9", &settings) == NVFP4R_INVALID_ARGUMENT);
    CHECK_THAT(error(), Catch::Contains("deepseek-v9") && Catch::Contains("deepseek-v4-pro"));
}

TEST_CASE("the gate's memory may change after creation", "[api]") {
    Valid v;
    REQUIRE(v.make_gate() == NVFP4R_OK);
    std::fill(v.weight.begin(), v.weight.end(), kNan);
    REQUIRE(v.route() == NVFP4R_OK);
    CHECK(v.weights[0] == Approx(1.0));
}

TEST_CASE("error texts belong to their thread", "[api][threads]") {
    nvfp4r_settings settings = NVFP4R_SETTINGS_INIT;
    CHECK(nvfp4r_settings_preset("here", &settings) == NVFP4R_INVALID_ARGUMENT);
    std::string before, after;
    std::thread([&] {
        nvfp4r_settings own = NVFP4R_SETTINGS_INIT;
        before = nvfp4r_last_error();
        nvfp4r_settings_preset("there", &own);
        after = nvfp4r_last_error();
    }).join();
    CHECK(before.empty());
    CHECK_THAT(after, Catch::Contains("there"));
    CHECK_THAT(error(), Catch::Contains("here") && !Catch::Contains("there"));
}

TEST_CASE("names of status codes and the version", "[api]") {
    CHECK(std::string(nvfp4r_status_name(NVFP4R_BAD_FILE)) == "NVFP4R_BAD_FILE");
    CHECK(std::string(nvfp4r_status_name(enumerator<nvfp4r_status>(14))) == "unknown status");
    CHECK(nvfp4r_version() == (NVFP4R_VERSION_MAJOR << 16 | NVFP4R_VERSION_MINOR << 8 | NVFP4R_VERSION_PATCH));
}
