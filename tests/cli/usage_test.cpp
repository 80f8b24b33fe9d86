// Usage, help, exit codes and refusals: what the command line says before it routes anything.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "process.hpp"

using namespace nvfp4r::test;

TEST_CASE("every subcommand has a help with an example", "[cli]") {
    for (const char* name :
         {"sample", "show", "pack", "route", "plan", "emit", "trace", "bench", "presets", "doctor"}) {
        INFO(name);
        const CliResult result = run_cli({name, "--help"});
        CHECK(result.exit_code == 0);
        CHECK(result.out.find(std::string("Example: nvfp4-router ") + name) != std::string::npos);
        CHECK(result.err.empty());
    }
    const CliResult result = run_cli({"--help"});
    CHECK(result.exit_code == 0);
    CHECK(result.out.find("Exit codes: 0") != std::string::npos);
}

TEST_CASE("wrong usage exits with 2 and prints nothing on stdout", "[cli]") {
    const std::vector<std::vector<std::string>> wrong = {
        {},
        {"no-such-command"},
        {"route"},
        {"route", "somewhere", "--layer", "x", "--hidden", "h.npy"},
        {"route", "somewhere", "--layer", "0", "--hidden", "h.npy", "--device", "abacus"},
        {"route", "somewhere", "--layer", "0", "--hidden", "h.npy", "--out", "result.txt"},
        {"pack", "somewhere", "--layer", "most", "--precision", "nvfp4", "--out", "f.safetensors"},
        {"pack", "somewhere", "--layer", "0", "--precision", "bf16", "--out", "f.safetensors"},
        {"sample", "--preset", "no-such-model", "--out", "/dev/null/folder"},
    };
    for (const auto& arguments : wrong) {
        INFO(nlohmann::json(arguments).dump());
        const CliResult result = run_cli(arguments);
        CHECK(result.exit_code == 2);
        CHECK(result.out.empty());
        CHECK_FALSE(result.err.empty());
    }
}

TEST_CASE("an unknown preset is refused with the known ones", "[cli]") {
    const CliResult result = run_cli({"sample", "--preset", "deepseek-v5", "--out", "/tmp/never-written"});
    CHECK(result.err.find("deepseek-v5") != std::string::npos);
    CHECK(result.err.find("deepseek-v4-pro") != std::string::npos);
}

TEST_CASE("files that cannot be used exit with 3 and name the file", "[cli]") {
    const TemporaryFolder folder;
    const std::string broken = folder / "broken.safetensors";
    std::ofstream(broken) << "not a safetensors file";
    for (const std::string& path : {folder / "absent", broken}) {
        const CliResult result = run_cli({"show", path});
        CHECK(result.exit_code == 3);
        CHECK(result.out.empty());
        CHECK(result.err.find(path) != std::string::npos);
    }
}

TEST_CASE("presets lists the models of the contract", "[cli]") {
    const CliResult result = run_cli({"presets", "--json"});
    REQUIRE(result.exit_code == 0);
    const nlohmann::json presets = result.json().at("presets");
    const auto find = [&](const char* name) {
        for (const nlohmann::json& preset : presets)
            if (preset.at("name") == name) return preset;
        return nlohmann::json();
    };
    // Rows of the contract's section 6.
    CHECK(presets.size() == 25);
    const nlohmann::json v4 = find("deepseek-v4-pro");
    CHECK(v4.at("hidden_size") == 7168);
    CHECK(v4.at("experts") == 384);
    CHECK(v4.at("top_k") == 6);
    CHECK(v4.at("score") == "sqrtsoftplus");
    CHECK(v4.at("routed_scaling") == 2.5);
    CHECK(v4.at("hash_layers") == 3);
    CHECK(find("deepseek-v3").at("groups") == "8 (keep 4)");
    CHECK(find("gpt-oss-120b").at("weighting") == "softmax-after");

    const CliResult table = run_cli({"presets"});
    CHECK(table.exit_code == 0);
    CHECK(table.out.find("\033[") == std::string::npos);
    for (const nlohmann::json& preset : presets)
        CHECK(table.out.find(preset.at("name").get<std::string>()) != std::string::npos);
}

TEST_CASE("C52 doctor says why there is no driver, and the CPU is used, on the command line", "[cli]") {
    const CliResult result = run_cli({"doctor", "--json"}, {"NVFP4R_LIBCUDA=/nowhere/libcuda.so.1"});
    CHECK(result.exit_code == 0);
    const nlohmann::json report = result.json().at("doctor");
    const auto line = [&](const char* part) {
        for (const nlohmann::json& entry : report)
            if (entry.at("part") == part) return entry;
        return nlohmann::json();
    };
    CHECK(line("driver").at("state") == "no");
    CHECK(line("driver").at("detail").get<std::string>().find("/nowhere/libcuda.so.1") != std::string::npos);
    CHECK(line("--device cuda").at("state") == "no");
    CHECK(line("--device cpu").at("state") == "ok");
    CHECK(line("--device auto").at("state") == "ok");
    CHECK(line("--device auto").at("detail").get<std::string>().find("cpu") != std::string::npos);
}

TEST_CASE("doctor says why there is no NVRTC", "[cli]") {
    const CliResult result = run_cli({"doctor", "--json"}, {"NVFP4R_LIBNVRTC=/nowhere/libnvrtc.so"});
    for (const nlohmann::json& entry : result.json().at("doctor")) {
        if (entry.at("part") != "NVRTC") continue;
        CHECK(entry.at("state") == "no");
        CHECK(entry.at("detail").get<std::string>().find("/nowhere/libnvrtc.so") != std::string::npos);
    }
}

TEST_CASE("C44 C52 an old driver, a machine without a GPU and a missing compiler each have a message of their own",
          "[cli]") {
    const std::string driver =
        (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libcuda_sim.so").string();
    const TemporaryFolder cache;
    const auto bench = [&](const std::string& name, const std::string& value) {
        return run_cli({"bench", "--device", "cuda", "--check-only", "--experts", "16", "--hidden-size", "256",
                        "--top-k", "2", "--score", "sigmoid", "--precision", "nvfp4-w", "--tokens", "2"},
                       {"NVFP4R_LIBCUDA=" + driver, "NVFP4R_SIM_ARCH=90a", "NVFP4R_CACHE_DIR=" + cache.path().string(),
                        name + "=" + value});
    };
    struct Fault {
        const char *name, *value, *text, *remedy;
    };
    for (const Fault& fault :
         {Fault{"NVFP4R_SIM_DRIVER_VERSION", "11080", "supports CUDA 11.8; 12.0", "update the NVIDIA driver"},
          Fault{"NVFP4R_SIM_DEVICES", "0", "CUDA_ERROR_NO_DEVICE", "check nvidia-smi and CUDA_VISIBLE_DEVICES"},
          Fault{"NVFP4R_LIBNVRTC", "/nowhere/libnvrtc.so", "/nowhere/libnvrtc.so", "install"},
          Fault{"NVFP4R_SIM_ARCH", "75", "NVFP4R_SIM_ARCH=75", "90a"}}) {
        const CliResult result = bench(fault.name, fault.value);
        INFO(result.err);
        CHECK(result.exit_code == 4);
        CHECK(result.err.find(fault.text) != std::string::npos);
        CHECK(result.err.find(fault.remedy) != std::string::npos);
    }
    const CliResult right = bench("NVFP4R_SIM_SEED", "3");
    INFO(right.err);
    CHECK(right.exit_code == 0);
}
