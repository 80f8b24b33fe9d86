// The simulator as a provider of the driver table.
#include "sim/driver/sim_driver.hpp"

#include "sim/driver/entries.hpp"
#include "sim/driver/state.hpp"

namespace nvfp4r {

const DriverApi& sim_driver() {
    static const DriverApi api = [] {
        DriverApi table;
#define NVFP4R_FILL(name) table.name = &sim::driver::cu::name;
        NVFP4R_DRIVER_ENTRIES(NVFP4R_FILL)
#undef NVFP4R_FILL
        table.create_context = &sim::driver::cu::create_context_v4;
        table.origin = "simulator";
        table.version = sim::driver::kSimDriverVersion;
        table.simulated = true;
        return table;
    }();
    return api;
}

}  // namespace nvfp4r
