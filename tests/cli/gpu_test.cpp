// plan, emit, trace and route on the simulated GPU, which need no device.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "process.hpp"

using namespace nvfp4r::test;

namespace {

std::vector<std::string> joined(std::vector<std::string> arguments, const std::vector<std::string>& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
}

/// Settings of a problem small enough for the simulator.
const std::vector<std::string> kSmallProblem = {"--experts", "16", "--hidden-size", "256",
                                                "--top-k",   "2",  "--score",       "sigmoid"};

std::string text_of(const std::string& file) {
    std::ostringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    return text.str();
}

}  // namespace

TEST_CASE("plan needs neither checkpoint nor GPU", "[cli]") {
    for (const char* gpu : {"h200", "100a", "b300", "thor"})
        for (const char* tokens : {"1", "64", "8192"}) {
            INFO(gpu << ", " << tokens);
            const CliResult result = run_cli({"plan", "--preset", "deepseek-v4-pro", "--precision", "nvfp4", "--gpu",
                                              gpu, "--tokens", tokens, "--json"});
            INFO(result.err);
            REQUIRE(result.exit_code == 0);
            const nlohmann::json plan = result.json();
            const bool hopper = plan.at("arch") == "sm_90a";
            CHECK(plan.at("tensor_memory").empty() == hopper);
            CHECK(plan.at("estimate_us").is_null() == hopper);
            CHECK(plan.at("floors").at("gate_bytes") == 384 * 7168 * 9 / 16);
            CHECK(plan.at("launch").at("tokens_to") >= std::stoi(tokens));
            CHECK(plan.at("launch").at("dynamic_shared_bytes") <= 227 * 1024);
        }
}

TEST_CASE("plan says that the figures for Blackwell are an estimate", "[cli]") {
    const CliResult result = run_cli({"plan", "--preset", "olmoe", "--precision", "nvfp4", "--gpu", "b200"});
    REQUIRE(result.exit_code == 0);
    CHECK(result.out.find("an estimate; no such GPU was measured") != std::string::npos);
    CHECK(result.out.find("TENSOR MEMORY") != std::string::npos);
}

TEST_CASE("tile shapes asked for are kept, and refused with the limit", "[cli]") {
    const auto plan = [](const std::vector<std::string>& more) {
        return run_cli(
            joined({"plan", "--preset", "deepseek-v4-pro", "--precision", "nvfp4", "--gpu", "b200", "--json"}, more));
    };
    const CliResult kept = plan({"--tokens-per-tile", "16", "--k-split", "4", "--stages", "3", "--k-tile", "512"});
    INFO(kept.err);
    REQUIRE(kept.exit_code == 0);
    const nlohmann::json tile = kept.json().at("tile");
    CHECK(tile.at("tokens") == 16);
    CHECK(tile.at("k_split") == 4);
    CHECK(tile.at("stages") == 3);
    CHECK(tile.at("k_tile") == 512);

    const std::vector<std::pair<std::vector<std::string>, const char*>> refused = {
        {{"--tokens-per-tile", "12"}, "multiple of 8"},
        {{"--k-split", "33"}, "at most"},
        {{"--k-tile", "96"}, "a multiple of 256 up to 1024"},
        {{"--k-tile", "1280"}, "a multiple of 256 up to 1024"},
        {{"--k-tile", "1024", "--stages", "8"}, "512 tensor memory columns"},
        {{"--stages", "9"}, "at most"},
    };
    for (const auto& [flags, limit] : refused) {
        const CliResult result = plan(flags);
        INFO(result.err);
        CHECK(result.exit_code == 2);
        CHECK(result.out.empty());
        CHECK(result.err.find(limit) != std::string::npos);
    }
}

TEST_CASE("plan and emit refuse what is missing or unknown", "[cli]") {
    CHECK(run_cli({"plan", "--gpu", "b200"}).exit_code == 2);
    CHECK(run_cli(joined({"plan", "--gpu", "abacus"}, kSmallProblem)).exit_code == 2);
    CHECK(run_cli(joined({"plan", "--gpu", "b200", "--precision", "rescore"}, kSmallProblem)).exit_code == 4);
    CHECK(run_cli(joined({"emit", "--arch", "100a", "--out", "/dev/null/x"}, kSmallProblem)).exit_code == 2);
}

TEST_CASE("emit writes a kernel with the entry and the shared memory that its sheet states", "[cli]") {
    const TemporaryFolder folder;
    for (const char* arch : {"90a", "100a"}) {
        INFO(arch);
        const std::string file = folder / (std::string("router_") + arch + ".ptx");
        const CliResult result = run_cli(
            joined({"emit", "--ptx", "--arch", arch, "--precision", "nvfp4", "--out", file, "--json"}, kSmallProblem));
        INFO(result.err);
        REQUIRE(result.exit_code == 0);
        const nlohmann::json sheet = result.json();
        CHECK(nlohmann::json::parse(text_of(file + ".json")) == sheet);
        const std::string ptx = text_of(file);
        CHECK(ptx.find(".target sm_" + std::string(arch)) != std::string::npos);
        CHECK(ptx.find(".entry " + sheet.at("entry").get<std::string>() + "(") != std::string::npos);
        // The compiler's own view of the parameters: one array of bytes for each.
        for (const nlohmann::json& parameter : sheet.at("parameters"))
            CHECK(ptx.find(fmt::format("nvfp4_router_param_{}[{}]", parameter.at("index").get<int>(),
                                       parameter.at("bytes").get<int>())) != std::string::npos);
        CHECK(sheet.at("parameters").size() == (std::string(arch) == "90a" ? 1 : 3));
        CHECK(sheet.at("tickets").at("bytes") > 0);
    }
}

