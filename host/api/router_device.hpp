// What a device must do to carry a router. host/api checks every argument once, for all devices, before these are
// called.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "format/gate.hpp"
#include "nvfp4router.h"

namespace nvfp4r {

/// A gate and settings that fit each other (checked by host/api/validate.cpp), with the gate in the form that the
/// precision multiplies: `terms` for every NVFP4 precision (1, 2 or 3 of them, quantised once here), `weight` in f32
/// for bf16 and rescore.
struct RouterPlanInput {
    std::shared_ptr<const Gate> gate;
    nvfp4r_settings settings;  // precision and activation_scale resolved; never UNSET
    std::vector<Nvfp4Matrix> terms;
};

class RouterDevice {
  public:
    virtual ~RouterDevice() = default;
    /// One line for nvfp4r_router_description.
    virtual std::string description() const = 0;
    virtual void prepare(int64_t max_tokens) = 0;
    /// `call` is complete (defaults filled in, strides never 0) and valid. Throws Error before anything is written.
    virtual void route(const nvfp4r_call& call) = 0;
};

std::unique_ptr<RouterDevice> make_cpu_device(RouterPlanInput input, const nvfp4r_router_options& options);
/// CUDA or SIM; throws NO_DEVICE or UNSUPPORTED with what was tried.
std::unique_ptr<RouterDevice> make_gpu_device(RouterPlanInput input, const nvfp4r_router_options& options);

}  // namespace nvfp4r
