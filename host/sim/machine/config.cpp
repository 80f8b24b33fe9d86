#include "sim/machine/config.hpp"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "core/error.hpp"

namespace nvfp4r::sim {
namespace {

uint64_t number(const char* name, std::string_view text) {
    uint64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size())
        fail(NVFP4R_INVALID_ARGUMENT, "{}={}: not a whole number", name, text);
    return value;
}

bool flag(const char* name, std::string_view text) {
    if (text == "0") return false;
    if (text == "1") return true;
    fail(NVFP4R_INVALID_ARGUMENT, "{}={}: 0 or 1 is expected", name, text);
}

Policy policy_named(std::string_view text) {
    constexpr struct {
        std::string_view name;
        Policy value;
    } kNames[] = {
        {"round_robin", Policy::round_robin}, {"eager", Policy::eager},         {"late", Policy::late},
        {"random", Policy::random},           {"hold_warp", Policy::hold_warp}, {"hold_cta", Policy::hold_cta}};
    for (const auto& entry : kNames)
        if (entry.name == text) return entry.value;
    fail(NVFP4R_INVALID_ARGUMENT,
         "NVFP4R_SIM_POLICY={}: round_robin, eager, late, random, hold_warp or hold_cta is expected", text);
}

uint32_t architecture(std::string_view text) {
    constexpr struct {
        std::string_view name;
        uint32_t sm;
    } kNames[] = {{"90a", 90}, {"100a", 100}, {"103a", 103}, {"110a", 110}};
    for (const auto& entry : kNames)
        if (entry.name == text) return entry.sm;
    fail(NVFP4R_INVALID_ARGUMENT, "NVFP4R_SIM_ARCH={}: 90a, 100a, 103a or 110a is expected", text);
}

}  // namespace

GpuConfig GpuConfig::for_sm(uint32_t sm) {
    GpuConfig config;
    config.sm = sm;
    switch (sm) {
        case 90: config.sms = 132; break;
        case 100:
        case 103: config.sms = 148; break;
        case 110: config.sms = 20; break;
        default: fail(NVFP4R_INVALID_ARGUMENT, "sm {}: the simulator plays 90, 100, 103 and 110", sm);
    }
    return config;
}

GpuConfig GpuConfig::from_environment() {
    const char* arch = std::getenv("NVFP4R_SIM_ARCH");
    GpuConfig config = for_sm(arch ? architecture(arch) : 100);
    if (const char* text = std::getenv("NVFP4R_SIM_SMS")) {
        uint64_t sms = number("NVFP4R_SIM_SMS", text);
        constexpr uint64_t kMostSms = 1024;
        if (sms < 1 || sms > kMostSms)
            fail(NVFP4R_INVALID_ARGUMENT, "NVFP4R_SIM_SMS={}: 1 to {} are possible", sms, kMostSms);
        config.sms = static_cast<uint32_t>(sms);
    }
    if (const char* text = std::getenv("NVFP4R_SIM_POLICY")) config.policy = policy_named(text);
    if (const char* text = std::getenv("NVFP4R_SIM_SEED")) config.seed = number("NVFP4R_SIM_SEED", text);
    if (const char* text = std::getenv("NVFP4R_SIM_STRICT")) config.strict = flag("NVFP4R_SIM_STRICT", text);
    if (const char* text = std::getenv("NVFP4R_SIM_CHECK")) config.check = flag("NVFP4R_SIM_CHECK", text);
    if (const char* text = std::getenv("NVFP4R_SIM_TRACE")) config.trace_file = text;
    if (const char* text = std::getenv("NVFP4R_SIM_ORDER_MMA_CP"))
        config.order_mma_cp = flag("NVFP4R_SIM_ORDER_MMA_CP", text);
    if (const char* text = std::getenv("NVFP4R_SIM_SPIN_LIMIT"))
        config.spin_limit = number("NVFP4R_SIM_SPIN_LIMIT", text);
    return config;
}

}  // namespace nvfp4r::sim
