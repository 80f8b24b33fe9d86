// The 32-bit instruction descriptor of tcgen05.mma (PTX ISA 9.7.16.4.2, Tables 42-44), field by field.
#pragma once

#include <cstdint>

namespace nvfp4r::sim {

enum class MmaKind : uint8_t { f16, mxf4, mxf4nvf4 };

/// How many scale factors a row has in one K = 64 step.
enum class ScaleVector : uint8_t { none, two, four };

struct MmaInstruction {
    MmaKind kind = MmaKind::f16;
    uint32_t cta_group = 1;
    ScaleVector scales = ScaleVector::none;
};

struct InstructionDescriptor {
    uint32_t m = 0, n = 0;
    bool negate_a = false, negate_b = false;
    bool transpose_a = false, transpose_b = false;
    // kind::f16
    bool f32_result = false;
    bool a_bf16 = false, b_bf16 = false;
    // block-scaled kinds
    bool ue8m0 = false;
    uint32_t sfa_id = 0, sfb_id = 0;
};

/// Throws Fault(illegal_descriptor) with the field's name and value: reserved bits, types, shapes of Table 39, scale
/// ids.
InstructionDescriptor decode_instruction_descriptor(uint32_t bits, const MmaInstruction& instruction);

}  // namespace nvfp4r::sim
