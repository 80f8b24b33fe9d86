// Programs against silicon: what the simulator of an sm_90a gives is what an H200 gave, bit for bit, and approximate
// functions agree within their bounds. tests/data/h200/outputs.txt holds what it gave; tests/data/h200/README.md says how.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <optional>

#include "silicon/runner.hpp"
#include "sim/driver/sim_driver.hpp"

namespace nvfp4r::silicon {

namespace {

constexpr const char* kStored = "tests/data/h200/outputs.txt";

const StoredFile& stored_outputs() {
    static const StoredFile file = read_stored(kStored);
    return file;
}

/// The simulated driver playing one H200 for as long as it lives.
class SimulatedH200 {
  public:
    explicit SimulatedH200(sim::Policy policy = sim::Policy::round_robin) {
        sim::GpuConfig config = sim::GpuConfig::for_sm(90);
        config.policy = policy;
        sim::driver::restart_driver({config});
        runner_.emplace(sim_driver());
    }
    ~SimulatedH200() {
        runner_.reset();
        sim::driver::restart_driver({sim::GpuConfig::for_sm(100)});
    }
    Runner& runner() { return *runner_; }

  private:
    std::optional<Runner> runner_;
};

void compare_all(Runner& runner) {
    size_t values = 0;
    for (const Program& program : all_programs()) {
        INFO(program.name);
        const auto stored = stored_outputs().programs.find(program.name);
        REQUIRE(stored != stored_outputs().programs.end());
        const Comparison comparison = compare(program, stored->second, runner.run(program));
        CHECK(comparison.first == "");
        values += comparison.values;
    }
    CAPTURE(stored_outputs().machine, all_programs().size(), values);
    CHECK(values > 0);
}

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
}

}  // namespace

TEST_CASE("the simulator gives what the H200 gave", "[silicon]") {
    SimulatedH200 h200;
    compare_all(h200.runner());
}

TEST_CASE("the simulator gives what the H200 gave under every policy", "[silicon][.long]") {
    for (const sim::Policy policy :
         {sim::Policy::eager, sim::Policy::late, sim::Policy::random, sim::Policy::hold_warp, sim::Policy::hold_cta}) {
        CAPTURE(static_cast<int>(policy));
        SimulatedH200 h200(policy);
        compare_all(h200.runner());
    }
}

TEST_CASE("every stored output belongs to a program", "[silicon]") {
    REQUIRE(stored_outputs().programs.size() == all_programs().size());
    for (const Program& program : all_programs()) {
        INFO(program.name);
        const auto stored = stored_outputs().programs.find(program.name);
        REQUIRE(stored != stored_outputs().programs.end());
        CHECK(stored->second.key == program_key(program));
    }
}

TEST_CASE("a difference of one bit, or beyond the bound, is noticed and located", "[silicon]") {
    Program program;
    program.name = "made up";
    Outputs outputs = {std::vector<uint8_t>(3 * kBlockBytes, 1)};
    const StoredProgram stored = store(program, outputs);
    CHECK(compare(program, stored, outputs).differing == 0);
    outputs[0][kBlockBytes + 5] ^= 0x10;
    CHECK(compare(program, stored, outputs).differing == 1);
    CHECK(compare(program, stored, outputs).first.find("byte 0x1000") != std::string::npos);

    Program approximate = program;
    approximate.agreement = {.exact = false, .ulps = 2};
    const Outputs one = {{0x00, 0x00, 0x80, 0x3f}}, two_ulps = {{0x02, 0x00, 0x80, 0x3f}},
                  three_ulps = {{0x03, 0x00, 0x80, 0x3f}}, infinite = {{0x00, 0x00, 0x80, 0x7f}},
                  largest = {{0xff, 0xff, 0x7f, 0x7f}};
    CHECK(compare(approximate, store(approximate, one), two_ulps).differing == 0);
    CHECK(compare(approximate, store(approximate, one), three_ulps).differing == 1);
    CHECK(compare(approximate, store(approximate, largest), infinite).differing == 1);

    Program changed = program;
    changed.ptx = "other";
    CHECK_THROWS(compare(changed, stored, outputs));
}

// NVFP4R_RECORD=FILE on a machine with a GPU: writes what it gives. Compare and then replace the stored file.
TEST_CASE("record what this GPU gives", "[.record]") {
    const std::string path = environment("NVFP4R_RECORD");
    REQUIRE(!path.empty());
    Runner runner(cuda_driver());
    StoredFile file;
    file.machine = runner.machine();
    for (const Program& program : all_programs()) {
        INFO(program.name);
        file.programs[program.name] = store(program, runner.run(program));
    }
    write_stored(path, file);
    CHECK(read_stored(path).programs.size() == all_programs().size());
}

}  // namespace nvfp4r::silicon
