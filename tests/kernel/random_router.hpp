// A router over a random gate, for tests of what surrounds the arithmetic.
#pragma once

#include <memory>

#include "nvfp4router.h"

namespace nvfp4r::test {

struct RouterDeleter {
    void operator()(nvfp4r_router* router) const { nvfp4r_router_destroy(router); }
};
using Router = std::unique_ptr<nvfp4r_router, RouterDeleter>;

/// The same gate for the same settings. Fails the test when the router cannot be made.
Router random_router(const nvfp4r_settings& settings, const nvfp4r_router_options& options);

}  // namespace nvfp4r::test
