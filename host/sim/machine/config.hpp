// Which GPU the simulator plays, and how it schedules and checks.
#pragma once

#include <cstdint>
#include <string>

namespace nvfp4r::sim {

/// How warps and asynchronous engines take turns. All are legal hardware; a right kernel is right under every one.
enum class Policy : uint8_t {
    round_robin,  // every warp one instruction in turn; engines finish after a fixed delay
    eager,        // engines finish at once
    late,         // engines finish only when nothing else can run
    random,       // seeded choice of the next warp and the next engine
    hold_warp,    // random, with one warp (chosen by the seed) held back as long as legal
    hold_cta      // random, with one CTA held back as long as legal
};

struct GpuConfig {
    uint32_t sm = 100;  // 90, 100, 103, 110
    uint32_t sms = 148;
    uint32_t max_cluster = 16;  // non-portable; 8 is portable
    uint32_t shared_per_sm = 228 * 1024;
    uint32_t shared_per_block_optin = 227 * 1024;
    uint32_t threads_per_sm = 2048;
    uint32_t ctas_per_sm = 32;
    uint32_t registers_per_sm = 65536;
    Policy policy = Policy::round_robin;
    uint64_t seed = 1;
    bool strict = true;  // false: go on after a finding and list them all
    bool check = true;   // false: no race and initialisation tracking (faster)
    // A tcgen05.cp over scale columns that an earlier tcgen05.mma of the same thread reads: PTX does not list the pair
    // as ordered (9.7.16.6), production kernels rely on it. false: reported as a race.
    bool order_mma_cp = false;
    std::string trace_file;           // Chrome trace, "" = none
    uint64_t spin_limit = 2'000'000;  // instructions without any change of state before a spinning grid is a deadlock

    /// NVFP4R_SIM_ARCH, _SMS, _POLICY, _SEED, _STRICT, _CHECK, _TRACE, _SPIN_LIMIT, _ORDER_MMA_CP. Throws on a value it
    /// does not know.
    static GpuConfig from_environment();
    /// The shape of a real GPU: 90 -> H200 (132 SMs), 100 -> B200 (148), 103 -> B300 (148), 110 -> Thor (20).
    static GpuConfig for_sm(uint32_t sm);
};

}  // namespace nvfp4r::sim
