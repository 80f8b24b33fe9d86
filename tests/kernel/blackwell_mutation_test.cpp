// Every synchronising instruction of the compiled Blackwell kernel, taken out in turn: the checks tell its absence by name.
// The mutant takes the kernel's place in a cache folder, so that it runs through the real host path.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu_case.hpp"
#include "jit/disk_cache.hpp"
#include "sim/driver/sim_driver.hpp"

using namespace nvfp4r;
using namespace nvfp4r::test;

namespace {

constexpr uint64_t kSpinLimit = 200'000;

/// Taken out unnoticed, and kept nevertheless, because no run in the simulator can tell.
struct Survivor {
    const char *opcode, *why;
    uint32_t count;  // at most
};
constexpr Survivor kSurvivors[] = {
    // The first turn of the ring: nothing but the allocation came before, which is synchronous and ordered by the CTA
    // barrier. The manual's fence also orders tensor operations after the waits for the stage; that a thread issues
    // nothing before its wait returns is what hardware does and public kernels live by, so the simulator takes it so.
    {"tcgen05.fence::after_thread_sync", "the first turn of the ring", 1},
    // tcgen05.ld wants the whole warp at once (.aligned). Lanes that took different ways before are joined again by the
    // compiler's own barriers wherever paths meet, as in the simulator; PTX promises that only here.
    {"bar.warp.sync 0xffffffff", "joins the lanes before the accumulators are loaded", 1},
};

/// What stands for an instruction that is taken out: nothing, or for one with a result that it did not wait.
struct Synchronising {
    const char *opcode, *replacement;
};
constexpr Synchronising kSynchronising[] = {
    {"mbarrier.init", ""},
    {"mbarrier.arrive", ""},
    {"mbarrier.try_wait", "setp.eq.u32 done, 0, 0;"},
    {"fence.", ""},
    {"tcgen05.fence", ""},
    {"tcgen05.commit", ""},
    {"tcgen05.wait", ""},
    {"tcgen05.dealloc", ""},
    {"bar.sync", ""},
    {"bar.warp.sync", ""},
    {"bar.red.and.pred", "mov.pred out, in;"},
    {"barrier.cluster", ""},
};

/// A cache folder of its own for as long as it lives.
class CacheFolder {
  public:
    CacheFolder() {
        if (const char* value = std::getenv(kVariable)) before_ = value;
        std::string name = (std::filesystem::temp_directory_path() / "nvfp4r-mutants-XXXXXX").string();
        REQUIRE(mkdtemp(name.data()) != nullptr);
        path = name;
        setenv(kVariable, name.c_str(), 1);
    }
    ~CacheFolder() {
        before_ ? setenv(kVariable, before_->c_str(), 1) : unsetenv(kVariable);
        std::filesystem::remove_all(path);
    }
    CacheFolder(const CacheFolder&) = delete;
    CacheFolder& operator=(const CacheFolder&) = delete;

    /// Key of the only entry.
    std::string key() const {
        std::vector<std::string> keys;
        for (const auto& entry : std::filesystem::directory_iterator(path))
            keys.push_back(entry.path().stem().string());
        REQUIRE(keys.size() == 1);
        return keys.front();
    }

    std::filesystem::path path;

