// Calls of a router on device memory, for tests of what surrounds the arithmetic.
#pragma once

#include <cstdint>
#include <vector>

#include "gpu_memory.hpp"
#include "random_router.hpp"

namespace nvfp4r::test {

Router make_router(nvfp4r_device device, uint32_t experts, uint32_t hidden, uint32_t top_k, bool programmatic = false,
                   int ordinal = 0);

/// Rows of bf16, normally distributed.
std::vector<uint16_t> random_rows(int64_t tokens, uint32_t hidden, uint32_t seed);

struct Answer {
    std::vector<float> weights;
    std::vector<int32_t> ids;
    bool operator==(const Answer&) const = default;
};

/// Routes rows in host memory.
Answer route_host(nvfp4r_router* router, const std::vector<uint16_t>& x, int64_t tokens, uint32_t top_k);

/// Tensors of one device call, which may be used whatever context is current.
struct DeviceCall {
    DeviceCall(std::shared_ptr<const GpuContext> in, int64_t m, uint32_t hidden, uint32_t k);
    /// Both are done when they return: other streams do not wait for the default one, which these use.
    void poison() const;
    void fill(const std::vector<uint16_t>& rows) const;
    nvfp4r_status route(nvfp4r_router* router, CUstream stream);
    /// Waits for the context's work.
    Answer answer() const;

    std::shared_ptr<const GpuContext> context;
    int64_t tokens;
    uint32_t top_k;
    DeviceBuffer x, weights, ids;
    nvfp4r_call call = NVFP4R_CALL_INIT;
};

struct Stream {
    explicit Stream(std::shared_ptr<const GpuContext> in);
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    std::shared_ptr<const GpuContext> context;
    CUstream handle = nullptr;
};

}  // namespace nvfp4r::test
