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

/// Taken out unnoticed, and kept nevertheless: the manual asks for them, or hardware does where the simulator need not.
struct Survivor {
    const char *opcode, *why;
    uint32_t count;  // at most
};
constexpr Survivor kSurvivors[] = {
    {"tcgen05.fence::before_thread_sync", "around the allocation, which the checks take as ordered by the barrier", 1},
    {"tcgen05.fence::after_thread_sync", "the same; the first turn of the ring; before the last warp frees", 3},
    {"bar.warp.sync 0xffffffff", "the simulator joins a warp's lanes again without it, hardware need not", 1},
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

/// A problem whose kernel uses every part: the ring and the selection's loop come round, K is shared out or not.
GpuCase problem(bool joined) {
    GpuCase c = gpu_case(joined ? 256 : 128, 1024, 6, NVFP4R_SCORE_SQRTSOFTPLUS, NVFP4R_PRECISION_NVFP4);
    c.options.device = NVFP4R_DEVICE_SIM;
    c.options.tokens_per_tile = joined ? 8 : 16;
    c.options.k_split = joined ? 2 : 1;
    c.options.stages = 1;
    c.tokens = 17;
    return c;
}

}  // namespace

TEST_CASE("no synchronising instruction of the Blackwell kernel goes missing unnoticed", "[kernel][sim][.long]") {
    const GpuCase c = problem(GENERATE(true, false));
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
