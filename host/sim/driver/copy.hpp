// The driver's description of a copy as work.
#pragma once

#include "sim/driver/work.hpp"

namespace nvfp4r::sim::driver {

/// Refuses arrays (NOT_SUPPORTED) and rows that do not fit their pitch.
CopyWork copy_work(const CUDA_MEMCPY3D* parameters);

}  // namespace nvfp4r::sim::driver
