// Logits of a block of tokens in every precision and both arithmetics.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "api/router_device.hpp"
#include "cpu/gate_forms.hpp"
#include "cpu/rescore.hpp"
#include "cpu/tokens.hpp"

namespace nvfp4r {

class LogitMaker;

/// Buffers of one worker, allocated before any output is written.
struct LogitBlock {
    LogitBlock(const LogitMaker& maker, const nvfp4r_call& call, uint32_t max_rows);

    TokenBlock tokens;
    uint32_t token_terms;  // quantised terms of each token in this call
    TermProducts products;
    ExactScratch exact;
    std::vector<double> sums;  // [rows, padded E]
    std::optional<Mxf4Operand> operand;
    std::vector<uint32_t> accumulator;    // [rows, E]
    std::vector<arith::FdaValue> values;  // [rows, K]
    std::vector<float> logits;            // [rows, E]
    std::vector<float> full_logits;       // [rows, E] of the bf16 gate, for rescoring
    std::vector<float> scratch;           // [E]
};

class LogitMaker {
  public:
    LogitMaker(const RouterPlanInput& input, nvfp4r_cpu_arithmetic arithmetic);

    /// Refuses tokens that the arithmetic has no rule for.
    void check(const nvfp4r_call& call) const;

    /// block.logits of the tokens at rows `sources`, after soft cap and linear bias.
    void make(const nvfp4r_call& call, std::span<const int64_t> sources, LogitBlock& block) const;

    /// For NVFP4R_PRECISION_RESCORE, see Rescorer::rescore_row. Does nothing otherwise.
    void rescore(LogitBlock& block, uint32_t row, std::span<const float> bias, std::span<const int32_t> fixed) const;

  private:
    friend struct LogitBlock;
    void read(const nvfp4r_call& call, std::span<const int64_t> sources, LogitBlock& block) const;
    void multiply_exactly(uint32_t rows, LogitBlock& block) const;
    void multiply_in_full(uint32_t rows, LogitBlock& block) const;
    void multiply_as_hardware(uint32_t rows, LogitBlock& block) const;
    void correct(uint32_t rows, std::vector<float>& logits) const;

    std::shared_ptr<const Gate> gate_;
    nvfp4r_settings settings_;
    PrecisionForm form_;
    bool hardware_;
    float weight_global_;
    std::vector<ExactMatrix> passes_;
    std::optional<Mxf4Operand> mxf4_;
    std::vector<std::vector<arith::FdaValue>> fda_;
    std::optional<Rescorer> rescorer_;
    std::optional<ExactMatrix> full_gate_;  // with rescorer_
};

}  // namespace nvfp4r
