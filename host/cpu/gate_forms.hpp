// The gate in the forms that a precision multiplies.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "api/router_device.hpp"
#include "arith/fda.hpp"
#include "cpu/exact_multiply.hpp"
#include "cpu/hardware_multiply.hpp"

namespace nvfp4r {

/// What a precision multiplies with what.
struct PrecisionForm {
    uint32_t terms;         // weight terms in use; 0: the bf16 gate
    bool quantised_tokens;  // tokens enter as NVFP4 terms
};
PrecisionForm form_of(nvfp4r_precision precision);

/// The bf16 gate: every stored weight rounded to bf16 (which changes nothing in a bf16 gate).
std::vector<float> bf16_weight(const Gate& gate);

/// sum of the first `count` terms, [E, K], without the global scale. Exact in fp32: an NVFP4 value is a multiple of
/// 2^-10 and at most 2688, so three of them need 23 bits.
std::vector<float> sum_of_terms(const std::vector<Nvfp4Matrix>& terms, uint32_t count);

/// For exact sums: pass t multiplies token term t with the sum of the weight terms that form a product with it.
std::vector<ExactMatrix> exact_passes(const RouterPlanInput& input);

/// For NVFP4R_CPU_HARDWARE with quantised tokens, and with bf16 tokens: bf16 values [E, K] of each weight term or of
/// the bf16 gate (an e2m1 * e4m3 product has at most 6 significant bits, so it is exact in bf16).
Mxf4Operand hardware_gate(const RouterPlanInput& input);
std::vector<std::vector<arith::FdaValue>> fda_gate(const RouterPlanInput& input);

}  // namespace nvfp4r
