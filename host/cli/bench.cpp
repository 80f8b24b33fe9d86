// `bench`: times of one router on a GPU over M, after a check of its answers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <thread>

#include "bench/time_calls.hpp"
#include "cli/capi.hpp"
#include "cli/check.hpp"
#include "cli/command.hpp"
#include "cli/names.hpp"
#include "cli/settings_options.hpp"
#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "cli/tile_options.hpp"
#include "format/number.hpp"
#include "format/random.hpp"

namespace nvfp4r::cli {
namespace {

constexpr const char* kBenchFooter =
    "Settings come from --preset and flags; gate and tokens are random. Each time is the median over samples of graph\n"
    "replays between two events, divided by the calls. Warm: one gate and one set of tokens, left in the L2 cache. "
    "Cold:\n"
    "calls take turns with copies of both that add up to more than the cache. PDL: launches that depend "
    "programmatically\n"
    "on the one before, whose end they overlap, so that column is a rate. Before a graph is timed, its outputs are\n"
    "poisoned and rows of its answer are compared with sums in double. HOST is what a call costs the calling thread.\n"
    "Example: nvfp4-router bench --preset deepseek-v4-pro --precision nvfp4-w --tokens 1,16,64 --pdl";

constexpr uint64_t kKilobyte = 1000;
constexpr uint32_t kSeed = 7;
constexpr float kWeightSize = 0.02f, kBiasSize = 0.05f;  // of a trained gate, roughly
constexpr int64_t kCheckedRows = 64;                     // of a call, first and last ones

struct BenchOptions {
    std::string device = "cuda";
    std::vector<int64_t> tokens = {1, 4, 16, 64, 256, 1024, 4096, 16384};
    bool pdl = false, json = false, check_only = false, with_activations = false;
    uint64_t rotated_kilobytes = 220000;
    bench::Effort effort;
    nvfp4r_router_options router = NVFP4R_ROUTER_OPTIONS_INIT;
    SettingsOptions settings;
};

constexpr Column kBenchColumns[] = {
    {"tokens", "M"},          {"warm", "WARM us"},        {"cold", "COLD us"}, {"spread", "SPREAD"},
    {"host", "HOST us"},      {"tile", "TILE"},           {"ctas", "CTAS"},    {"registers", "REGS"},
    {"local_bytes", "LOCAL"}, {"shared_bytes", "SHARED"}, {"source", "KERNEL"}};
constexpr Column kPdlColumns[] = {{"tokens", "M"},
                                  {"warm", "WARM us"},
                                  {"cold", "COLD us"},
                                  {"pdl_warm", "PDL WARM us"},
                                  {"pdl_cold", "PDL COLD us"},
                                  {"spread", "SPREAD"},
                                  {"host", "HOST us"},
                                  {"tile", "TILE"},
                                  {"ctas", "CTAS"},
                                  {"registers", "REGS"},
                                  {"local_bytes", "LOCAL"},
                                  {"shared_bytes", "SHARED"},
                                  {"source", "KERNEL"}};

uint32_t gate_terms(nvfp4r_precision precision) {
    switch (precision) {
        case NVFP4R_PRECISION_BF16: return 0;
        case NVFP4R_PRECISION_NVFP4X3: return 3;
        case NVFP4R_PRECISION_NVFP4X2:
        case NVFP4R_PRECISION_NVFP4X2_W: return 2;
        default: return 1;
    }
}

Gate random_gate(const nvfp4r_settings& s) {
    Gate gate;
    gate.experts = s.experts;
    gate.hidden = s.hidden;
    gate.weight_type = NVFP4R_BF16;
    Random random(kSeed);
    gate.weight.resize(size_t{s.experts} * s.hidden);
    for (float& w : gate.weight) w = bf16_to_f32(f32_to_bf16(kWeightSize * random.gauss()));
    gate.bias.resize(s.use_bias ? s.experts : 0);
    for (float& b : gate.bias) b = kBiasSize * random.gauss();
    // Quantised once: the check of every M and both routers start from it.
    if (const uint32_t terms = gate_terms(s.precision))
        gate.terms = quantise_terms(gate.weight.data(), s.experts, s.hidden, s.hidden, terms, s.block_rule, "the gate");
    return gate;
}

GateHandle gate_handle(const Gate& gate) {
    nvfp4r_gate_desc desc = NVFP4R_GATE_DESC_INIT;
    desc.experts = gate.experts;
    desc.hidden = gate.hidden;
    if (gate.terms.empty()) {
        desc.weight = gate.weight.data();
        desc.weight_type = NVFP4R_F32;
    } else {
        desc.terms = static_cast<uint32_t>(gate.terms.size());
        for (uint32_t t = 0; t < desc.terms; ++t) {
            desc.codes[t] = gate.terms[t].codes.data();
            desc.scales[t] = gate.terms[t].scales.data();
        }
        desc.global_scale = gate.terms[0].global_scale;
    }
    if (!gate.bias.empty()) desc.bias = gate.bias.data();
    nvfp4r_gate* handle = nullptr;
    must(nvfp4r_gate_create(&desc, &handle));
    return {handle, nvfp4r_gate_destroy};
}

/// Normal bf16 numbers. Their odd count divides no row, so that rows differ.
std::vector<uint16_t> token_values(const nvfp4r_settings& s, int64_t most_tokens) {
    constexpr uint64_t kPeriod = (1 << 20) + 1;
    Random random(kSeed, 1);
    std::vector<uint16_t> values(std::min(kPeriod, static_cast<uint64_t>(most_tokens) * s.hidden));
    for (uint16_t& v : values) v = f32_to_bf16(random.gauss());
    return values;
}

/// The answer that was to be timed is wrong.
struct WrongAnswer : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class Bench {
  public:
    explicit Bench(const BenchOptions& options)
        : options_(options),
          settings_(options.settings.resolve()),
          gate_(random_gate(settings_)),
          values_(token_values(settings_, *std::max_element(options.tokens.begin(), options.tokens.end()))),
          handle_(gate_handle(gate_)),
          router_(open_router(handle_.get(), settings_, options.router)),
          simulated_(options.router.device == NVFP4R_DEVICE_SIM),
          context_(std::make_shared<GpuContext>(simulated_ ? sim_driver() : cuda_driver(), options.router.ordinal)),
          stream_(context_) {}

