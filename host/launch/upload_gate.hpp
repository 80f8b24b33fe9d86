// The gate on the device, in the layout of the kernel that will read it.
#pragma once

#include <memory>

#include "api/router_device.hpp"
#include "launch/params.hpp"

namespace nvfp4r {

/// Packs and uploads everything of the gate. Throws OUT_OF_MEMORY or DRIVER_ERROR.
DeviceGate upload_gate(const std::shared_ptr<const GpuContext>& context, const RouterPlanInput& input);

}  // namespace nvfp4r
