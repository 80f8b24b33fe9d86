// The objects behind the driver's handles. cuda.h declares these structures and never defines them.
#pragma once

#include <cuda.h>

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "sim/driver/work.hpp"

namespace nvfp4r::sim::driver {

enum class MemoryKind { device, managed, variable, pinned, registered };

struct Allocation {
    uint64_t address = 0, bytes = 0;
    MemoryKind kind = MemoryKind::device;
    unsigned flags = 0;
    uint64_t id = 0;
    CUcontext context = nullptr;
    std::string name;
};

struct Capture;

}  // namespace nvfp4r::sim::driver

struct CUfunc_st {
    CUmodule module = nullptr;
    std::string name;
    const nvfp4r::sim::Program* program = nullptr;
    int max_dynamic_shared = 0;
    int carveout = -1;  // the driver's choice
    bool non_portable_cluster = false;
    int cluster_policy = 0;
    const nvfp4r::sim::Function& entry() const { return *program->entry; }
};

struct CUmod_st {
    CUcontext context = nullptr;
    CUlibrary library = nullptr;  // the library it belongs to, if one does
    std::shared_ptr<nvfp4r::sim::LoadedModule> loaded;
    std::map<std::string, std::unique_ptr<CUfunc_st>> functions;
};

struct CUkern_st {
    CUlibrary library = nullptr;
    std::string name;
};

struct CUlib_st {
    std::string ptx;
    std::unique_ptr<nvfp4r::sim::Module> parsed;
    std::map<std::string, std::unique_ptr<CUkern_st>> kernels;
    std::map<CUcontext, CUmodule> modules;  // loaded when a context first asks
};

struct CUgraphNode_st {
    struct Dependency {
        CUgraphNode node = nullptr;
        bool programmatic = false;
    };
    CUgraph graph = nullptr;
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    nvfp4r::sim::driver::Work work;
    std::vector<Dependency> after;
    std::vector<void*> parameter_pointers;  // into the kernel's parameter block, for cuGraphKernelNodeGetParams
};

struct CUgraph_st {
    std::vector<std::unique_ptr<CUgraphNode_st>> nodes;  // every node stands behind its dependencies
};

struct CUgraphExec_st {
    struct Node {
        CUgraphNode original = nullptr;
        CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
        nvfp4r::sim::driver::Work work;
        std::vector<size_t> after;
        bool programmatic = false;  // the (only) edge of `after` is programmatic
    };
    CUcontext context = nullptr;
    std::vector<Node> nodes;
    nvfp4r::sim::driver::Ops last_launch;  // one graph never overlaps itself
};

struct CUstream_st {
    CUcontext context = nullptr;
    uint64_t id = 0;
    unsigned flags = 0;
    int priority = 0;
    bool legacy = false;
    nvfp4r::sim::driver::Ops tail;           // what the next operation comes after
    nvfp4r::sim::driver::Ops waits;          // events waited for since the last operation
    nvfp4r::sim::driver::OpRef last_kernel;  // set when the last operation was a kernel
    std::shared_ptr<nvfp4r::sim::driver::Capture> capture;
    std::vector<CUgraphNode> capture_tail;
    CUgraphNode capture_last_kernel = nullptr;

    bool blocking() const { return !legacy && (flags & CU_STREAM_NON_BLOCKING) == 0; }
};

struct CUevent_st {
    CUcontext context = nullptr;
    unsigned flags = 0;
    bool recorded = false;
    nvfp4r::sim::driver::Ops after;
    uint64_t earliest_cycle = 0;  // the clock when it was recorded
    std::shared_ptr<nvfp4r::sim::driver::Capture> capture;
    std::vector<CUgraphNode> captured;
};

struct CUctx_st {
    int device = 0;
    bool primary = false;
    int retained = 0;  // primary
    bool alive = false;
    unsigned flags = 0;
    CUresult sticky = CUDA_SUCCESS;  // a kernel's fault: every later call gets it
    std::unique_ptr<CUstream_st> legacy_stream;
    std::map<std::thread::id, std::unique_ptr<CUstream_st>> thread_streams;
};

namespace nvfp4r::sim::driver {

/// A stream capture under way. Streams join it by waiting for an event of it.
struct Capture {
    std::unique_ptr<CUgraph_st> graph = std::make_unique<CUgraph_st>();
    CUstream origin = nullptr;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    std::thread::id thread;
    bool invalid = false;
    bool ended = false;  // events may still refer to it
    std::set<CUstream> streams;
};

}  // namespace nvfp4r::sim::driver
