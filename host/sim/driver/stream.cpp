#include <algorithm>

#include "sim/driver/capture.hpp"
#include "sim/driver/entries.hpp"
#include "sim/driver/queue.hpp"

namespace nvfp4r::sim::driver::cu {

namespace {

// The range that H100 reports: 0 is the lowest priority, lower numbers come first. The machine takes kernels in stream
// order whatever their priority, which is one of the orders that hardware allows.
constexpr int kLeastPriority = 0, kGreatestPriority = -5;

}  // namespace

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    return in_context("cuCtxGetStreamPriorityRange", [&](Call&) {
        if (least != nullptr) *least = kLeastPriority;
        if (greatest != nullptr) *greatest = kGreatestPriority;
    });
}

CUresult cuStreamCreateWithPriority(CUstream* handle, unsigned flags, int priority) {
    return in_context("cuStreamCreateWithPriority", [&](Call& call) {
        require_pointer(handle, "phStream");
        if ((flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) != 0)
            refuse(CUDA_ERROR_INVALID_VALUE, "stream flags {:#x}", flags);
        auto stream = std::make_unique<CUstream_st>();
        stream->context = call.context;
        stream->flags = flags;
        stream->priority = std::clamp(priority, kGreatestPriority, kLeastPriority);
        stream->id = state().next_id++;
        *handle = &state().streams.add(std::move(stream));
    });
}

CUresult cuStreamCreate(CUstream* handle, unsigned flags) {
    return cu::cuStreamCreateWithPriority(handle, flags, kLeastPriority);
}

CUresult cuStreamDestroy(CUstream handle) {
    return in_context("cuStreamDestroy", [&](Call&) {
        CUstream_st& stream = live(state().streams, handle, "stream");
        // Its work goes on in the queue; a capture that it took part in cannot be completed any more.
        if (stream.capture) {
            const std::shared_ptr<Capture> capture = stream.capture;
            capture->invalid = true;
            if (capture->origin == &stream) leave_capture(*capture);
            capture->streams.erase(&stream);
        }
        state().streams.remove(&stream);
    });
}

CUresult cuStreamSynchronize(CUstream handle) {
    return in_context("cuStreamSynchronize", [&](Call& call) {
        refuse_captured_stream(stream_of(call, handle));
        refuse_implicit_capture(call, stream_of(call, handle));
        synchronise(call);
    });
}

// Asking counts as waiting: the queue is run now, so that a program which polls comes to its end.
CUresult cuStreamQuery(CUstream handle) {
    return in_context("cuStreamQuery", [&](Call& call) {
        refuse_captured_stream(stream_of(call, handle));
        refuse_implicit_capture(call, stream_of(call, handle));
        synchronise(call);
    });
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned flags) {
    return in_context("cuStreamWaitEvent", [&](Call& call) {
        CUstream_st& stream = stream_of(call, handle);
        const CUevent_st& event = live(state().events, event_handle, "event");
        if ((flags & ~static_cast<unsigned>(CU_EVENT_WAIT_EXTERNAL)) != 0)
            refuse(CUDA_ERROR_INVALID_VALUE, "wait flags {:#x}", flags);
        if (event.capture) {
            if (event.capture->ended)
                refuse(CUDA_ERROR_CAPTURED_EVENT, "the event was recorded in a capture that has ended");
            // Waiting for a captured event brings the stream into that capture.
            if (stream.capture && stream.capture != event.capture)
                refuse(CUDA_ERROR_STREAM_CAPTURE_MERGE, "stream {} and the event belong to different captures",
                       stream.id);
            if (stream.legacy)
                refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the legacy default stream cannot be captured");
            if (!stream.capture) {
                stream.capture = event.capture;
                stream.capture_tail.clear();
                event.capture->streams.insert(&stream);
            }
            for (const CUgraphNode node : event.captured) {
                if (std::find(stream.capture_tail.begin(), stream.capture_tail.end(), node) ==
                    stream.capture_tail.end())
                    stream.capture_tail.push_back(node);
            }
            return;
        }
        if (stream.capture) {
            if (!event.recorded || event.after.empty()) return;  // nothing to wait for
            stream.capture->invalid = true;
            refuse(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "the event was recorded outside the capture");
        }
        // Queues of different devices know nothing of each other.
        if (event.context->device != stream.context->device) drain(call, event.context->device);
        stream.waits.insert(stream.waits.end(), event.after.begin(), event.after.end());
    });
}

CUresult cuStreamGetPriority(CUstream handle, int* priority) {
    return in_context("cuStreamGetPriority", [&](Call& call) {
        require_pointer(priority, "priority");
        *priority = stream_of(call, handle).priority;
    });
}

CUresult cuStreamGetFlags(CUstream handle, unsigned* flags) {
    return in_context("cuStreamGetFlags", [&](Call& call) {
        require_pointer(flags, "flags");
        *flags = stream_of(call, handle).flags;
    });
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
    return in_context("cuStreamGetCtx", [&](Call& call) {
        require_pointer(context, "pctx");
        *context = stream_of(call, handle).context;
    });
}

CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
    return in_context("cuStreamGetId", [&](Call& call) {
        require_pointer(id, "streamId");
        *id = stream_of(call, handle).id;
    });
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* data) {
    return in_context("cuLaunchHostFunc", [&](Call& call) {
        if (function == nullptr) refuse(CUDA_ERROR_INVALID_VALUE, "fn is NULL");
        enqueue(call, stream_of(call, handle), HostWork{function, data});
    });
}

}  // namespace nvfp4r::sim::driver::cu
