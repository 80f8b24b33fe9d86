// What the C API's opaque handles hold.
#pragma once

#include <memory>
#include <string>

#include "api/router_device.hpp"
#include "format/gate.hpp"

struct nvfp4r_gate {
    std::shared_ptr<const nvfp4r::Gate> gate;
};

struct nvfp4r_router {
    std::shared_ptr<const nvfp4r::Gate> gate;
    nvfp4r_settings settings;
    std::unique_ptr<nvfp4r::RouterDevice> device;
    std::string description;
};
