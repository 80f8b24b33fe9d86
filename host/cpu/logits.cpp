#include "cpu/logits.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "cpu/score.hpp"
#include "format/number.hpp"

namespace nvfp4r {

LogitBlock::LogitBlock(const LogitMaker& maker, const nvfp4r_call& call, uint32_t max_rows)
    : tokens(max_rows, maker.gate_->hidden, std::max(maker.form_.quantised_tokens ? maker.form_.terms : 1u, 1u)),
      token_terms(nvfp4r::token_terms(call, maker.form_.quantised_tokens ? maker.form_.terms : 0)),
      products(term_products(maker.form_.terms, token_terms, maker.form_.terms)),
      exact(max_rows),
      logits(uint64_t{max_rows} * maker.gate_->experts),
      scratch(maker.gate_->experts) {
    if (maker.full_gate_) full_logits.resize(logits.size());
    if (!maker.hardware_ || maker.full_gate_) sums.resize(uint64_t{max_rows} * padded_experts(maker.gate_->experts));
    if (!maker.hardware_) return;
    if (maker.form_.quantised_tokens) {
        operand.emplace(token_terms, max_rows, maker.gate_->hidden);
        accumulator.resize(logits.size());
    } else {
        values.resize(uint64_t{max_rows} * maker.gate_->hidden);
    }
}

LogitMaker::LogitMaker(const RouterPlanInput& input, nvfp4r_cpu_arithmetic arithmetic)
    : gate_(input.gate),
      settings_(input.settings),
      form_(form_of(input.settings.precision)),
      hardware_(arithmetic == NVFP4R_CPU_HARDWARE),
      weight_global_(form_.terms ? input.terms[0].global_scale : 1.0f) {
    if (!hardware_)
        passes_ = exact_passes(input);
    else if (form_.quantised_tokens)
        mxf4_ = hardware_gate(input);
    else
        fda_ = fda_gate(input);
    if (settings_.precision != NVFP4R_PRECISION_RESCORE) return;
    rescorer_.emplace(input);
    full_gate_.emplace(bf16_weight(*gate_), gate_->experts, gate_->hidden);
}

void LogitMaker::check(const nvfp4r_call& call) const {
    if (hardware_ && !form_.quantised_tokens && call.hidden_type != NVFP4R_BF16)
        fail(NVFP4R_UNSUPPORTED,
             "hidden_type {}: with unquantised tokens the CPU's hardware arithmetic takes bf16 (2) only; use "
             "NVFP4R_CPU_EXACT",
             static_cast<int>(call.hidden_type));
}

void LogitMaker::read(const nvfp4r_call& call, std::span<const int64_t> sources, LogitBlock& block) const {
    const bool quantise =
        form_.quantised_tokens || call.hidden_codes_out || call.hidden_scales_out || call.hidden_global_scales_out;
    const uint32_t terms = std::max(block.token_terms, 1u);
    for (uint32_t row = 0; row < sources.size(); ++row) {
        read_token(call, sources[row], block.tokens, row);
        if (quantise) quantise_token(call, terms, settings_.activation_scale, block.tokens, row);
    }
}

void LogitMaker::multiply_exactly(uint32_t rows, LogitBlock& block) const {
    const uint32_t stride = passes_[0].padded_experts();
    std::fill_n(block.sums.begin(), uint64_t{rows} * stride, 0.0);
    TokenBlock& tokens = block.tokens;
    if (!form_.quantised_tokens) {
        multiply_exact(tokens.x_row(0), rows, passes_[0], block.exact, block.sums.data());
    } else {
        for (uint32_t t = 0; t < block.token_terms; ++t)
            multiply_exact(tokens.term_row(t, 0).data(), rows, passes_[t], block.exact, block.sums.data());
    }
    for (uint32_t row = 0; row < rows; ++row) {
        const float token = form_.quantised_tokens ? tokens.term_global[row] : tokens.x_global[row];
        // The product of two fp32 scales is exact in double.
        const double alpha = static_cast<double>(token) * static_cast<double>(weight_global_);
        for (uint32_t e = 0; e < gate_->experts; ++e)
            block.logits[uint64_t{row} * gate_->experts + e] =
                static_cast<float>(alpha * block.sums[uint64_t{row} * stride + e]);
    }
}

// The logits that the bf16 precision computes, bit for bit.
void LogitMaker::multiply_in_full(uint32_t rows, LogitBlock& block) const {
    const uint32_t stride = full_gate_->padded_experts();
    std::fill_n(block.sums.begin(), uint64_t{rows} * stride, 0.0);
    multiply_exact(block.tokens.x_row(0), rows, *full_gate_, block.exact, block.sums.data());
    for (uint32_t row = 0; row < rows; ++row)
        for (uint32_t e = 0; e < gate_->experts; ++e)
            block.full_logits[uint64_t{row} * gate_->experts + e] = static_cast<float>(
                static_cast<double>(block.tokens.x_global[row]) * block.sums[uint64_t{row} * stride + e]);
}

void LogitMaker::correct(uint32_t rows, std::vector<float>& logits) const {
    const std::vector<float>& linear = gate_->linear_bias;
    for (uint32_t row = 0; row < rows; ++row) {
        for (uint32_t e = 0; e < gate_->experts; ++e) {
            float& logit = logits[uint64_t{row} * gate_->experts + e];
            logit = correct_logit(logit, settings_.logit_soft_cap, linear.empty() ? 0.0f : linear[e]);
        }
    }
}

void LogitMaker::multiply_as_hardware(uint32_t rows, LogitBlock& block) const {
    TokenBlock& tokens = block.tokens;
    if (form_.quantised_tokens) {
        for (uint32_t row = 0; row < rows; ++row)
            for (uint32_t t = 0; t < block.token_terms; ++t)
                block.operand->set_row(t, row, tokens.codes_row(t, row).data(), tokens.scales_row(t, row).data());
        multiply_mxf4(*block.operand, rows, *mxf4_, block.products, {}, block.accumulator, block.logits);
    } else {
        for (uint64_t i = 0; i < uint64_t{rows} * gate_->hidden; ++i)
            block.values[i] = arith::fda_decode(arith::FdaType::kBf16, f32_to_bf16(tokens.x[i]));
        multiply_fda(block.values, rows, fda_, gate_->experts, gate_->hidden, {}, block.logits);
    }
    for (uint32_t row = 0; row < rows; ++row) {
        // A kernel holds alpha as one fp32 number.
        const float alpha = (form_.quantised_tokens ? tokens.term_global[row] : 1.0f) * weight_global_;
        for (uint32_t e = 0; e < gate_->experts; ++e) block.logits[uint64_t{row} * gate_->experts + e] *= alpha;
    }
}

void LogitMaker::make(const nvfp4r_call& call, std::span<const int64_t> sources, LogitBlock& block) const {
    const auto rows = static_cast<uint32_t>(sources.size());
    if (rows == 0) return;
    read(call, sources, block);
    if (hardware_)
        multiply_as_hardware(rows, block);
    else
        multiply_exactly(rows, block);
    correct(rows, block.logits);
    if (!full_gate_) return;
    multiply_in_full(rows, block);
    correct(rows, block.full_logits);
}

void LogitMaker::rescore(LogitBlock& block, uint32_t row, std::span<const float> bias,
                         std::span<const int32_t> fixed) const {
    if (!rescorer_) return;
    const uint64_t first = uint64_t{row} * gate_->experts;
    rescorer_->rescore_row(block.tokens, row, block.token_terms, bias, fixed,
                           std::span(block.full_logits).subspan(first, gate_->experts),
                           std::span(block.logits).subspan(first, gate_->experts), block.scratch);
}

}  // namespace nvfp4r
