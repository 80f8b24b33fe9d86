#include "bench/call_tensors.hpp"

#include <algorithm>

#include "format/nvfp4.hpp"

namespace nvfp4r::bench {
namespace {

constexpr uint32_t kPoisonWeight = 0x7fc0dead;  // a NaN that no arithmetic makes
constexpr uint32_t kPoisonId = 0x7ffffff0;      // above every expert

}  // namespace

uint64_t CallTensors::hidden_bytes(const nvfp4r_settings& settings, int64_t tokens) {
    return static_cast<uint64_t>(tokens) * settings.hidden * sizeof(uint16_t);
}

CallTensors::CallTensors(std::shared_ptr<const GpuContext> context, const nvfp4r_settings& settings, int64_t tokens,
                         uint32_t copies, const std::vector<uint16_t>& values, bool codes)
    : context_(std::move(context)),
      settings_(settings),
      tokens_(tokens),
      copies_(copies),
      width_(settings.top_k + settings.shared_slots),
      hidden_(context_, hidden_bytes(settings, tokens) * copies),
      weights_(context_, static_cast<uint64_t>(tokens) * width_ * sizeof(float)),
      ids_(context_, static_cast<uint64_t>(tokens) * width_ * sizeof(int32_t)) {
    if (codes) {
        const auto rows = static_cast<uint64_t>(tokens);
        codes_ = DeviceBuffer(context_, rows * settings.hidden / 2);
        scales_ = DeviceBuffer(context_, scale_bytes(rows, settings.hidden / kBlock, NVFP4R_SCALES_LINEAR));
        globals_ = DeviceBuffer(context_, rows * sizeof(float));
    }
    fill_hidden(values);
}

void CallTensors::fill_hidden(const std::vector<uint16_t>& values) const {
    const ContextScope scope(*context_);
    const DriverApi& api = context_->api();
    const uint64_t one = hidden_bytes(settings_, tokens_);
    uint64_t filled = std::min<uint64_t>(values.size() * sizeof(uint16_t), one);
    check(api, api.cuMemcpyHtoD(hidden_.address(), values.data(), filled), "cuMemcpyHtoD", "{} bytes", filled);
    // What is there repeats until the first copy is full, then that copy does.
    for (const uint64_t end : {one, hidden_.bytes()})
        while (filled < end) {
            const uint64_t more = std::min(filled, end - filled);
            check(api, api.cuMemcpyDtoD(hidden_.address() + filled, hidden_.address(), more), "cuMemcpyDtoD",
                  "{} bytes", more);
            filled += more;
        }
    check(api, api.cuCtxSynchronize(), "cuCtxSynchronize");
}

nvfp4r_call CallTensors::call(uint32_t i, CUstream stream) const {
    nvfp4r_call call = NVFP4R_CALL_INIT;
    call.tokens = tokens_;
    call.memory = NVFP4R_MEMORY_DEVICE;
    call.stream = stream;
    call.hidden = reinterpret_cast<const void*>(hidden_.address() + i % copies_ * hidden_bytes(settings_, tokens_));
    call.hidden_type = NVFP4R_BF16;
    call.weights = weights_.as<void>();
    call.ids = ids_.as<void>();
    call.hidden_codes_out = codes_.as<uint8_t>();
    call.hidden_scales_out = scales_.as<uint8_t>();
    call.hidden_global_scales_out = globals_.as<float>();
    return call;
}

void CallTensors::poison() const {
    const ContextScope scope(*context_);
    const DriverApi& api = context_->api();
    check(api, api.cuMemsetD32(weights_.address(), kPoisonWeight, weights_.bytes() / 4), "cuMemsetD32");
    check(api, api.cuMemsetD32(ids_.address(), kPoisonId, ids_.bytes() / 4), "cuMemsetD32");
    check(api, api.cuCtxSynchronize(), "cuCtxSynchronize");
}

bool CallTensors::all_written() const {
    const ContextScope scope(*context_);
    const DriverApi& api = context_->api();
    std::vector<uint32_t> ids(ids_.bytes() / 4);
    check(api, api.cuMemcpyDtoH(ids.data(), ids_.address(), ids_.bytes()), "cuMemcpyDtoH");
    return std::find(ids.begin(), ids.end(), kPoisonId) == ids.end();
}

Rows CallTensors::rows(int64_t most) const {
    const ContextScope scope(*context_);
    const DriverApi& api = context_->api();
    const int64_t count = std::min(most, tokens_), head = (count + 1) / 2;
    Rows rows;
    const auto read = [&](auto& to, const DeviceBuffer& from, uint64_t row_elements) {
        const uint64_t row_bytes = row_elements * sizeof(to[0]);
        to.resize(static_cast<uint64_t>(count) * row_elements);
        auto* tail = to.data() + static_cast<uint64_t>(head) * row_elements;
        check(api, api.cuMemcpyDtoH(to.data(), from.address(), static_cast<uint64_t>(head) * row_bytes),
              "cuMemcpyDtoH");
        if (count == head) return;
        check(api,
              api.cuMemcpyDtoH(tail, from.address() + static_cast<uint64_t>(tokens_ - (count - head)) * row_bytes,
                               static_cast<uint64_t>(count - head) * row_bytes),
              "cuMemcpyDtoH");
    };
    read(rows.hidden, hidden_, settings_.hidden);
    read(rows.weights, weights_, width_);
    read(rows.ids, ids_, width_);
    for (int64_t r = 0; r < count; ++r)
        rows.logical.insert(rows.logical.end(), rows.ids.begin() + r * width_,
                            rows.ids.begin() + r * width_ + settings_.top_k);
    return rows;
}

}  // namespace nvfp4r::bench
