// `route --check`: the router's ids and weights against an independent path.
#pragma once

#include <cstdint>
#include <string>

#include "cli/check_logits.hpp"
#include "cli/table.hpp"
#include "format/gate.hpp"
#include "nvfp4router.h"

namespace nvfp4r::cli {

struct CheckReport {
    int64_t rows = 0;
    int64_t rows_by_margin = 0;  // another order was as right, within the margin of the logits
    int64_t rows_wrong = 0;
    int64_t rows_form_only = 0;  // scores that are not numbers: only ids and the form of the row are checked
    double worst_weight = 0;     // largest relative difference of a weight
    double margin = 0;           // largest margin of a logit that was granted
    std::string first_wrong;     // "row 3: expert 17 is chosen, but ..."

    bool ok() const { return rows_wrong == 0; }
    Json json() const;
};

/// Recomputes every row of a finished call in double and judges ids and weights. `call` has the logical ids (i32,
/// dense) beside its outputs, f32 weights and i32 ids with dense strides.
CheckReport check_routing(const Gate& gate, const nvfp4r_settings& settings, const nvfp4r_call& call, bool exact_sums,
                          uint32_t threads);

}  // namespace nvfp4r::cli
