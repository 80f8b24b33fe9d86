// GPU devices: the one place that says which are there.
#include "api/router_device.hpp"
#include "core/error.hpp"

namespace nvfp4r {

std::unique_ptr<RouterDevice> make_gpu_device(RouterPlanInput, const nvfp4r_router_options& options) {
    if (options.device == NVFP4R_DEVICE_SIM)
        fail(NVFP4R_UNSUPPORTED, "device sim: this build has no simulator device; use the CPU");
    fail(NVFP4R_NO_DEVICE, "device cuda: this build has no GPU kernels; use the CPU");
}

}  // namespace nvfp4r
