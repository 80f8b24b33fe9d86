// `route`: tokens through one layer's gate.
#include <chrono>
#include <cmath>
#include <filesystem>

#include "cli/capi.hpp"
#include "cli/check.hpp"
#include "cli/command.hpp"
#include "cli/layer_options.hpp"
#include "cli/names.hpp"
#include "cli/route_call.hpp"
#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "cli/tile_options.hpp"
#include "core/atomic_file.hpp"
#include "format/npy.hpp"
#include "format/safetensors.hpp"

namespace nvfp4r::cli {
namespace {

constexpr const char* kRouteFooter =
    "PATH is a safetensors file, an index file, or a folder with either. Settings come from config.json beside it, "
    "overridden by\n"
    "--preset, overridden by a flag for each one.\n"
    "Example: nvfp4-router route sample --layer 3 --hidden sample/hidden.safetensors --precision nvfp4x2 --check\n"
    "\n"
    "--check computes every row again in double precision, straight from the dequantised gate, and compares ids and "
    "weights.\n"
    "Another choice of experts passes only where their scores lie within what rounding a logit to fp32 (on a GPU: "
    "adding it up\n"
    "in fp32) can move. Exit code 1 when a row is wrong.";

constexpr Column kRouteColumns[] = {{"token", "TOKEN"}, {"experts", "EXPERTS"}, {"weights", "WEIGHTS"}};

struct RouteOptions {
    std::string device = "auto", cpu_arithmetic = "exact", out;
    uint32_t top = 8;
    bool check = false, json = false;
    nvfp4r_router_options router = NVFP4R_ROUTER_OPTIONS_INIT;
    LayerOptions layer;
    CallOptions call;
};

Json rows_json(const RouteCall& routed, int64_t count) {
    Json rows = Json::array();
    for (int64_t m = 0; m < std::min(count, routed.call.tokens); ++m) {
        Json ids = Json::array(), weights = Json::array();
        for (size_t i = 0; i < routed.width; ++i) {
            ids.push_back(routed.ids[static_cast<size_t>(m) * routed.width + i]);
            weights.push_back(routed.weights[static_cast<size_t>(m) * routed.width + i]);
        }
        rows.push_back({{"token", m}, {"experts", std::move(ids)}, {"weights", std::move(weights)}});
    }
    return rows;
}

/// The rows with their numbers in columns of equal width.
std::string rows_text(Json rows) {
    for (Json& row : rows) {
        std::string ids, weights;
        for (const Json& id : row["experts"]) ids += fmt::format("{:>4} ", id.get<int>());
        for (const Json& weight : row["weights"]) weights += fmt::format("{:.4f} ", weight.get<double>());
        row["experts"] = ids;
        row["weights"] = weights;
    }
    return table_text(rows, kRouteColumns);
}

void write_out(const std::string& file, const RouteCall& routed, const Json& result) {
    const std::string kind = std::filesystem::path(file).extension().string();
    const std::vector<Tensor> tensors = routed.tensors();
    if (kind == ".safetensors") return write_safetensors(file, tensors);
    if (kind == ".npz") return write_npz(file, tensors);
    Json whole = result;
    whole["rows"] = rows_json(routed, routed.call.tokens);
    write_file(file, whole.dump(2) + "\n");
}

void print_result(const Json& result, const CheckReport* report) {
    fmt::print("{}", rows_text(result["rows"]));
    const int64_t more = result["tokens"].get<int64_t>() - static_cast<int64_t>(result["rows"].size());
    if (more > 0) fmt::print("... and {} more\n", more);
    fmt::print("\ndevice  {}\n", result["device"].get<std::string>());
    fmt::print("time    {:.3f} ms for {} tokens\n", result["time_ms"].get<double>(), result["tokens"].get<int64_t>());
    if (!report) return;
    if (report->ok())
        fmt::print(
            "check   {}: {} rows against sums in double, {} of them decided within the margin; weights differ by at "
            "most "
            "{:.1e}\n",
            green("ok"), report->rows, report->rows_by_margin, report->worst_weight);
    else
        fmt::print("check   {}: {} of {} rows are wrong; first: {}\n", red("FAILED"), report->rows_wrong, report->rows,
                   report->first_wrong);
}

int run_route(RouteOptions& o) {
    const OpenedLayer layer = o.layer.open();
    const Gate& gate = layer.gate;
    const nvfp4r_settings& settings = layer.settings;
    o.router.device = static_cast<nvfp4r_device>(value_of(kDevices, o.device));
    o.router.cpu_arithmetic = static_cast<nvfp4r_cpu_arithmetic>(value_of(kCpuArithmetics, o.cpu_arithmetic));
    const RouterHandle router = open_router(layer.handle.get(), settings, o.router);
    const std::string device = nvfp4r_router_description(router.get());

    RouteCall routed(o.call, gate, settings);
    must(nvfp4r_router_prepare(router.get(), routed.call.tokens));
    const auto start = std::chrono::steady_clock::now();
    must(nvfp4r_route(router.get(), &routed.call));
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    if (routed.error_flag & NVFP4R_FLAG_BAD_TABLE_ID)
        print_notice("a token id or an id of the hash table is out of range: its place has id -1 and weight 0");
    if (routed.error_flag & NVFP4R_FLAG_BAD_FORCED_ID)
        print_notice("a forced id is out of range: its place has id -1 and weight 0");

    Json result = {{"path", o.layer.path},         {"layer", gate.layer},
                   {"tensor", gate.tensor},        {"device", device},
                   {"tokens", routed.call.tokens}, {"settings", settings_json(settings)},
                   {"time_ms", time.count()},      {"error_flag", routed.error_flag}};
    std::optional<CheckReport> report;
    if (o.check) {
        const bool exact_sums = device.starts_with("cpu") && o.router.cpu_arithmetic == NVFP4R_CPU_EXACT;
        report = check_routing(gate, settings, routed.call, exact_sums, o.router.threads);
        result["check"] = report->ok() ? "ok" : "failed";
        result["check_details"] = report->json();
    }
    result["rows"] = rows_json(routed, o.top);
    if (!o.out.empty() && (!report || report->ok())) write_out(o.out, routed, result);
    if (o.json)
        print_json(result);
    else
        print_result(result, report ? &*report : nullptr);
    return !report || report->ok() ? kOk : kCheckFailed;
}

}  // namespace

Command route_command(CommandLine& root) {
    const Arguments app = root.subcommand("route", "Route tokens through one layer: experts and weights");
    app.footer(kRouteFooter);
    const auto o = std::make_shared<RouteOptions>();
    o->layer.add_to(app);
    app.option("--device", o->device, "Where to run; auto: a GPU that a kernel fits, else the CPU")
        .one_of(names_of(kDevices))
        .show_default();
    app.option("--ordinal", o->router.ordinal, "Which GPU").show_default();
    app.option("--threads", o->router.threads, "CPU threads; 0: one per core").show_default();
    app.option("--cpu-arithmetic", o->cpu_arithmetic, "Sums in double, or rounded as Blackwell's tensor cores round")
        .one_of(names_of(kCpuArithmetics))
        .show_default();
    add_tile_options(app, o->router);
    app.flag("--sync", o->router.synchronise, "Wait after every launch and report its fault at once");
    app.option("--top", o->top, "Rows printed").show_default();
    app.flag("--check", o->check, "Compare with an independent computation");
    app.option("--out", o->out, "Write every row to FILE.safetensors, .npz or .json")
        .check(
            [](std::string& file) {
                const std::string kind = std::filesystem::path(file).extension().string();
                return kind == ".safetensors" || kind == ".npz" || kind == ".json"
                           ? std::string()
                           : "FILE must end in .safetensors, .npz or .json";
            },
            "FILE");
    app.flag("--json", o->json, "Print JSON, with the settings used");
    o->call.add_to(app);
    return {app, [o] { return run_route(*o); }};
}

}  // namespace nvfp4r::cli
