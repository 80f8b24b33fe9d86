// Calls on host memory: inputs are copied to the GPU, outputs back, and the caller's tensors are written only when
// everything has worked.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "launch/context.hpp"

namespace nvfp4r {

/// One host call on its way through the GPU. Rows are packed densely on the device.
class StagedCall {
  public:
    /// Plans the copies of a valid call on host memory; allocates nothing yet.
    StagedCall(const nvfp4r_call& call, const nvfp4r_settings& settings);

    uint64_t device_bytes() const { return device_bytes_; }
    /// Copies the inputs into `buffer` (device_bytes() large) on `stream`, which the call's pointers then name.
    const nvfp4r_call& upload(const GpuContext& context, const DeviceBuffer& buffer, CUstream stream);
    /// Waits for `stream` and writes the caller's outputs.
    void download(const GpuContext& context, CUstream stream);

  private:
    struct Rows {
        char* host;
        int64_t rows;
        uint64_t row_bytes, pitch;  // pitch: of the host tensor
        uint64_t offset;            // in the device buffer
        std::function<void(CUdeviceptr)> bind;
    };
    template <class T>
    void add(std::vector<Rows>& to, T*& field, int64_t rows, uint64_t row_bytes, uint64_t pitch);
    void add_inputs(const nvfp4r_settings& settings);
    void add_outputs(const nvfp4r_settings& settings);

    nvfp4r_call device_call_;
    uint32_t* host_flag_ = nullptr;
    uint32_t flag_word_ = 0;
    std::vector<Rows> inputs_, outputs_;
    uint64_t device_bytes_ = 0;
    CUdeviceptr base_ = 0;
};

}  // namespace nvfp4r
