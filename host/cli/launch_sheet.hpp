// What a program that embeds a compiled kernel must know to launch it.
#pragma once

#include "cli/planned_problem.hpp"

namespace nvfp4r::cli {

/// Entry, parameters, grid as formulas of M, memory to provide and its first contents, packing of the gate, constants.
Json launch_sheet(const PlannedProblem& problem);

}  // namespace nvfp4r::cli
