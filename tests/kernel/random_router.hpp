// A router over a random gate, for tests of what surrounds the arithmetic.
#pragma once

#include "api/open_router.hpp"

namespace nvfp4r::test {

/// The same gate for the same settings. Fails the test when the router cannot be made.
Router random_router(const nvfp4r_settings& settings, const nvfp4r_router_options& options);

}  // namespace nvfp4r::test
