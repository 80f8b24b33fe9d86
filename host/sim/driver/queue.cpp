#include "sim/driver/queue.hpp"

#include <algorithm>

#include "sim/driver/capture.hpp"
#include "sim/driver/perform.hpp"
#include "sim/driver/sim_driver.hpp"

namespace nvfp4r::sim::driver {

namespace {

// A bound on what one run of the machine holds at once. Splitting a run only takes overlap away.
constexpr size_t kMostGridsAtOnce = 64;

void remove_done(Ops& ops) {
    std::erase_if(ops, [](const OpRef& op) { return op->done; });
}

void append(Ops& to, const Ops& from) {
    to.insert(to.end(), from.begin(), from.end());
}

/// The kernels at the head of the queue that can go to the machine in one run, with their edges.
struct Batch {
    std::vector<GridLaunch> grids;
    std::vector<OpRef> states;

    size_t position(const OpRef& op) const {
        return static_cast<size_t>(std::find(states.begin(), states.end(), op) - states.begin());
    }
    bool has(const OpRef& op) const { return position(op) < states.size(); }

    /// False when the operation must wait for this run to end.
    bool add(const Op& op) {
        const auto* kernel = std::get_if<KernelWork>(&op.work);
        if (kernel == nullptr || grids.size() == kMostGridsAtOnce) return false;
        GridLaunch grid = kernel->launch;
        for (const OpRef& earlier : op.after) {
            if (has(earlier)) grid.after.push_back(position(earlier));
        }
        if (op.programmatic_after && has(op.programmatic_after)) {
            // The machine has one kind of edge a grid: with an ordinary one too, the run is split and nothing overlaps.
            if (!grid.after.empty()) return false;
            grid.after.push_back(position(op.programmatic_after));
            grid.programmatic = true;
        }
        grids.push_back(std::move(grid));
        states.push_back(op.state);
        return true;
    }
};

std::string describe(const GridLaunch& grid, const Finding& finding) {
    return fmt::format("kernel {}: {}", grid.name, finding.text);  // the text begins with the finding's name
}

/// Drops what the faulted context still has queued: on hardware nothing of it runs any more.
void fail_context(Device& device, CUctx_st& context, CUresult result) {
    if (context.sticky == CUDA_SUCCESS) context.sticky = result;
    std::erase_if(device.queue, [&](const Op& op) {
        if (op.context != &context) return false;
        op.state->done = true;
        return true;
    });
}

/// Used under the driver's lock.
RunTotals& totals_so_far() {
    static RunTotals totals;
    return totals;
}

void add_to_totals(const std::vector<GridResult>& results) {
    RunTotals& totals = totals_so_far();
    uint64_t start = UINT64_MAX, end = 0;
    for (const GridResult& result : results) {
        ++totals.grids;
        totals.instructions += result.instructions;
        start = std::min(start, result.start_cycle);
        end = std::max(end, result.end_cycle);
    }
    totals.cycles += end - start;
    // The counters of a result are those of its whole batch.
    for (const auto& [name, value] : results.front().counters) totals.counters[name] += value;
}

void run_batch(Device& device, const Batch& batch, const std::vector<Op>& ops) {
    std::vector<GridResult> results;
    try {
        results = device.gpu->run(batch.grids);
    } catch (const std::exception& error) {
        // The machine could not go on at all; every context of the run has lost its work.
        keep_report(fmt::format("kernel {}: {}", batch.grids.front().name, error.what()), true);
        for (const Op& op : ops) {
            op.state->done = true;
            fail_context(device, *op.context, CUDA_ERROR_LAUNCH_FAILED);
        }
        return;
    }
    add_to_totals(results);
    for (size_t i = 0; i < results.size(); ++i) {
        for (const Finding& finding : results[i].findings) keep_report(describe(batch.grids[i], finding), true);
        ops[i].state->done = true;
        ops[i].state->end_cycle = results[i].end_cycle;
        if (results[i].ok) continue;
        // The finding that stopped the run is among those of its own grid; other grids only did not finish.
        fail_context(device, *ops[i].context, fault_result(results[i].finding.kind));
    }
}

/// Host functions may wait for other threads that call the driver, so they run without the lock.
void run_host_function(Call& call, const HostWork& work) {
    state().queue_busy = true;
    inside_host_function() = true;
    call.lock.unlock();
    work.function(work.data);
    call.lock.lock();
    inside_host_function() = false;
    state().queue_busy = false;
    state().queue_free.notify_all();
}

}  // namespace

RunTotals run_totals() {
    const std::lock_guard lock(state().mutex);
    return totals_so_far();
}

CUstream_st& stream_of(Call& call, CUstream handle) {
    CUctx_st& context = *call.context;
    const auto make = [&](unsigned flags, bool legacy) {
        auto stream = std::make_unique<CUstream_st>();
        stream->context = &context;
        stream->flags = flags;
        stream->legacy = legacy;
        stream->id = state().next_id++;
        return stream;
    };
    if (handle == nullptr || handle == CU_STREAM_LEGACY) {
        if (!context.legacy_stream) context.legacy_stream = make(CU_STREAM_DEFAULT, true);
        return *context.legacy_stream;
    }
    if (handle == CU_STREAM_PER_THREAD) {
        auto& stream = context.thread_streams[std::this_thread::get_id()];
        if (!stream) stream = make(CU_STREAM_DEFAULT, false);
        return *stream;
    }
    return live(state().streams, handle, "stream");
}

Ops stream_dependencies(const CUctx_st& context, const CUstream_st& stream) {
    Ops after = stream.tail;
    append(after, stream.waits);
    if (stream.legacy) {
        for (const auto& [handle, other] : state().streams) {
            if (other->context == &context && other->blocking()) append(after, other->tail);
        }
        for (const auto& [thread, other] : context.thread_streams) append(after, other->tail);
    } else if (stream.blocking() && context.legacy_stream) {
        append(after, context.legacy_stream->tail);
    }
    remove_done(after);
    return after;
}

OpRef queue_work(Device& device, CUcontext context, Work work, Ops after, OpRef programmatic_after) {
    Op op;
    op.context = context;
    op.work = std::move(work);
    op.after = std::move(after);
    op.programmatic_after = std::move(programmatic_after);
    device.queue.push_back(std::move(op));
    return device.queue.back().state;
}

void enqueue(Call& call, CUstream_st& stream, Work work, bool programmatic) {
    if (stream.capture) {
        capture_work(stream, std::move(work), programmatic);
        return;
    }
    refuse_implicit_capture(call, stream);
    const bool is_kernel = std::holds_alternative<KernelWork>(work);
    CUctx_st& context = *stream.context;
    Ops after = stream_dependencies(context, stream);
    OpRef overlapped;
    if (programmatic && is_kernel && stream.last_kernel && !stream.last_kernel->done) {
        // It may overlap the kernel in front of it, and what that one overlaps itself; only waited events still count
        // in full.
        overlapped = stream.last_kernel;
        after = stream.waits;
        remove_done(after);
    } else {
        stream.tail.clear();
    }
    const OpRef op = queue_work(device_of(context.device), &context, std::move(work), std::move(after), overlapped);
    stream.waits.clear();
    stream.tail.push_back(op);
    stream.last_kernel = is_kernel ? op : nullptr;
}

void drain(Call& call, int ordinal) {
    Device& device = device_of(ordinal);
    state().queue_free.wait(call.lock, [] { return !state().queue_busy; });
    while (!device.queue.empty()) {
        Batch batch;
        std::vector<Op> ops;
        while (!device.queue.empty() && batch.add(device.queue.front())) {
            ops.push_back(std::move(device.queue.front()));
            device.queue.pop_front();
        }
        if (!ops.empty()) {
            run_batch(device, batch, ops);
            continue;
        }
        const Op op = std::move(device.queue.front());
        device.queue.pop_front();
        if (const auto* host = std::get_if<HostWork>(&op.work)) {
            run_host_function(call, *host);
        } else {
            perform(device, op.work);
        }
        op.state->done = true;
        op.state->end_cycle = device.gpu->cycle();
    }
}

void synchronise(Call& call) {
    drain(call, call.context->device);
    if (call.context->sticky != CUDA_SUCCESS)
        refuse(call.context->sticky, "an earlier kernel faulted: {}", state().last_report);
}

CUresult fault_result(FindingKind kind) {
    switch (kind) {
        case FindingKind::out_of_bounds:
        case FindingKind::exited_cta: return CUDA_ERROR_ILLEGAL_ADDRESS;
        case FindingKind::misaligned: return CUDA_ERROR_MISALIGNED_ADDRESS;
        case FindingKind::illegal_instruction:
        case FindingKind::illegal_descriptor: return CUDA_ERROR_ILLEGAL_INSTRUCTION;
        case FindingKind::deadlock: return CUDA_ERROR_LAUNCH_TIMEOUT;
        case FindingKind::tmem_leak:
            return static_cast<CUresult>(721);  // CUDA_ERROR_TENSOR_MEMORY_LEAK, not in older headers
        case FindingKind::launch: return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
        // Everything else is what hardware calls an unspecified launch failure, or would not have noticed.
        default: return CUDA_ERROR_LAUNCH_FAILED;
    }
}

}  // namespace nvfp4r::sim::driver
