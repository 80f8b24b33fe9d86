#include "cpu/gate_forms.hpp"

#include "format/number.hpp"

namespace nvfp4r {

PrecisionForm form_of(nvfp4r_precision precision) {
    switch (precision) {
        case NVFP4R_PRECISION_NVFP4: return {1, true};
        case NVFP4R_PRECISION_NVFP4X2: return {2, true};
        case NVFP4R_PRECISION_NVFP4X3: return {3, true};
        case NVFP4R_PRECISION_NVFP4_W: return {1, false};
        case NVFP4R_PRECISION_NVFP4X2_W: return {2, false};
        case NVFP4R_PRECISION_RESCORE: return {2, true};
        default: return {0, false};
    }
}

std::vector<float> bf16_weight(const Gate& gate) {
    std::vector<float> rounded(gate.weight.size());
    for (size_t i = 0; i < rounded.size(); ++i) rounded[i] = bf16_to_f32(f32_to_bf16(gate.weight[i]));
    return rounded;
}

std::vector<float> sum_of_terms(const std::vector<Nvfp4Matrix>& terms, uint32_t count) {
    const uint32_t rows = terms[0].rows;
    const uint32_t cols = terms[0].cols;
    std::vector<float> sum(uint64_t{rows} * cols), values(cols);
    for (uint32_t t = 0; t < count; ++t) {
        for (uint32_t r = 0; r < rows; ++r) {
            dequantise_row(terms[t].codes.data() + uint64_t{r} * cols / 2,
                           terms[t].scales.data() + uint64_t{r} * cols / kBlock, values);
            for (uint32_t k = 0; k < cols; ++k) sum[uint64_t{r} * cols + k] += values[k];
        }
    }
    return sum;
}

std::vector<ExactMatrix> exact_passes(const RouterPlanInput& input) {
    const PrecisionForm form = form_of(input.settings.precision);
    const Gate& gate = *input.gate;
    std::vector<ExactMatrix> passes;
    if (form.terms == 0) {
        passes.emplace_back(bf16_weight(gate), gate.experts, gate.hidden);
        return passes;
    }
    const uint32_t count = form.quantised_tokens ? form.terms : 1;
    for (uint32_t token_term = 0; token_term < count; ++token_term)
        passes.emplace_back(sum_of_terms(input.terms, form.terms - token_term), gate.experts, gate.hidden);
    return passes;
}

Mxf4Operand hardware_gate(const RouterPlanInput& input) {
    const Gate& gate = *input.gate;
    const uint32_t terms = form_of(input.settings.precision).terms;
    Mxf4Operand operand(terms, gate.experts, gate.hidden);
    for (uint32_t t = 0; t < terms; ++t)
        for (uint32_t e = 0; e < gate.experts; ++e)
            operand.set_row(t, e, input.terms[t].codes.data() + uint64_t{e} * gate.hidden / 2,
                            input.terms[t].scales.data() + uint64_t{e} * gate.hidden / kBlock);
    return operand;
}

std::vector<std::vector<arith::FdaValue>> fda_gate(const RouterPlanInput& input) {
    const uint32_t terms = form_of(input.settings.precision).terms;
    const auto decode = [](const std::vector<float>& values) {
        std::vector<arith::FdaValue> decoded(values.size());
        for (size_t i = 0; i < values.size(); ++i)
            decoded[i] = arith::fda_decode(arith::FdaType::kBf16, f32_to_bf16(values[i]));
        return decoded;
    };
    if (terms == 0) return {decode(bf16_weight(*input.gate))};
    std::vector<std::vector<arith::FdaValue>> gate;
    for (uint32_t t = 0; t < terms; ++t) gate.push_back(decode(sum_of_terms({input.terms[t]}, 1)));
    return gate;
}

}  // namespace nvfp4r
