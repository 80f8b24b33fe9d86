#include "sim/machine/residency.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/machine/machine.hpp"
#include "sim/machine/round_up.hpp"

namespace nvfp4r::sim {
namespace {

constexpr uint32_t kMaxBlockThreads = 1024, kMaxBlockZ = 64;
constexpr uint32_t kMaxGridYz = 65535;
constexpr uint32_t kPortableCluster = 8;
constexpr uint32_t kRegisterUnit = 256;     // registers are given out per warp in units of 256
constexpr uint32_t kAssumedRegisters = 64;  // a thread, where the kernel declares no bound: PTX registers are virtual
constexpr uint64_t kSharedUnit = 128;

uint32_t registers_per_thread(const GpuConfig& config, const Function& entry) {
    if (entry.max_registers != 0) return entry.max_registers;
    const uint32_t* bound = entry.required_threads[0] ? entry.required_threads : entry.max_threads;
    uint32_t threads = std::max(bound[0], 1u) * std::max(bound[1], 1u) * std::max(bound[2], 1u);
    if (bound[0] != 0 && entry.min_ctas_per_sm != 0)
        return std::clamp(config.registers_per_sm / (threads * entry.min_ctas_per_sm) / 8 * 8, 8u, kAssumedRegisters);
    return kAssumedRegisters;
}

}  // namespace

CtaNeeds needs_of(const GpuConfig& config, const GridLaunch& launch) {
    CtaNeeds needs;
    uint32_t warps = static_cast<uint32_t>((launch.block.count() + kLanes - 1) / kLanes);
    needs.threads = warps * kLanes;
    uint64_t per_warp = round_up(registers_per_thread(config, *launch.program->entry) * kLanes, kRegisterUnit);
    needs.registers = std::min(static_cast<uint32_t>(per_warp) * warps, config.registers_per_sm);
    uint64_t end = launch.dynamic_shared ? launch.program->dynamic_shared + launch.dynamic_shared
                                         : kSharedReserved + launch.program->static_shared;
    needs.shared = round_up(end, kSharedUnit);
    return needs;
}

std::optional<std::string> launch_refusal(const GpuConfig& config, const GridLaunch& launch) {
    const Function& entry = *launch.program->entry;
    const Dim3 &grid = launch.grid, &block = launch.block, &cluster = launch.cluster;
    if (grid.count() == 0 || grid.y > kMaxGridYz || grid.z > kMaxGridYz || grid.x > 0x7fffffffu)
        return fmt::format("grid {}x{}x{}: 1 to 2^31-1 by 65535 by 65535 are possible", grid.x, grid.y, grid.z);
    if (block.count() == 0 || block.count() > kMaxBlockThreads || block.z > kMaxBlockZ)
        return fmt::format("block {}x{}x{}: 1 to {} threads, at most {} deep", block.x, block.y, block.z,
                           kMaxBlockThreads, kMaxBlockZ);
    if (entry.required_threads[0] != 0) {
        Dim3 required{entry.required_threads[0], std::max(entry.required_threads[1], 1u),
                      std::max(entry.required_threads[2], 1u)};
        if (block.x != required.x || block.y != required.y || block.z != required.z)
            return fmt::format("block {}x{}x{}: the kernel's .reqntid asks for {}x{}x{}", block.x, block.y, block.z,
                               required.x, required.y, required.z);
    }
    if (entry.max_threads[0] != 0) {
        uint64_t most =
            uint64_t{entry.max_threads[0]} * std::max(entry.max_threads[1], 1u) * std::max(entry.max_threads[2], 1u);
        if (block.count() > most)
            return fmt::format("block of {} threads: the kernel's .maxntid allows {}", block.count(), most);
    }
    uint64_t shared = needs_of(config, launch).shared - kSharedReserved;
    if (shared > config.shared_per_block_optin)
        return fmt::format("{} bytes of shared memory: a block may have {}", shared, config.shared_per_block_optin);
    if (cluster.count() == 0 || cluster.count() > config.max_cluster)
        return fmt::format("cluster of {} CTAs: 1 to {} are possible ({} are portable)", cluster.count(),
                           config.max_cluster, kPortableCluster);
    if (entry.max_cluster_rank != 0 && cluster.count() > entry.max_cluster_rank)
        return fmt::format("cluster of {} CTAs: the kernel's .maxclusterrank is {}", cluster.count(),
                           entry.max_cluster_rank);
    if (grid.x % cluster.x || grid.y % cluster.y || grid.z % cluster.z)
        return fmt::format("grid {}x{}x{} is not a multiple of the cluster {}x{}x{}", grid.x, grid.y, grid.z, cluster.x,
                           cluster.y, cluster.z);
    if (entry.required_cluster[0] != 0 &&
        (cluster.x != entry.required_cluster[0] || cluster.y != std::max(entry.required_cluster[1], 1u) ||
         cluster.z != std::max(entry.required_cluster[2], 1u)))
        return fmt::format("cluster {}x{}x{}: the kernel's .reqnctapercluster asks for {}x{}x{}", cluster.x, cluster.y,
                           cluster.z, entry.required_cluster[0], std::max(entry.required_cluster[1], 1u),
                           std::max(entry.required_cluster[2], 1u));
    if (launch.params.size() < entry.param_bytes)
        return fmt::format("{} bytes of parameters: the kernel takes {}", launch.params.size(), entry.param_bytes);
    return std::nullopt;
}

std::vector<uint32_t> gpc_sizes(const GpuConfig& config) {
    // Fits every cluster count that an H200 reports at one CTA an SM: 1:132 2:66 3:39 4:30 5:22 6:17 7:15 8:15 9:9
    // 10..16:7 (measured; the last eight SMs hold pairs only).
    if (config.sm == 90 && config.sms == 132) return {18, 18, 16, 16, 16, 16, 16, 8, 2, 2, 2, 2};
    constexpr uint32_t kGpcSms = 18;  // a B200 has GPCs of 16 to 20 SMs
    std::vector<uint32_t> sizes;
    for (uint32_t left = config.sms; left > 0; left -= sizes.back()) sizes.push_back(std::min(left, kGpcSms));
    return sizes;
}

void Residency::Sm::take(const CtaNeeds& needs) {
    threads -= needs.threads;
    registers -= needs.registers;
    shared -= needs.shared;
    --ctas;
}

Residency::Residency(const GpuConfig& config)
    : sms_(config.sms, Sm{config.threads_per_sm, config.registers_per_sm, config.ctas_per_sm, config.shared_per_sm}),
      gpcs_(gpc_sizes(config)) {}

std::vector<uint32_t> Residency::take(const CtaNeeds& needs, uint32_t ctas) {
    std::vector<uint32_t> best;
    uint32_t best_load = ~0u;
    uint32_t first = 0;
    for (uint32_t size : gpcs_) {
        // The least loaded SMs first, one CTA each in turn, as hardware spreads them.
        std::vector<Sm> trial(sms_.begin() + first, sms_.begin() + first + size);
        std::vector<uint32_t> places;
        uint32_t load = 0;
        while (places.size() < ctas) {
            auto most_free = std::max_element(trial.begin(), trial.end(), [&](const Sm& a, const Sm& b) {
                return (a.holds(needs) ? a.threads + 1 : 0) < (b.holds(needs) ? b.threads + 1 : 0);
            });
            if (!most_free->holds(needs)) break;
            load = std::max(load, ~most_free->threads);  // grows as free threads shrink
            most_free->take(needs);
            places.push_back(first + static_cast<uint32_t>(most_free - trial.begin()));
        }
        if (places.size() == ctas && (best.empty() || load < best_load)) {
            best = std::move(places);
            best_load = load;
        }
        first += size;
    }
    for (uint32_t sm : best) sms_[sm].take(needs);
    return best;
}

void Residency::give_back(uint32_t sm, const CtaNeeds& needs) {
    sms_[sm].threads += needs.threads;
    sms_[sm].registers += needs.registers;
    sms_[sm].shared += needs.shared;
    ++sms_[sm].ctas;
}

uint32_t max_active_clusters(const GpuConfig& config, const GridLaunch& launch) {
    if (launch_refusal(config, launch)) return 0;
    Residency residency(config);
    CtaNeeds needs = needs_of(config, launch);
    uint32_t clusters = 0;
    while (!residency.take(needs, static_cast<uint32_t>(launch.cluster.count())).empty()) ++clusters;
    return clusters;
}

}  // namespace nvfp4r::sim