  private:
    static constexpr const char* kVariable = "NVFP4R_CACHE_DIR";
    std::optional<std::string> before_;
};

std::vector<sim::GpuConfig> schedules() {
    std::vector<sim::GpuConfig> all;
    for (uint64_t seed = 1; seed <= 2; ++seed)
        for (const sim::Policy policy : {sim::Policy::random, sim::Policy::late, sim::Policy::eager,
                                         sim::Policy::hold_warp, sim::Policy::hold_cta, sim::Policy::round_robin}) {
            sim::GpuConfig config = sim::GpuConfig::for_sm(100);
            config.policy = policy;
            config.seed = seed;
            config.spin_limit = kSpinLimit;
            all.push_back(config);
        }
    return all;
}

/// "" when the kernel in the cache runs clean and right under every schedule, else the name of what the simulator found, or
/// "wrong result".
std::string verdict(const GpuCase& c) {
    for (const sim::GpuConfig& config : schedules()) {
        sim::driver::restart_driver({config});
        if (run_plain_case(c).empty()) continue;
        const std::string report = sim::driver::last_report();
        const std::string_view opening = "kernel nvfp4_router: ";
        const size_t at = report.find(opening);
        if (at == std::string::npos) return report.empty() ? "wrong result" : report;
        const size_t name = at + opening.size();
        return report.substr(name, report.find(':', name) - name);
    }
    return "";
}

/// A line without the white space that it starts with.
std::string_view trimmed(std::string_view line) {
    const size_t from = line.find_first_not_of(" \t");
    return from == std::string_view::npos ? std::string_view() : line.substr(from);
}

struct Mutant {
    std::string instruction, ptx;
    size_t line;
};

std::vector<Mutant> mutants_of(const std::string& ptx) {
    std::vector<Mutant> mutants;
    size_t number = 1;
    for (size_t at = 0; at < ptx.size(); ++number) {
        const size_t end = std::min(ptx.find('\n', at), ptx.size());
        const std::string_view text = trimmed(std::string_view(ptx).substr(at, end - at));
        for (const Synchronising& s : kSynchronising)
            if (text.starts_with(s.opcode))
                mutants.push_back({std::string(text), ptx.substr(0, at) + s.replacement + ptx.substr(end), number});
        at = end + 1;
    }
    return mutants;
}

/// Problems whose kernels use every part: the ring and the selection's loop come round, K is shared out or not, amaxes are
/// found by clusters, NVFP4 tokens come by TMA.
struct Problem {
    const char* name;
    uint32_t experts, hidden, tile, split, stages;
    nvfp4r_dtype hidden_type;
    int64_t tokens;
};
constexpr Problem kProblems[] = {
    {"joined", 256, 1024, 8, 2, 1, NVFP4R_BF16, 17},
    {"one CTA a tile", 128, 1024, 16, 1, 1, NVFP4R_BF16, 17},
    {"clusters", 128, 2048, 32, 4, 1, NVFP4R_F32, 33},
    {"NVFP4 tokens", 128, 1024, 8, 2, 1, NVFP4R_E2M1, 17},
};

GpuCase case_of(const Problem& p) {
    GpuCase c = gpu_case(p.experts, p.hidden, 6, NVFP4R_SCORE_SQRTSOFTPLUS, NVFP4R_PRECISION_NVFP4);
    c.options.device = NVFP4R_DEVICE_SIM;
    c.options.tokens_per_tile = p.tile;
    c.options.k_split = p.split;
    c.options.stages = p.stages;
    c.hidden_type = p.hidden_type;
    c.tokens = p.tokens;
    return c;
}

}  // namespace

TEST_CASE("no synchronising instruction of the Blackwell kernel goes missing unnoticed", "[kernel][sim][.long]") {
    const Problem& problem = kProblems[GENERATE(range(size_t{0}, std::size(kProblems)))];
    INFO(problem.name);
    const GpuCase c = case_of(problem);
    const CacheFolder folder;
    REQUIRE(verdict(c) == "");
    const std::string key = folder.key();
    const DiskCache cache(folder.path);
    const CompiledKernel right = *cache.load(key);
    const std::vector<Mutant> mutants = mutants_of(right.ptx);
    REQUIRE(mutants.size() > 20);
    std::map<std::string, uint32_t> told;
    std::vector<std::string> unexpected;
    std::map<std::string, uint32_t> survived;  // by opcode of kSurvivors
    for (const Mutant& mutant : mutants) {
        CompiledKernel kernel = right;
        kernel.ptx = mutant.ptx;
        REQUIRE(cache.store(key, kernel) == "");
        const std::string name = verdict(c);
        ++told[name.empty() ? "survived" : name];
        if (!name.empty()) continue;
        const std::string line = fmt::format("line {}: {}", mutant.line, mutant.instruction);
        const auto known = std::find_if(std::begin(kSurvivors), std::end(kSurvivors), [&](const Survivor& s) {
            return mutant.instruction.starts_with(s.opcode) && ++survived[s.opcode] <= s.count;
        });
        if (known == std::end(kSurvivors)) unexpected.push_back(line);
        UNSCOPED_INFO(line << (known == std::end(kSurvivors) ? "" : std::string(" (") + known->why + ")"));
    }
    for (const auto& [name, count] : told) UNSCOPED_INFO(count << " " << name);
    CHECK(unexpected == std::vector<std::string>{});
}
