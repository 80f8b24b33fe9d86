// libcuda_sim.so: the simulator under the driver's own symbol names. Each name is an indirect function (a GNU extension of the
// symbol table): the loader asks its resolver for the address, so no signature is repeated here. Resolvers run before any
// sanitizer is ready.
#include "sim/driver/entries.hpp"

#define NVFP4R_EXPORT(name)                                                                                      \
    extern "C" {                                                                                                 \
    __attribute__((no_sanitize("thread", "address",                                                              \
                               "undefined"))) static decltype(&nvfp4r::sim::driver::cu::name) resolve_##name() { \
        return &nvfp4r::sim::driver::cu::name;                                                                   \
    }                                                                                                            \
    }                                                                                                            \
    extern "C" decltype(::name) name __attribute__((ifunc("resolve_" #name)));

NVFP4R_DRIVER_ENTRIES(NVFP4R_EXPORT)
NVFP4R_SIM_MORE_ENTRIES(NVFP4R_EXPORT)
