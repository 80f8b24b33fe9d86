// `plan`: which kernel a problem gets on a GPU, why, and what no kernel could beat.
#include <fmt/format.h>

#include "cli/command.hpp"
#include "cli/planned_problem.hpp"
#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "plan/floors.hpp"

namespace nvfp4r::cli {
namespace {

constexpr const char* kPlanFooter =
    "Settings come from --preset and flags; no checkpoint and no GPU is needed. The estimate for Blackwell is a "
    "formula,\n"
    "not a measurement. Floors: the gate, the tokens and the outputs once through memory at its nominal bandwidth, "
    "the\n"
    "products at the tensor cores' dense rate, and an empty kernel in a graph.\n"
    "Example: nvfp4-router plan --preset deepseek-v4-pro --precision nvfp4 --gpu b200 --tokens 64";

constexpr Column kBytes[] = {{"first", "BYTE"}, {"size", "SIZE"}, {"what", "SHARED MEMORY"}};
constexpr Column kPlanColumns[] = {{"first", "COLUMN"}, {"size", "SIZE"}, {"what", "TENSOR MEMORY"}};
constexpr double kNsPerUs = 1000;

Json floors_json(const PlannedProblem& problem) {
    const Floors f = floors_of(problem.plan.kernel, problem.tokens, *problem.gpu);
    return {{"gate_bytes", f.gate_bytes},          {"token_bytes", f.token_bytes},
            {"output_bytes", f.output_bytes},      {"flops", f.flops},
            {"bytes_us", f.bytes_ns / kNsPerUs},   {"flops_us", f.flops_ns / kNsPerUs},
            {"launch_us", f.launch_ns / kNsPerUs}, {"total_us", f.total_ns() / kNsPerUs}};
}

void print_plan(const Json& plan) {
    const Json &settings = plan["settings"], &launch = plan["launch"], &floors = plan["floors"];
    fmt::print("{}\n", bold(fmt::format("{} ({}): {} experts x {}, top {}, {} with {} tokens, M = {}",
                                        plan["gpu"].get<std::string>(), plan["arch"].get<std::string>(),
                                        settings["experts"].get<int>(), settings["hidden_size"].get<int>(),
                                        settings["top_k"].get<int>(), settings["precision"].get<std::string>(),
                                        plan["token_type"].get<std::string>(), plan["tokens"].get<int64_t>())));
    fmt::print("{}, for M {} to {}\n", plan["source"].get<std::string>(), launch["tokens_from"].get<int64_t>(),
               launch["tokens_to"].get<int64_t>());
    for (const Json& reason : plan["reasons"]) fmt::print("  {}\n", reason.get<std::string>());
    fmt::print("launches {}: grid {} x {}, {} threads, {} bytes of shared memory, {}\n\n",
               launch["launches"].get<int64_t>(), launch["grid_x"].get<int64_t>(), launch["grid_y"].get<int64_t>(),
               launch["threads"].get<int>(), launch["dynamic_shared_bytes"].get<int>(),
               launch["cluster"] == 1 ? std::string("no cluster")
                                      : fmt::format("clusters of {}", launch["cluster"].get<int>()));
    fmt::print("{}\n", table_text(plan["shared_memory"], kBytes));
    if (!plan["tensor_memory"].empty()) fmt::print("{}\n", table_text(plan["tensor_memory"], kPlanColumns));
    fmt::print("{}\n", bold("FLOORS"));
    fmt::print("bytes   {:8.2f} us  (gate {}, tokens {}, outputs {})\n", floors["bytes_us"].get<double>(),
               floors["gate_bytes"].get<uint64_t>(), floors["token_bytes"].get<uint64_t>(),
               floors["output_bytes"].get<uint64_t>());
    fmt::print("flops   {:8.2f} us  ({:.4g})\n", floors["flops_us"].get<double>(), floors["flops"].get<double>());
    fmt::print("launch  {:8.2f} us\n", floors["launch_us"].get<double>());
    fmt::print("all     {:8.2f} us\n", floors["total_us"].get<double>());
}

}  // namespace

Command plan_command(CommandLine& root) {
    const Arguments app = root.subcommand("plan", "The kernel a problem gets on a GPU: tile, memory, reasons, floors");
    app.footer(kPlanFooter);
    const auto o = std::make_shared<ProblemOptions>();
    const auto json = std::make_shared<bool>(false);
    o->add_to(app, "--gpu");
    app.flag("--json", *json, "Print JSON");
    return {app, [o, json] {
                const PlannedProblem problem = o->resolve();
                Json plan = plan_json(problem);
                plan["floors"] = floors_json(problem);
                plan["estimate_us"] = problem.plan.estimate_ns > 0 ? Json(problem.plan.estimate_ns / kNsPerUs) : Json();
                if (*json)
                    print_json(plan);
                else
                    print_plan(plan);
                return static_cast<int>(kOk);
            }};
}

}  // namespace nvfp4r::cli
