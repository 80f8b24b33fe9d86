// The router on a GPU: device memory in, one launch on the caller's stream, nothing else in the call path.
#include <algorithm>
#include <mutex>

#include "api/router_device.hpp"
#include "launch/context.hpp"
#include "launch/launch_slots.hpp"
#include "launch/params.hpp"
#include "launch/staging.hpp"
#include "launch/tensor_maps.hpp"
#include "launch/upload_gate.hpp"
#include "launch/variants.hpp"

namespace nvfp4r {
namespace {

const DriverApi& driver_of(nvfp4r_device device) {
    if (device != NVFP4R_DEVICE_SIM) return cuda_driver();
    const DriverApi& api = sim_driver();
    check(api, api.cuInit(0), "cuInit");
    return api;
}

/// The largest mailbox that any variant of the router needs.
uint64_t mailbox_words(const nvfp4r_settings& settings, const DeviceLimits& limits, const TileWish& wish,
                       uint32_t& tickets) {
    uint64_t words = 0;
    tickets = 0;
    for (uint32_t band = 0; band < kTokenBands; ++band)
        for (const TokenForm form : {TokenForm::Bf16, TokenForm::F16, TokenForm::F32, TokenForm::Nvfp4})
            for (const bool plain : {false, true}) {
                const Plan plan = make_plan(settings, form, static_cast<TokenBand>(band), limits, wish, plain);
                words = std::max(words, plan.mailbox_words);
                tickets = std::max(tickets, plan.tiles_per_launch);
            }
    return words;
}

class GpuRouter final : public RouterDevice {
  public:
    GpuRouter(const RouterPlanInput& input, const nvfp4r_router_options& options)
        : settings_(input.settings),
          programmatic_(options.programmatic_launch != 0),
          synchronise_(options.synchronise != 0),
          wish_{options.tokens_per_tile, options.k_split, options.k_tile, options.stages},
          context_(std::make_shared<GpuContext>(driver_of(options.device), options.ordinal)),
          variants_(context_, settings_, wish_) {
        uint32_t tickets = 0;
        const uint64_t words = mailbox_words(settings_, context_->limits(), wish_, tickets);
        gate_ = upload_gate(context_, input);
        slots_ = std::make_unique<LaunchSlots>(context_, words, tickets);
    }
    ~GpuRouter() override;

    std::string description() const override;
    void prepare(int64_t max_tokens) override;
    void route(const nvfp4r_call& call) override;

  private:
    void check_call(const nvfp4r_call& call) const;
    void route_host(const nvfp4r_call& call);
    void launch(const nvfp4r_call& call, CUstream stream);
    void clear_outputs(const nvfp4r_call& call, CUstream stream) const;
    bool is_capturing(CUstream stream) const;

