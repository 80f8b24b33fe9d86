// `doctor`: what of compiler, NVRTC, driver and devices is here, what `--device auto` will use, and why not more.
#include <filesystem>

#include "cli/capi.hpp"
#include "cli/command.hpp"
#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "driver/driver_api.hpp"
#include "jit/disk_cache.hpp"
#include "jit/embedded.hpp"
#include "jit/nvrtc.hpp"
#include "jit/target.hpp"

namespace nvfp4r::cli {
namespace {

constexpr Column kDoctorColumns[] = {{"part", "PART"}, {"state", "STATE"}, {"detail", "DETAIL"}};

Json line(const char* part, const char* state, std::string detail) {
    return {{"part", part}, {"state", state}, {"detail", std::move(detail)}};
}

/// One line of the report: what `look` finds, or why it does not.
template <class Look>
Json examined(const char* part, Look look) {
    try {
        return line(part, "ok", look());
    } catch (const Error& error) {
        return line(part, "no", error.what());
    }
}

Json device_line(const DriverApi& api, int ordinal) {
    const std::string part = fmt::format("GPU {}", ordinal);
    return examined(part.c_str(), [&] {
        CUdevice device = 0;
        check(api, api.cuDeviceGet(&device, ordinal), "cuDeviceGet");
        char name[256] = "";
        check(api, api.cuDeviceGetName(name, sizeof name, device), "cuDeviceGetName");
        int major = 0, minor = 0;
        check(api, api.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
              "cuDeviceGetAttribute");
        check(api, api.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device),
              "cuDeviceGetAttribute");
        return fmt::format("{}, compute capability {}.{}, kernels for {}", name, major, minor,
                           target_for(major, minor).arch);
    });
}

void add_devices(Json& report) {
    try {
        const DriverApi& api = cuda_driver();
        int count = 0;
        check(api, api.cuDeviceGetCount(&count), "cuDeviceGetCount");
        for (int ordinal = 0; ordinal < count; ++ordinal) report.push_back(device_line(api, ordinal));
    } catch (const Error&) {
        // The driver's line says why there is none.
    }
}

std::string built_in_state() {
    constexpr size_t kFilesOfKernel = 2;  // cubin and PTX
    const size_t count = embedded_kernels().size() / kFilesOfKernel;
    if (count == 0) fail(NVFP4R_UNSUPPORTED, "none: NVRTC compiles every kernel when it is first used");
    return fmt::format("{}; NVRTC compiles the others when they are first used", count);
}

std::string cache_state() {
    const std::filesystem::path folder = default_cache_folder();
    if (folder.empty())
        fail(NVFP4R_IO_ERROR,
             "none: NVFP4R_CACHE_DIR, XDG_CACHE_HOME and HOME are not set; kernels are compiled anew by each process");
    return folder.string();
}

/// Makes the smallest router there is on the device and lets it speak for itself.
std::string router_on(nvfp4r_device device) {
    constexpr uint32_t kExperts = 8, kHidden = 128;
    const std::vector<float> weight(kExperts * kHidden);
    nvfp4r_gate_desc desc = NVFP4R_GATE_DESC_INIT;
    desc.experts = kExperts;
    desc.hidden = kHidden;
    desc.weight = weight.data();
    desc.weight_type = NVFP4R_F32;
    nvfp4r_gate* gate = nullptr;
    must(nvfp4r_gate_create(&desc, &gate));
    const GateHandle owner(gate, nvfp4r_gate_destroy);
    nvfp4r_settings settings = NVFP4R_SETTINGS_INIT;
    settings.experts = kExperts;
    settings.hidden = kHidden;
    settings.top_k = 1;
    settings.score = NVFP4R_SCORE_SOFTMAX;
    settings.precision = NVFP4R_PRECISION_NVFP4;  // every device has it
    nvfp4r_router_options options = NVFP4R_ROUTER_OPTIONS_INIT;
    options.device = device;
    return nvfp4r_router_description(open_router(gate, settings, options).get());
}

Json examine() {
    Json report = Json::array();
    report.push_back(line("compiler", "ok", "GCC " __VERSION__ ", built this program"));
    report.push_back(examined("NVRTC", [] { return fmt::format("{} from {}", nvrtc().version(), nvrtc().path); }));
    report.push_back(examined("driver", [] {
        const DriverApi& api = cuda_driver();
        return fmt::format("CUDA {} from {}", version_text(api.version), api.origin);
    }));
    add_devices(report);
    report.push_back(examined("built-in kernels", built_in_state));
    report.push_back(examined("kernel cache", cache_state));
    report.push_back(examined("--device cpu", [] { return router_on(NVFP4R_DEVICE_CPU); }));
    report.push_back(examined("--device cuda", [] { return router_on(NVFP4R_DEVICE_CUDA); }));
    report.push_back(examined("--device sim", [] { return router_on(NVFP4R_DEVICE_SIM); }));
    report.push_back(examined("--device auto", [] { return "uses " + router_on(NVFP4R_DEVICE_AUTO); }));
    return report;
}

}  // namespace

Command doctor_command(CommandLine& root) {
    const Arguments app = root.subcommand("doctor", "What is here, what will be used, and why not more");
    app.footer("Exit code 0 when `--device auto` finds a device, 4 when it does not.\nExample: nvfp4-router doctor");
    const auto json = std::make_shared<bool>(false);
    app.flag("--json", *json, "Print JSON");
    return {app, [json] {
                const Json report = examine();
                if (*json)
                    print_json({{"doctor", report}});
                else
                    fmt::print("{}", table_text(report, kDoctorColumns));
                return report.back()["state"] == "ok" ? kOk : kDeviceFailed;
            }};
}

}  // namespace nvfp4r::cli
