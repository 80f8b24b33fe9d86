#include "launch/launch_slots.hpp"

#include "router_params.h"

namespace nvfp4r {
LaunchSlots::LaunchSlots(std::shared_ptr<const GpuContext> context, uint64_t mailbox_words, uint32_t tickets)
    : context_(std::move(context)), mailbox_words_(mailbox_words), tickets_(tickets) {
    const ContextScope scope(*context_);
    check(context_->api(), context_->api().cuStreamCreate(&setup_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    reserve(1);
}

LaunchSlots::~LaunchSlots() {
    const DriverApi& api = context_->api();
    if (!setup_ || api.cuCtxPushCurrent(context_->handle()) != CUDA_SUCCESS) return;
    api.cuStreamDestroy(setup_);
    CUcontext popped = nullptr;
    api.cuCtxPopCurrent(&popped);
}

void LaunchSlots::add_slot() {
    const DriverApi& api = context_->api();
    const RelaxedCapture relaxed(api);
    auto slot = std::make_unique<LaunchSlot>(LaunchSlot{DeviceBuffer(context_, mailbox_words_ * sizeof(uint32_t)),
                                                        DeviceBuffer(context_, tickets_ * sizeof(uint64_t))});
    check(api, api.cuMemsetD32Async(slot->mailbox.address(), kEmptyPacket, mailbox_words_, setup_), "cuMemsetD32Async");
    check(api, api.cuMemsetD8Async(slot->tickets.address(), 0, slot->tickets.bytes(), setup_), "cuMemsetD8Async");
    check(api, api.cuStreamSynchronize(setup_), "cuStreamSynchronize");
    slots_.push_back(std::move(slot));
}

void LaunchSlots::reserve(uint32_t count) {
    const std::lock_guard lock(mutex_);
    while (slots_.size() < uses_.size() + count) add_slot();
}

void LaunchSlots::check_owner(CUstream stream) const {
    const DriverApi& api = context_->api();
    CUcontext owner = nullptr;
    check(api, api.cuStreamGetCtx(stream, &owner), "cuStreamGetCtx");
    if (owner != context_->handle())
        fail(
            NVFP4R_INVALID_ARGUMENT,
            "call.stream: it belongs to another context than the router; make the router while the stream's context is "
            "current");
}

const LaunchSlot& LaunchSlots::get(CUstream stream, bool capturing) {
    unsigned long long thread_stream = 0;
    if (stream == CU_STREAM_PER_THREAD)
        check(context_->api(), context_->api().cuStreamGetId(stream, &thread_stream), "cuStreamGetId");
    const std::lock_guard lock(mutex_);
    for (const Use& use : uses_)
        if (use.stream == stream && use.thread_stream == thread_stream && use.capturing == capturing)
            return *slots_[use.slot];
    check_owner(stream);
    if (uses_.size() == slots_.size()) add_slot();
    uses_.push_back({stream, thread_stream, capturing, static_cast<uint32_t>(uses_.size())});
    return *slots_[uses_.back().slot];
}

}  // namespace nvfp4r