    const nvfp4r_settings settings_;
    const bool programmatic_, synchronise_;
    const TileWish wish_;
    std::shared_ptr<const GpuContext> context_;
    VariantSet variants_;
    DeviceGate gate_;
    std::unique_ptr<LaunchSlots> slots_;
    // Host memory only: one call at a time uses the staging buffer and its stream.
    std::mutex staging_mutex_;
    DeviceBuffer staging_;
    CUstream staging_stream_ = nullptr;
};

GpuRouter::~GpuRouter() {
    const DriverApi& api = context_->api();
    if (!staging_stream_ || api.cuCtxPushCurrent(context_->handle()) != CUDA_SUCCESS) return;
    api.cuStreamDestroy(staging_stream_);
    CUcontext popped = nullptr;
    api.cuCtxPopCurrent(&popped);
}

std::string GpuRouter::description() const {
    const Plan plan = make_plan(settings_, TokenForm::Bf16, TokenBand::kUpTo8, context_->limits(), wish_);
    return fmt::format("{} ({}), {}, {} experts x {} hidden, tile of {} tokens, {} CTAs of {} threads, K in {} slices",
                       context_->limits().name, context_->api().origin, plan.source, settings_.experts,
                       settings_.hidden, plan.tile_tokens, plan.producers, plan.threads, plan.kernel.slices);
}

void GpuRouter::prepare(int64_t max_tokens) {
    variants_.prepare(max_tokens);
    // A stream's own launches and a capture from it.
    const ContextScope scope(*context_);
    slots_->reserve(2);
}

void GpuRouter::check_call(const nvfp4r_call& call) const {
    if (call.permutation || call.expert_offsets)
        fail(NVFP4R_UNSUPPORTED, "call.{}: not made on a GPU; tokens_per_expert is, and the CPU device makes both",
             call.permutation ? "permutation" : "expert_offsets");
    const bool codes = call.hidden_codes_out || call.hidden_scales_out || call.hidden_global_scales_out;
    const bool quantises = settings_.precision == NVFP4R_PRECISION_NVFP4 ||
                           settings_.precision == NVFP4R_PRECISION_NVFP4X2 ||
                           settings_.precision == NVFP4R_PRECISION_NVFP4X3;
    if (codes && (!quantises || call.hidden_type == NVFP4R_E2M1))
        fail(NVFP4R_UNSUPPORTED,
             "call.hidden_codes_out: a GPU gives the tokens' codes with precision nvfp4, nvfp4x2 or "
             "nvfp4x3 and bf16, f16 or f32 tokens, where it makes them");
}

void GpuRouter::route(const nvfp4r_call& call) {
    check_call(call);
    if (call.memory == NVFP4R_MEMORY_HOST) return route_host(call);
    const ContextScope scope(*context_);
    launch(call, static_cast<CUstream>(call.stream));
}

void GpuRouter::route_host(const nvfp4r_call& call) {
    const std::lock_guard lock(staging_mutex_);
    const ContextScope scope(*context_);
    if (!staging_stream_)
        check(context_->api(), context_->api().cuStreamCreate(&staging_stream_, CU_STREAM_NON_BLOCKING),
              "cuStreamCreate");
    StagedCall staged(call, settings_);
    if (staging_.bytes() < staged.device_bytes()) {
        staging_ = DeviceBuffer();
        staging_ = DeviceBuffer(context_, staged.device_bytes());
    }
    launch(staged.upload(*context_, staging_, staging_stream_), staging_stream_);
    staged.download(*context_, staging_stream_);
}

bool GpuRouter::is_capturing(CUstream stream) const {
    // The legacy default stream cannot be captured, and asking about it while another stream is would break that
    // capture.
    if (stream == nullptr || stream == CU_STREAM_LEGACY) return false;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    check(context_->api(), context_->api().cuStreamIsCapturing(stream, &status), "cuStreamIsCapturing");
    return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

void GpuRouter::clear_outputs(const nvfp4r_call& call, CUstream stream) const {
    const DriverApi& api = context_->api();
    if (call.tokens_per_expert) {
        const uint32_t physical = call.experts_physical ? call.experts_physical : settings_.experts;
        check(api, api.cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(call.tokens_per_expert), 0, physical, stream),
              "cuMemsetD32Async", "tokens_per_expert");
    }
    if (call.hidden_scales_out && call.hidden_scales_out_layout == NVFP4R_SCALES_128X4) {
        const uint64_t bytes =
            scale_bytes(static_cast<uint64_t>(call.tokens), settings_.hidden / kBlock, NVFP4R_SCALES_128X4);
        check(api, api.cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(call.hidden_scales_out), 0, bytes, stream),
              "cuMemsetD8Async", "hidden_scales_out");
    }
}

void GpuRouter::launch(const nvfp4r_call& call, CUstream stream) {
    const DriverApi& api = context_->api();
    const Variant& variant = variants_.get(token_form(call.hidden_type), call.tokens, is_plain(call, settings_, gate_));
    const Plan& plan = variant.plan;
    const LaunchSlot& slot = slots_->get(stream, is_capturing(stream));
    RouterParams params = make_params(call, settings_, gate_, plan.natural_gate);
    params.mailbox = slot.mailbox.as<unsigned>();
    params.tickets = slot.tickets.as<unsigned long long>();
    clear_outputs(call, stream);

    CUlaunchAttribute attributes[2]{};
    CUtensorMap token_map{};
    if (params.hidden_map && plan.kernel.tmem_columns != 0)
        token_map = token_codes_map(*context_, call, settings_.hidden, plan.tile_tokens);
    CUlaunchConfig config{};
    config.blockDimX = plan.threads;
    config.blockDimY = config.blockDimZ = config.gridDimZ = 1;
    config.gridDimX = plan.producers + selecting_ctas(plan, call.tokens);
    config.sharedMemBytes = plan.shared_bytes;
    config.hStream = stream;
    config.attrs = attributes;
    if (programmatic_ && plan.early_start) {
        CUlaunchAttribute& attribute = attributes[config.numAttrs++];
        attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attribute.value.programmaticStreamSerializationAllowed = 1;
    }
    if (plan.kernel.cluster > 1) {
        CUlaunchAttribute& attribute = attributes[config.numAttrs++];
        attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attribute.value.clusterDim = {plan.kernel.cluster, 1, 1};
    }
    // The Hopper kernels have one parameter and look at no more.
    void* arguments[] = {&params, const_cast<CUtensorMap*>(&gate_.operand_map), &token_map};
    const int64_t rows_per_launch = int64_t{plan.tiles_per_launch} * plan.tile_tokens;
    for (params.first_row = 0; params.first_row < call.tokens; params.first_row += rows_per_launch) {
        const int64_t rows = std::min<int64_t>(call.tokens - params.first_row, rows_per_launch);
        config.gridDimY = static_cast<unsigned>((rows + plan.tile_tokens - 1) / plan.tile_tokens);
        check(api, api.cuLaunchKernelEx(&config, variant.function, arguments, nullptr), "cuLaunchKernelEx",
              "{}, grid {} x {}, {} threads, {} bytes of shared memory", plan.source, config.gridDimX, config.gridDimY,
              plan.threads, plan.shared_bytes);
    }
    if (synchronise_) check(api, api.cuStreamSynchronize(stream), "cuStreamSynchronize", "after {}", plan.source);
}

}  // namespace

std::unique_ptr<RouterDevice> make_gpu_device(RouterPlanInput input, const nvfp4r_router_options& options) {
    return std::make_unique<GpuRouter>(input, options);
}

}  // namespace nvfp4r
