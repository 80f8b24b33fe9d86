#include "launch/staging.hpp"

#include <cstring>

#include "format/nvfp4.hpp"
#include "router_params.h"

namespace nvfp4r {
namespace {

constexpr uint64_t kAlignment = 256;  // of each tensor in the device buffer, as cuMemAlloc gives it

uint64_t type_bytes(nvfp4r_dtype type) {
    switch (type) {
        case NVFP4R_I64: return 8;
        case NVFP4R_F32:
        case NVFP4R_I32:
        case NVFP4R_PACKED: return 4;
        default: return 2;
    }
}

uint64_t unsigned_of(int64_t value) {
    return static_cast<uint64_t>(value);
}

}  // namespace

template <class T>
void StagedCall::add(std::vector<Rows>& to, T*& field, int64_t rows, uint64_t row_bytes, uint64_t pitch) {
    if (!field) return;
    auto* host = const_cast<char*>(reinterpret_cast<const char*>(field));
    to.push_back({host, rows, row_bytes, pitch, device_bytes_,
                  [&field](CUdeviceptr address) { field = reinterpret_cast<T*>(address); }});
    device_bytes_ += (unsigned_of(rows) * row_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

StagedCall::StagedCall(const nvfp4r_call& call, const nvfp4r_settings& settings) : device_call_(call) {
    device_call_.memory = NVFP4R_MEMORY_DEVICE;
    add_inputs(settings);
    add_outputs(settings);
}

void StagedCall::add_inputs(const nvfp4r_settings& settings) {
    nvfp4r_call& c = device_call_;
    const int64_t m = c.tokens;
    const uint64_t hidden = settings.hidden;
    if (c.hidden_type == NVFP4R_E2M1) {
        add(inputs_, c.hidden, m, hidden / 2, unsigned_of(c.hidden_stride) / 2);
        const uint64_t scales = scale_bytes(unsigned_of(m), hidden / kScaleBlock, c.hidden_scale_layout);
        add(inputs_, c.hidden_scales, 1, scales, scales);
    } else {
        const uint64_t bytes = type_bytes(c.hidden_type);
        add(inputs_, c.hidden, m, hidden * bytes, unsigned_of(c.hidden_stride) * bytes);
    }
    c.hidden_stride = static_cast<int64_t>(hidden);
    add(inputs_, c.hidden_global_scales, m, sizeof(float), sizeof(float));
    add(inputs_, c.num_valid, 1, sizeof(int32_t), sizeof(int32_t));
    add(inputs_, c.mask, m, 1, 1);
    add(inputs_, c.image_mask, m, 1, 1);
    add(inputs_, c.token_ids, m, type_bytes(c.token_id_type), type_bytes(c.token_id_type));
    add(inputs_, c.forced_ids, m, settings.top_k * sizeof(int32_t), unsigned_of(c.forced_stride) * sizeof(int32_t));
    c.forced_stride = settings.top_k;
    add(inputs_, c.logit_to_physical, settings.experts, c.replicas * sizeof(int32_t), c.replicas * sizeof(int32_t));
    add(inputs_, c.replica_count, settings.experts, sizeof(int32_t), sizeof(int32_t));
    host_flag_ = c.error_flag;
    if (host_flag_) {
        // Starts at 0 on the device; its bits join the caller's word at the end.
        c.error_flag = &flag_word_;
        add(inputs_, c.error_flag, 1, sizeof(uint32_t), sizeof(uint32_t));
        c.error_flag = &flag_word_;
        outputs_.push_back(inputs_.back());
    }
}

void StagedCall::add_outputs(const nvfp4r_settings& settings) {
    nvfp4r_call& c = device_call_;
    const int64_t m = c.tokens;
    const auto rows = [&](auto*& field, uint64_t width, uint64_t bytes, int64_t& stride) {
        add(outputs_, field, m, width * bytes, unsigned_of(stride) * bytes);
        stride = static_cast<int64_t>(width);
    };
    const uint64_t width = settings.top_k + settings.shared_slots;
    rows(c.weights, width, type_bytes(c.weights_type), c.weights_stride);
    rows(c.ids, width, type_bytes(c.ids_type), c.ids_stride);
    rows(c.logits, settings.experts, sizeof(float), c.logits_stride);
    rows(c.scores, settings.experts, sizeof(float), c.scores_stride);
    rows(c.logical_ids, settings.top_k, type_bytes(c.logical_ids_type), c.logical_ids_stride);
    const uint64_t physical = c.experts_physical ? c.experts_physical : settings.experts;
    add(outputs_, c.tokens_per_expert, 1, physical * sizeof(int32_t), physical * sizeof(int32_t));
    add(outputs_, c.hidden_codes_out, m, settings.hidden / 2, settings.hidden / 2);
    const uint64_t scales = scale_bytes(unsigned_of(m), settings.hidden / kScaleBlock, c.hidden_scales_out_layout);
    add(outputs_, c.hidden_scales_out, 1, scales, scales);
    add(outputs_, c.hidden_global_scales_out, m, sizeof(float), sizeof(float));
}

const nvfp4r_call& StagedCall::upload(const GpuContext& context, const DeviceBuffer& buffer, CUstream stream) {
    const DriverApi& api = context.api();
    base_ = buffer.address();
    std::vector<std::vector<char>> dense;  // until the copies have ended
    for (const Rows& in : inputs_) {
        const char* from = in.host;
        const uint64_t bytes = unsigned_of(in.rows) * in.row_bytes;
        if (in.pitch != in.row_bytes) {
            from = dense.emplace_back(bytes).data();
            for (int64_t r = 0; r < in.rows; ++r)
                std::memcpy(dense.back().data() + unsigned_of(r) * in.row_bytes, in.host + unsigned_of(r) * in.pitch,
                            in.row_bytes);
        }
        // Not cuMemcpyHtoD: it returns while the copy may still be under way, in the default stream, for which `stream`
        // does not wait (CUDA driver API, API synchronization behavior).
        check(api, api.cuMemcpyHtoDAsync(base_ + in.offset, from, bytes, stream), "cuMemcpyHtoDAsync", "{} bytes",
              bytes);
    }
    check(api, api.cuStreamSynchronize(stream), "cuStreamSynchronize", "after the copies");
    for (const Rows& in : inputs_) in.bind(base_ + in.offset);
    for (const Rows& out : outputs_) out.bind(base_ + out.offset);
    device_call_.stream = stream;
    return device_call_;
}

void StagedCall::download(const GpuContext& context, CUstream stream) {
    const DriverApi& api = context.api();
    check(api, api.cuStreamSynchronize(stream), "cuStreamSynchronize", "after the launch");
    std::vector<std::vector<char>> arrived;
    for (const Rows& out : outputs_) {
        arrived.emplace_back(unsigned_of(out.rows) * out.row_bytes);
        check(api, api.cuMemcpyDtoH(arrived.back().data(), base_ + out.offset, arrived.back().size()), "cuMemcpyDtoH",
              "{} bytes", arrived.back().size());
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
        const Rows& out = outputs_[i];
        for (int64_t r = 0; r < out.rows; ++r)
            std::memcpy(out.host + unsigned_of(r) * out.pitch, arrived[i].data() + unsigned_of(r) * out.row_bytes,
                        out.row_bytes);
    }
    if (host_flag_) *host_flag_ |= flag_word_;
}

}  // namespace nvfp4r
