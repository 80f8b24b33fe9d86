// Modules: PTX text made ready to run in a context.
#pragma once

#include <string_view>

#include "sim/driver/state.hpp"

namespace nvfp4r::sim::driver {

/// The image's PTX text. Refuses cubins and fat binaries by name: the simulator runs PTX.
std::string_view ptx_text(const void* image);

/// Refuses PTX whose `.version` or `.target` a driver of this version or this GPU would not take.
void check_ptx_head(std::string_view ptx, uint32_t sm);

/// Loads PTX into the context as a module of its own.
CUmod_st& load_module(Call& call, std::string_view ptx);

/// Removes a module with its variables. Its kernels have ended.
void remove_module(CUmod_st& module);

/// The kernel `name` of a module; NOT_FOUND when there is none.
CUfunc_st& module_function(CUmod_st& module, const char* name);

/// A function handle: that of a function, or that of a library's kernel, which is allowed in its place.
CUfunc_st& function_of(Call& call, CUfunction handle);
/// The function of a library's kernel in the current context.
CUfunc_st& kernel_function(Call& call, CUkernel handle);

}  // namespace nvfp4r::sim::driver
