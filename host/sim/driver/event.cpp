// Events carry the simulated clock: a kernel takes the cycles that the machine counted, copies take none.
#include <algorithm>

#include "sim/driver/capture.hpp"
#include "sim/driver/device_shape.hpp"
#include "sim/driver/entries.hpp"
#include "sim/driver/queue.hpp"

namespace nvfp4r::sim::driver::cu {

namespace {

constexpr unsigned kEventFlags = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

uint64_t event_cycle(const CUevent_st& event) {
    uint64_t cycle = event.earliest_cycle;
    for (const OpRef& op : event.after) cycle = std::max(cycle, op->end_cycle);
    return cycle;
}

bool event_done(const CUevent_st& event) {
    return std::all_of(event.after.begin(), event.after.end(), [](const OpRef& op) { return op->done; });
}

void refuse_captured_event(const CUevent_st& event) {
    if (!event.capture) return;
    event.capture->invalid = true;
    refuse(CUDA_ERROR_CAPTURED_EVENT, "the event was last recorded in a captured stream");
}

}  // namespace

CUresult cuEventCreate(CUevent* handle, unsigned flags) {
    return in_context("cuEventCreate", [&](Call& call) {
        require_pointer(handle, "phEvent");
        if ((flags & ~kEventFlags) != 0) refuse(CUDA_ERROR_INVALID_VALUE, "event flags {:#x}", flags);
        if ((flags & CU_EVENT_INTERPROCESS) != 0)
            refuse(CUDA_ERROR_NOT_SUPPORTED, "interprocess events are not simulated");
        auto event = std::make_unique<CUevent_st>();
        event->context = call.context;
        event->flags = flags;
        *handle = &state().events.add(std::move(event));
    });
}

CUresult cuEventDestroy(CUevent handle) {
    return in_context("cuEventDestroy", [&](Call&) { state().events.remove(&live(state().events, handle, "event")); });
}

CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream_handle, unsigned flags) {
    return in_context("cuEventRecord", [&](Call& call) {
        CUevent_st& event = live(state().events, handle, "event");
        CUstream_st& stream = stream_of(call, stream_handle);
        if (flags > CU_EVENT_RECORD_EXTERNAL) refuse(CUDA_ERROR_INVALID_VALUE, "record flags {:#x}", flags);
        if (event.context != stream.context)
            refuse(CUDA_ERROR_INVALID_HANDLE, "event and stream belong to different contexts");
        if (stream.capture) {
            if (stream.capture->invalid)
                refuse(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture was invalidated by an earlier call");
            event.capture = stream.capture;
            event.captured = stream.capture_tail;
            return;
        }
        refuse_implicit_capture(call, stream);
        event.capture.reset();
        event.captured.clear();
        event.recorded = true;
        event.after = stream_dependencies(*call.context, stream);
        event.earliest_cycle = call.device().gpu->cycle();
    });
}

CUresult cuEventRecord(CUevent handle, CUstream stream) {
    return cu::cuEventRecordWithFlags(handle, stream, CU_EVENT_RECORD_DEFAULT);
}

CUresult cuEventSynchronize(CUevent handle) {
    return in_context("cuEventSynchronize", [&](Call& call) {
        const CUevent_st& event = live(state().events, handle, "event");
        refuse_captured_event(event);
        if (event_done(event)) return;
        drain(call, event.context->device);
        if (event.context->sticky != CUDA_SUCCESS) refuse(event.context->sticky, "{}", state().last_report);
    });
}

// Asking counts as waiting, see cuStreamQuery.
CUresult cuEventQuery(CUevent handle) {
    return cu::cuEventSynchronize(handle);
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent start_handle, CUevent end_handle) {
    return in_context("cuEventElapsedTime", [&](Call& call) {
        require_pointer(milliseconds, "pMilliseconds");
        const CUevent_st& start = live(state().events, start_handle, "event");
        const CUevent_st& end = live(state().events, end_handle, "event");
        for (const CUevent_st* event : {&start, &end}) {
            refuse_captured_event(*event);
            if (!event->recorded) refuse(CUDA_ERROR_INVALID_HANDLE, "the event was never recorded");
            if ((event->flags & CU_EVENT_DISABLE_TIMING) != 0)
                refuse(CUDA_ERROR_INVALID_HANDLE, "the event was created without timing");
        }
        if (!event_done(start) || !event_done(end)) refuse(CUDA_ERROR_NOT_READY, "");
        const auto cycles = static_cast<double>(event_cycle(end)) - static_cast<double>(event_cycle(start));
        *milliseconds = static_cast<float>(cycles / device_shape(call.device().gpu->config()).clock_khz);
    });
}

}  // namespace nvfp4r::sim::driver::cu
