// Runs a program through a table of the driver API: the same code for a GPU and for the simulator.
#pragma once

#include "driver/driver_api.hpp"
#include "silicon/stored.hpp"

namespace nvfp4r::silicon {

class Runner {
  public:
    /// Takes the primary context of device 0. Throws Error when a call fails.
    explicit Runner(const DriverApi& api);
    ~Runner();
    Runner(const Runner&) = delete;
    Runner& operator=(const Runner&) = delete;

    /// Contents of the output buffers after all launches. Throws Error when a call or a kernel fails.
    Outputs run(const Program& program);

    /// "NVIDIA H200, compute capability 9.0, driver 13.0"
    std::string machine() const;

  private:
    void launch(const Program& program, const Launch& launch, CUmodule module, std::vector<void*>& arguments);

    const DriverApi& api_;
    CUdevice device_ = 0;
};

}  // namespace nvfp4r::silicon