TEST_CASE("route runs the GPU kernels on the simulator, and trace shows one call", "[cli]") {
    const TemporaryFolder folder;
    const std::string model = folder / "model", hidden = folder / "model/hidden.safetensors";
    REQUIRE(run_cli({"sample", "--preset", "olmoe", "--tokens", "2", "--out", model}).exit_code == 0);
    const std::vector<std::string> layer = {model, "--layer", "0", "--hidden", hidden, "--precision", "nvfp4"};

    const CliResult routed = run_cli(joined({"route", "--device", "sim", "--check", "--json"}, layer));
    INFO(routed.err);
    REQUIRE(routed.exit_code == 0);
    CHECK(routed.json().at("check") == "ok");
    CHECK(routed.json().at("device").get<std::string>().find("router_sm100.cu") != std::string::npos);

    const std::string file = folder / "trace.json";
    const CliResult traced = run_cli(joined({"trace", "--out", file, "--tokens", "1", "--json"}, layer));
    INFO(traced.err);
    REQUIRE(traced.exit_code == 0);
    const nlohmann::json summary = traced.json();
    nlohmann::json counters;
    for (const nlohmann::json& entry : summary.at("counters"))
        counters[entry.at("counter").get<std::string>()] = entry.at("value");
    CHECK(counters.at("kernels") == 1);
    // 64 experts are one block of 128 rows; 2048 values of K are 32 steps of 64.
    CHECK(counters.at("tcgen05_mma") == 32);
    const nlohmann::json trace = nlohmann::json::parse(text_of(file));
    CHECK_FALSE(trace.empty());
}

TEST_CASE("bench checks before it times, rotates the gate, and says whose clock it read", "[cli]") {
    for (const char* arch : {"NVFP4R_SIM_ARCH=90a", "NVFP4R_SIM_ARCH=100a"}) {
        INFO(arch);
        const CliResult result =
            run_cli(joined({"bench", "--device", "sim", "--precision", "nvfp4", "--tokens", "1,9", "--calls", "3",
                            "--samples", "2", "--rotate-kb", "10", "--pdl", "--json"},
                           kSmallProblem),
                    {arch});
        INFO(result.err);
        // That the cold calls read the copies of the gate is checked by the command itself.
        REQUIRE(result.exit_code == 0);
        const nlohmann::json report = result.json();
        CHECK(report.at("clock").get<std::string>().find("simulated") != std::string::npos);
        CHECK(report.at("results").size() == 2);
        for (const nlohmann::json& row : report.at("results")) {
            CHECK(row.at("checked_rows") == row.at("tokens"));
            CHECK(row.at("copies") >= 2);
            CHECK(row.at("shared_bytes") > 0);
            for (const char* time : {"warm", "cold", "pdl_warm", "pdl_cold", "host"}) {
                INFO(time);
                CHECK(row.at(time).at("lowest_us") > 0.0);
                CHECK(row.at(time).at("lowest_us") <= row.at(time).at("median_us"));
                CHECK(row.at(time).at("median_us") <= row.at(time).at("highest_us"));
            }
        }
    }
    CHECK(run_cli(joined({"bench", "--device", "cpu"}, kSmallProblem)).exit_code == 2);
    const CliResult none = run_cli(joined({"bench", "--precision", "nvfp4", "--tokens", "1"}, kSmallProblem),
                                   {"NVFP4R_LIBCUDA=/nowhere/libcuda.so.1"});
    CHECK(none.exit_code == 4);
    CHECK(none.err.find("install the NVIDIA driver") != std::string::npos);
}

TEST_CASE("two processes share an empty kernel cache, and a later one finds their kernel", "[cli]") {
    const TemporaryFolder folder;
    const std::vector<std::string> environment = {"NVFP4R_CACHE_DIR=" + (folder / "cache"), "NVFP4R_SIM_ARCH=90a"};
    const std::vector<std::string> check =
        joined({"bench", "--device", "sim", "--check-only", "--precision", "nvfp4-w", "--tokens", "2"}, kSmallProblem);
    CliResult results[2];
    {
        std::vector<std::jthread> processes;
        for (CliResult& result : results) processes.emplace_back([&] { result = run_cli(check, environment); });
    }
    for (const CliResult& result : results) {
        INFO(result.err);
        CHECK(result.exit_code == 0);
    }
    std::vector<std::string> entries;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "cache"))
        entries.push_back(entry.path().filename().string());
    INFO(nlohmann::json(entries).dump());
    REQUIRE(entries.size() == 1);  // no temporary file is left
    CHECK(entries[0].ends_with(".kernel"));
    const auto written = std::filesystem::last_write_time(folder / ("cache/" + entries[0]));
    CHECK(run_cli(check, environment).exit_code == 0);
    CHECK(std::filesystem::last_write_time(folder / ("cache/" + entries[0])) == written);
}

TEST_CASE("a device that is not the first is used by its ordinal", "[cli]") {
    const std::vector<std::string> two = {"NVFP4R_SIM_DEVICES=2", "NVFP4R_SIM_ARCH=90a"};
    const auto bench = [&](const char* ordinal) {
        return run_cli(joined({"bench", "--device", "sim", "--check-only", "--precision", "nvfp4-w", "--tokens", "2",
                               "--ordinal", ordinal},
                              kSmallProblem),
                       two);
    };
    const CliResult second = bench("1");
    INFO(second.err);
    CHECK(second.exit_code == 0);
    const CliResult third = bench("2");
    CHECK(third.exit_code == 4);
    CHECK(third.err.find("has 2 devices") != std::string::npos);
}