    Json run() {
        compile();
        std::optional<RouterHandle> dependent;
        if (options_.pdl && !options_.check_only) {
            nvfp4r_router_options options = options_.router;
            options.programmatic_launch = 1;
            dependent.emplace(open_router(handle_.get(), settings_, options));
        }
        Json results = Json::array();
        for (const int64_t tokens : options_.tokens)
            results.push_back(options_.check_only ? checked(tokens)
                                                  : timed(tokens, dependent ? dependent->get() : nullptr));
        return {{"device", context_->limits().name},
                {"driver", version_text(context_->api().version)},
                {"clock", simulated_ ? "simulated: these are no times of a GPU" : "events of the GPU"},
                {"settings", settings_json(settings_)},
                {"with_activations", options_.with_activations},
                {"samples", options_.effort.samples},
                {"rotated_kilobytes", options_.rotated_kilobytes},
                {"results", std::move(results)}};
    }

  private:
    /// Every M's kernel is compiled by a first call, several at a time.
    void compile() {
        std::vector<std::string> failures(options_.tokens.size());
        std::vector<std::jthread> threads;
        for (size_t i = 0; i < failures.size(); ++i)
            threads.emplace_back([&, i] {
                try {
                    const bench::Stream own(context_);
                    bench::route_or_fail(router_.get(), tensors(options_.tokens[i]).call(0, own.handle()));
                    const ContextScope scope(*context_);
                    check(context_->api(), context_->api().cuStreamSynchronize(own.handle()), "cuStreamSynchronize",
                          "the first call");
                } catch (const Error& error) {
                    failures[i] = error.what();
                }
            });
        threads.clear();  // joins
        for (size_t i = 0; i < failures.size(); ++i)
            if (!failures[i].empty())
                fail(NVFP4R_DRIVER_ERROR, "first call with {} tokens: {}", options_.tokens[i], failures[i]);
    }

    bench::CallTensors tensors(int64_t tokens) const {
        return {context_, settings_, tokens, 1, values_, options_.with_activations};
    }

    /// Throws when a checked row is wrong or any row is missing.
    void judge(const bench::CallTensors& finished) const {
        if (!finished.all_written()) throw WrongAnswer("rows of the output were not written");
        bench::Rows rows = finished.rows(kCheckedRows);
        nvfp4r_call call = NVFP4R_CALL_INIT;
        call.tokens = static_cast<int64_t>(rows.hidden.size() / settings_.hidden);
        call.hidden = rows.hidden.data();
        call.hidden_type = NVFP4R_BF16;
        call.weights = rows.weights.data();
        call.ids = rows.ids.data();
        call.logical_ids = rows.logical.data();
        constexpr bool kExactSums = false;
        const CheckReport report = check_routing(gate_, settings_, call, kExactSums, options_.router.threads);
        if (!report.ok())
            throw WrongAnswer(fmt::format("{} of {} checked rows are wrong; first: {}", report.rows_wrong, report.rows,
                                          report.first_wrong));
    }

    Json described(int64_t tokens) const {
        const nvfp4r_router_options& r = options_.router;
        const Plan plan = make_plan(settings_, TokenForm::Bf16, token_band(tokens), context_->limits(),
                                    {r.tokens_per_tile, r.k_split, r.k_tile, r.stages}, !options_.with_activations);
        return {{"tokens", tokens},
                {"source", plan.source},
                {"tile", plan.tile_tokens},
                {"k_split", plan.kernel.slices},
                {"ctas", (plan.producers + selecting_ctas(plan, tokens)) *
                             ((tokens + plan.tile_tokens - 1) / plan.tile_tokens)},
                {"threads", plan.threads},
                {"checked_rows", std::min(tokens, kCheckedRows)}};
    }

