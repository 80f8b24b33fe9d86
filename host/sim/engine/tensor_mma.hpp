// tcgen05.mma on the pipe: operands from shared memory and TMEM, D in TMEM (layouts of PTX ISA 9.7.16.10.5).
#pragma once

#include <array>
#include <optional>

#include "sim/engine/instruction_descriptor.hpp"
#include "sim/engine/matrix_descriptor.hpp"
#include "sim/engine/tensor_pipe.hpp"
#include "sim/engine/tmem.hpp"

namespace nvfp4r::sim {

enum class Collector : uint8_t { discard, fill, use, last_use };

/// One multiply as issued: descriptors are decoded and legal.
struct TensorMultiply {
    MmaInstruction instruction;
    InstructionDescriptor descriptor;
    TmemAddress d;
    std::optional<MatrixDescriptor> a_shared;  // nothing: A lies in TMEM at `a_tmem`
    TmemAddress a_tmem;
    MatrixDescriptor b;
    TmemAddress sfa, sfb;
    bool accumulate = false;
    uint32_t input_scale = 0;  // D * 2^-input_scale before the sum
    std::array<uint32_t, 8> disabled_lanes{};
    Collector collector = Collector::discard;
};

/// Faults of addresses that no schedule makes right: lane alignment, and what has no known layout. Called at issue.
void check_multiply(const TensorMultiply& multiply);

/// SM cycles of one multiply in a chain, after measurements on a B200.
uint32_t multiply_latency(const TensorMultiply& multiply);

/// Performs it. `self.cta` is the issuer's CTA; with cta_group::2 its peer takes part.
void execute_multiply(AsyncOp& self, TensorPipe& pipe, const TensorMultiply& multiply);

}  // namespace nvfp4r::sim
