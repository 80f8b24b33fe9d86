// The device memory of timed calls: tokens in several copies, poisoned outputs.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "launch/context.hpp"

namespace nvfp4r::bench {

/// Chosen rows of a finished call, on the host.
struct Rows {
    std::vector<uint16_t> hidden;  // bf16 [rows, K]
    std::vector<float> weights;    // [rows, width]
    std::vector<int32_t> ids;      // [rows, width]
    std::vector<int32_t> logical;  // [rows, k]
    bool operator==(const Rows&) const = default;
};

class CallTensors {
  public:
    /// `values`: bf16 numbers that the tokens repeat. `copies` of the tokens lie one behind the other. With `codes` the
    /// calls also emit the tokens' NVFP4 form. Throws OUT_OF_MEMORY or DRIVER_ERROR.
    CallTensors(std::shared_ptr<const GpuContext> context, const nvfp4r_settings& settings, int64_t tokens,
                uint32_t copies, const std::vector<uint16_t>& values, bool codes);

    static uint64_t hidden_bytes(const nvfp4r_settings& settings, int64_t tokens);
    /// A call on the tokens' copy i mod copies. Every call writes the same outputs.
    nvfp4r_call call(uint32_t i, CUstream stream) const;
    /// Fills weights and ids with what no right call writes.
    void poison() const;
    /// Whether no id is left of the poison.
    bool all_written() const;
    /// The first and the last rows, at most `most`.
    Rows rows(int64_t most) const;

  private:
    void fill_hidden(const std::vector<uint16_t>& values) const;

    std::shared_ptr<const GpuContext> context_;
    const nvfp4r_settings settings_;
    const int64_t tokens_;
    const uint32_t copies_, width_;
    DeviceBuffer hidden_, weights_, ids_, codes_, scales_, globals_;
};

}  // namespace nvfp4r::bench
