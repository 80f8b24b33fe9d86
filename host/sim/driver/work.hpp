// One piece of work of a stream or a graph: what is done, without when.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "sim/machine/gpu.hpp"

namespace nvfp4r::sim::driver {

struct KernelWork {
    CUfunction function = nullptr;
    std::shared_ptr<LoadedModule> module;  // keeps the program alive
    GridLaunch launch;
};

/// `depth` slices of `height` rows of `width` bytes. Each side is device memory or host memory; addresses say which.
struct CopyWork {
    uint64_t to = 0, from = 0;
    uint64_t width = 0, height = 1, depth = 1;
    uint64_t to_pitch = 0, to_slice = 0, from_pitch = 0, from_slice = 0;
    std::shared_ptr<std::vector<uint8_t>> staged;  // what a pageable source held when the copy was asked for
};

/// `height` rows of `width` elements, each set to `value`.
struct FillWork {
    uint64_t to = 0;
    uint32_t value = 0, element_bytes = 1;
    uint64_t width = 0, height = 1, pitch = 0;
};

struct HostWork {
    CUhostFn function = nullptr;
    void* data = nullptr;
};

/// cuMemFreeAsync: the allocation ends when the stream gets here.
struct ReleaseWork {
    uint64_t address = 0;
};

struct EmptyWork {};

using Work = std::variant<KernelWork, CopyWork, FillWork, HostWork, ReleaseWork, EmptyWork>;

/// Filled in when the work has been done. Streams and events hold it to know what they wait for.
struct OpState {
    bool done = false;
    uint64_t end_cycle = 0;
};
using OpRef = std::shared_ptr<OpState>;
using Ops = std::vector<OpRef>;

/// Work that waits in a device's queue. Queues run in the order of the calls, which every stream order allows.
struct Op {
    CUcontext context = nullptr;
    Work work;
    Ops after;
    OpRef programmatic_after;  // programmatic dependent launch: the kernel that this one may overlap
    OpRef state = std::make_shared<OpState>();
};

}  // namespace nvfp4r::sim::driver