    Json checked(int64_t tokens) const {
        const bench::CallTensors memory = tensors(tokens);
        memory.poison();
        bench::route_or_fail(router_.get(), memory.call(0, stream_.handle()));
        {
            const ContextScope scope(*context_);
            check(context_->api(), context_->api().cuStreamSynchronize(stream_.handle()), "cuStreamSynchronize");
        }
        judge(memory);
        return described(tokens);
    }

    static Json spread_json(const bench::Spread& s) {
        return {{"median_us", s.median}, {"lowest_us", s.lowest}, {"highest_us", s.highest}};
    }

    Json timed(int64_t tokens, nvfp4r_router* dependent) const {
        const auto time = [&](nvfp4r_router* router) {
            return bench::time_calls(stream_, router, settings_, tokens, values_, options_.with_activations,
                                     options_.effort, [this](const bench::CallTensors& t) { judge(t); });
        };
        Json result = described(tokens);
        const bench::CallTimes times = time(router_.get());
        result["copies"] = times.copies;
        result["registers"] = times.kernel.registers;
        result["local_bytes"] = times.kernel.local_bytes;
        result["shared_bytes"] = times.kernel.shared_bytes;
        result["warm"] = spread_json(times.warm);
        result["cold"] = spread_json(times.cold);
        if (dependent) {
            const bench::CallTimes overlapped = time(dependent);
            result["pdl_warm"] = spread_json(overlapped.warm);
            result["pdl_cold"] = spread_json(overlapped.cold);
        }
        result["host"] =
            spread_json(bench::time_host(stream_, router_.get(), tensors(tokens), options_.effort.samples));
        return result;
    }

    const BenchOptions& options_;
    const nvfp4r_settings settings_;
    const Gate gate_;
    const std::vector<uint16_t> values_;
    const GateHandle handle_;
    const RouterHandle router_;
    const bool simulated_;
    const std::shared_ptr<const GpuContext> context_;
    const bench::Stream stream_;
};

void print_times(const Json& report, const BenchOptions& o) {
    const Json& s = report["settings"];
    fmt::print("{}\n", bold(fmt::format("{}, CUDA {}: {} experts x {}, top {}, {}", report["device"].get<std::string>(),
                                        report["driver"].get<std::string>(), s["experts"].get<int>(),
                                        s["hidden_size"].get<int>(), s["top_k"].get<int>(),
                                        s["precision"].get<std::string>())));
    fmt::print("clock: {}\n", report["clock"].get<std::string>());
    Json rows = report["results"];
    if (o.check_only) {
        for (const Json& row : rows)
            fmt::print("M {}: {} rows ok\n", row["tokens"].get<int64_t>(), row["checked_rows"].get<int64_t>());
        return;
    }
    for (Json& row : rows) {
        const Json cold = row["cold"];
        row["spread"] =
            fmt::format("{:.2f} to {:.2f}", cold["lowest_us"].get<double>(), cold["highest_us"].get<double>());
        for (const char* key : {"warm", "cold", "pdl_warm", "pdl_cold", "host"})
            if (row.contains(key)) row[key] = std::round(row[key]["median_us"].get<double>() * 100) / 100;
    }
    fmt::print("{}", o.pdl ? table_text(rows, kPdlColumns) : table_text(rows, kBenchColumns));
}

}  // namespace

Command bench_command(CommandLine& root) {
    const Arguments app = root.subcommand("bench", "Time a router on a GPU over M, warm and cold, after a check");
    app.footer(kBenchFooter);
    const auto o = std::make_shared<BenchOptions>();
    app.option("--device", o->device, "cuda, or sim: the same path on a simulated clock")
        .one_of({"cuda", "sim"})
        .show_default();
    app.option("--ordinal", o->router.ordinal, "Which GPU").show_default();
    app.option("--tokens", o->tokens, "Values of M").comma_separated().between(1, NVFP4R_MAX_TOKENS).show_default();
    app.flag("--pdl", o->pdl, "Also with programmatic dependent launches");
    app.flag("--with-activations", o->with_activations, "Calls also emit the tokens' NVFP4 form");
    app.option("--samples", o->effort.samples, "Samples of each time").between(1, 1000).show_default();
    app.option("--calls", o->effort.calls, "Calls of a graph, at least; a quarter of it from M = 1024 up")
        .between(1, 10000)
        .show_default();
    app.option("--rotate-kb", o->rotated_kilobytes, "Kilobytes of gates and tokens that cold calls take turns with")
        .between(1, 4000000)
        .show_default();
    app.flag("--check-only", o->check_only, "Compile and check, without times");
    app.flag("--json", o->json, "Print JSON");
    add_tile_options(app, o->router);
    o->settings.add_to(app);
    return {app, [o]() -> int {
                o->router.device = static_cast<nvfp4r_device>(value_of(kDevices, o->device));
                o->effort.rotated_bytes = o->rotated_kilobytes * kKilobyte;
                try {
                    const Json report = Bench(*o).run();
                    if (o->json)
                        print_json(report);
                    else
                        print_times(report, *o);
                    return kOk;
                } catch (const WrongAnswer& wrong) {
                    print_error("bench", wrong.what());
                    return kCheckFailed;
                }
            }};
}

}  // namespace nvfp4r::cli
