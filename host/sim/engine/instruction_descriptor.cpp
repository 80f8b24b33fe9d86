#include "sim/engine/instruction_descriptor.hpp"

#include <fmt/format.h>

#include "sim/check/report.hpp"

namespace nvfp4r::sim {
namespace {

class Fields {
  public:
    explicit Fields(uint32_t bits) : bits_(bits) {}

    uint32_t get(uint32_t low, uint32_t count) const { return bits_ >> low & ((1u << count) - 1); }
    void reserved(uint32_t low, uint32_t count) const {
        if (const uint32_t value = get(low, count))
            refuse(fmt::format("reserved bits {}-{}", low, low + count - 1).c_str(), value, "must be 0");
    }
    [[noreturn]] void refuse(const char* name, uint32_t value, const char* why) const {
        throw Fault(FindingKind::illegal_descriptor,
                    fmt::format("instruction descriptor {:#010x}: field '{}' is {}: {}", bits_, name, value, why));
    }

  private:
    uint32_t bits_;
};

void check_dense_sparsity(const Fields& f) {
    if (f.get(2, 1)) f.refuse("sparsity", 1, "sparse multiplies are not modelled");
}

// Table 39: block-scaled kinds have no M = 64; a CTA pair doubles M and the step of N.
void check_shape(const Fields& f, const MmaInstruction& instruction, uint32_t m, uint32_t n) {
    const bool pair = instruction.cta_group == 2;
    const bool scaled = instruction.kind != MmaKind::f16;
    const bool m_known = pair ? m == 128 || m == 256 : m == 128 || (m == 64 && !scaled);
    if (!m_known)
        f.refuse("M", m,
                 pair     ? "cta_group::2 has M 128 and 256"
                 : scaled ? "block-scaled kinds of cta_group::1 have only M = 128"
                          : "cta_group::1 has M 64 and 128");
    const uint32_t step = pair ? 16 : 8;
    if (n < step || n > 256 || n % step != 0)
        f.refuse("N", n, pair ? "16 to 256 in steps of 16 are legal" : "8 to 256 in steps of 8 are legal");
}

InstructionDescriptor decode_f16(const Fields& f, const MmaInstruction& instruction) {
    f.reserved(0, 2);
    check_dense_sparsity(f);
    if (f.get(3, 1)) f.refuse("saturate", 1, "only kind::i8 saturates");
    f.reserved(6, 1);
    f.reserved(23, 1);
    f.reserved(29, 1);
    InstructionDescriptor d;
    const uint32_t d_type = f.get(4, 2), a_type = f.get(7, 3), b_type = f.get(10, 3);
    if (d_type > 1) f.refuse("D type", d_type, "kind::f16 has F16 (0) and F32 (1)");
    if (a_type > 1) f.refuse("A type", a_type, "kind::f16 has F16 (0) and BF16 (1)");
    if (b_type > 1) f.refuse("B type", b_type, "kind::f16 has F16 (0) and BF16 (1)");
    d.f32_result = d_type == 1;
    d.a_bf16 = a_type == 1;
    d.b_bf16 = b_type == 1;
    if (!d.f32_result && (d.a_bf16 || d.b_bf16)) f.refuse("D type", d_type, "bf16 operands need an F32 result");
    if (const uint32_t shift = f.get(30, 2)) f.refuse("max shift", shift, "only .ws instructions shift B");
    d.transpose_a = f.get(15, 1);
    d.transpose_b = f.get(16, 1);
    d.m = f.get(24, 5) << 4;
    d.n = f.get(17, 6) << 3;
    check_shape(f, instruction, d.m, d.n);
    return d;
}

InstructionDescriptor decode_mxf4(const Fields& f, const MmaInstruction& instruction) {
    f.reserved(0, 2);
    check_dense_sparsity(f);
    f.reserved(3, 1);
    f.reserved(6, 1);
    f.reserved(12, 1);
    f.reserved(24, 3);
    constexpr uint32_t kE2m1 = 1;
    InstructionDescriptor d;
    if (const uint32_t type = f.get(7, 3); type != kE2m1) f.refuse("A type", type, "these kinds have only E2M1 (1)");
    if (const uint32_t type = f.get(10, 2); type != kE2m1) f.refuse("B type", type, "these kinds have only E2M1 (1)");
    if (f.get(15, 1)) f.refuse("transpose A", 1, "4-bit operands are K-major");
    if (f.get(16, 1)) f.refuse("transpose B", 1, "4-bit operands are K-major");
    if (f.get(31, 1)) f.refuse("K", 1, "K = 96 is for sm_103a and not modelled");
    d.ue8m0 = f.get(23, 1);
    if (!d.ue8m0 && instruction.kind == MmaKind::mxf4) f.refuse("scale type", 0, "kind::mxf4 has only UE8M0 (1)");
    if (!d.ue8m0 && instruction.scales == ScaleVector::two)
        f.refuse("scale type", 0, "two scales a step (block32) are UE8M0 (1)");
    d.sfb_id = f.get(4, 2);
    d.sfa_id = f.get(29, 2);
    const bool whole_cell = instruction.scales == ScaleVector::four;
    const char* ids = whole_cell ? "four scales fill the cell, so it must be 0" : "0 and 2 are legal for two scales";
    for (const auto& [name, id] : {std::pair{"scale factor A id", d.sfa_id}, std::pair{"scale factor B id", d.sfb_id}})
        if (id != 0 && (whole_cell || id != 2)) f.refuse(name, id, ids);
    d.f32_result = true;
    d.m = f.get(27, 2) << 7;
    d.n = f.get(17, 6) << 3;
    check_shape(f, instruction, d.m, d.n);
    return d;
}

}  // namespace

InstructionDescriptor decode_instruction_descriptor(uint32_t bits, const MmaInstruction& instruction) {
    const Fields f(bits);
    InstructionDescriptor d =
        instruction.kind == MmaKind::f16 ? decode_f16(f, instruction) : decode_mxf4(f, instruction);
    d.negate_a = f.get(13, 1);
    d.negate_b = f.get(14, 1);
    return d;
}

}  // namespace nvfp4r::sim
