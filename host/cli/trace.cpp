// `trace`: one call on the simulated GPU, as a timeline and as counters.
#include <fmt/format.h>

#include <filesystem>

#include "cli/command.hpp"
#include "cli/layer_options.hpp"
#include "cli/route_call.hpp"
#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "cli/tile_options.hpp"
#include "sim/driver/sim_driver.hpp"

namespace nvfp4r::cli {
namespace {

constexpr const char* kTraceFooter =
    "FILE is in the Chrome trace format, for chrome://tracing or ui.perfetto.dev: a process for each CTA, a track for "
    "each\n"
    "warp and each engine, arrows from the issue of an asynchronous operation to its end. A microsecond there is a\n"
    "simulated cycle; cycles follow a cost model and predict no hardware. NVFP4R_SIM_ARCH and its companions choose "
    "the\n"
    "GPU.\n"
    "Example: nvfp4-router trace sample --layer 3 --hidden sample/hidden.safetensors --tokens 1 --precision nvfp4 "
    "--out trace.json";

constexpr Column kTraceColumns[] = {{"counter", "COUNTER"}, {"value", "VALUE"}};

struct TraceOptions {
    std::string out;
    bool json = false;
    nvfp4r_router_options router = NVFP4R_ROUTER_OPTIONS_INIT;
    LayerOptions layer;
    CallOptions call;
};

/// Routes once on the simulator that is running; returns the router's description.
std::string route_once(const TraceOptions& o, const OpenedLayer& layer) {
    const RouterHandle router = open_router(layer.handle.get(), layer.settings, o.router);
    RouteCall routed(o.call, layer.gate, layer.settings);
    must(nvfp4r_route(router.get(), &routed.call));
    return nvfp4r_router_description(router.get());
}

int run_trace(TraceOptions& o) {
    const OpenedLayer layer = o.layer.open();
    sim::GpuConfig config = sim::GpuConfig::from_environment();
    config.trace_file = o.out;
    sim::driver::restart_driver({config});
    o.router.device = NVFP4R_DEVICE_SIM;
    const std::string device = route_once(o, layer);
    const sim::driver::RunTotals totals = sim::driver::run_totals();
    // Ends the traced GPU, which closes the file.
    config.trace_file.clear();
    sim::driver::restart_driver({config});

    Json counters = Json::array();
    counters.push_back({{"counter", "kernels"}, {"value", totals.grids}});
    counters.push_back({{"counter", "simulated cycles"}, {"value", totals.cycles}});
    counters.push_back({{"counter", "warp instructions"}, {"value", totals.instructions}});
    for (const auto& [name, value] : totals.counters) counters.push_back({{"counter", name}, {"value", value}});
    const auto bytes = std::filesystem::file_size(o.out);
    if (o.json) {
        print_json({{"trace", o.out}, {"bytes", bytes}, {"device", device}, {"counters", counters}});
    } else {
        fmt::print("{}\n", table_text(counters, kTraceColumns));
        fmt::print("device  {}\ntrace   {} ({} bytes)\n", device, o.out, bytes);
    }
    return kOk;
}

}  // namespace

Command trace_command(CommandLine& root) {
    const Arguments app = root.subcommand("trace", "One call on the simulated GPU: its timeline and counters");
    app.footer(kTraceFooter);
    const auto o = std::make_shared<TraceOptions>();
    app.option("--out", o->out, "FILE of the timeline").required();
    app.flag("--json", o->json, "Print JSON");
    o->layer.add_to(app);
    o->call.add_to(app);
    add_tile_options(app, o->router);
    return {app, [o] { return run_trace(*o); }};
}

}  // namespace nvfp4r::cli
