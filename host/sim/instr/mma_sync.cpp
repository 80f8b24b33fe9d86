// mma.sync (PTX ISA 9.7.14.5): m16n8k8 and m16n8k16 of f16 and bf16, m16n8k32 of e4m3 and e5m2 as sm_90a expands it.
#include <bit>

#include "sim/engine/fragments.hpp"
#include "sim/instr/decode_help.hpp"
#include "sim/instr/families.hpp"
#include "sim/instr/modifiers.hpp"

namespace nvfp4r::sim {
namespace {

constexpr uint32_t kColumns = 8;

struct MmaForm {
    arith::FdaType a_type = arith::FdaType::kF16, b_type = arith::FdaType::kF16;
    uint32_t k = 16;
    bool f32_result = true;
    std::vector<uint32_t> d;
    std::vector<Src> a, b, c;
};

// sm_90a has no 8-bit mma.sync: the compiler unpacks to f16 and issues two multiplies, first the k with k % 4 in {0, 1},
// then {2, 3}, and adds C last with a rounded fp32 addition (measured on an H200).
uint32_t expanded_fp8_step(const FragmentRow& a, const FragmentRow& b, uint32_t c) {
    uint32_t sum = 0;
    for (uint32_t half = 0; half < 2; ++half) {
        std::array<arith::FdaValue, kMaxFragmentK / 2> x, y;
        for (uint32_t i = 0; i < x.size(); ++i) {
            const uint32_t k = i / 2 * 4 + i % 2 + 2 * half;
            x[i] = a[k];
            y[i] = b[k];
        }
        sum = arith::fda_step(x, y, sum, arith::kFda16Bit);
    }
    constexpr uint32_t kNan = 0x7fffffffu;
    const float total = std::bit_cast<float>(sum) + std::bit_cast<float>(c);
    return total != total ? kNan : std::bit_cast<uint32_t>(total);
}

uint32_t step_mma_sync(const MmaForm& form, const FragmentRow& a, const FragmentRow& b, uint32_t c) {
    if (element_bytes(form.a_type) == 1) return expanded_fp8_step(a, b, c);
    const std::span<const arith::FdaValue> x(a.data(), form.k), y(b.data(), form.k);
    if (form.f32_result) return arith::fda_step(x, y, c, arith::kFda16Bit);
    return arith::fda_step_f16(x, y, static_cast<uint16_t>(c), arith::kFda16Bit);
}

Step exec_mma_sync_mma(Warp& w, const Instr& i, LaneMask lanes) {
    const auto& form = i.extra_as<MmaForm>();
    std::array<FragmentRow, kFragmentRows> rows;
    std::array<FragmentRow, kColumns> columns;
    Lanes scratch;
    for (uint32_t j = 0; j < form.a.size(); ++j)
        decode_a_register(form.a_type, j, w.read(form.a[j], scratch, lanes), rows);
    for (uint32_t j = 0; j < form.b.size(); ++j)
        decode_b_register(form.b_type, j, w.read(form.b[j], scratch, lanes), columns);
    // All of C is read before any of D is written: they are often the same registers.
    std::vector<Lanes> results(form.c.size());
    const uint32_t per = form.f32_result ? 1 : 2;  // elements of a register
    for (uint32_t r = 0; r < form.c.size(); ++r) {
        const uint64_t* c = w.read(form.c[r], scratch, lanes);
        for (uint32_t l = 0; l < kLanes; ++l) {
            uint64_t value = 0;
            for (uint32_t e = 0; e < per; ++e) {
                const uint32_t element = r * per + e;  // of the thread's four
                const uint32_t row = l / 4 + 8 * (element / 2), column = 2 * (l % 4) + element % 2;
                const auto in = static_cast<uint32_t>(c[l] >> (16 * e));
                value |= uint64_t{step_mma_sync(form, rows[row], columns[column], in)} << (16 * e);
            }
            results[r][l] = value;
        }
    }
    for (uint32_t r = 0; r < form.d.size(); ++r) {
        Lanes unused;
        uint64_t* d = w.write(form.d[r], unused, lanes);
        std::copy(results[r].begin(), results[r].end(), d);
    }
    return Step::next;
}

arith::FdaType decode_mma_sync_type(Modifiers& m) {
    const std::string_view name = m.need_any({"f16", "bf16", "e4m3", "e5m2"});
    return name == "f16"    ? arith::FdaType::kF16
           : name == "bf16" ? arith::FdaType::kBf16
           : name == "e4m3" ? arith::FdaType::kE4m3
                            : arith::FdaType::kE5m2;
}

Instr decode_mma_sync(Decoder& d) {
    Modifiers m(d);
    m.need("sync");
    m.need("aligned");
    if (m.peek().starts_with("kind::")) d.refuse(fmt::format("modifier .{} is not modelled", m.peek()));
    auto form = std::make_shared<MmaForm>();
    const std::string_view shape = m.need_any({"m16n8k8", "m16n8k16", "m16n8k32"});
    form->k = shape == "m16n8k8" ? 8 : shape == "m16n8k16" ? 16 : 32;
    m.need("row");
    m.need("col");
    form->f32_result = m.need_any({"f32", "f16"}) == "f32";
    form->a_type = decode_mma_sync_type(m);
    form->b_type = decode_mma_sync_type(m);
    m.need(form->f32_result ? "f32" : "f16");
    m.done();

    const bool fp8 = element_bytes(form->a_type) == 1;
    if (fp8 != (element_bytes(form->b_type) == 1) || fp8 != (form->k == 32) || (!fp8 && form->a_type != form->b_type))
        d.refuse("A and B types do not fit each other or the shape");
    if (fp8 && d.sm() != 90) d.refuse("the arithmetic of 8-bit mma.sync is known for sm_90a only");
    if (!form->f32_result && form->a_type != arith::FdaType::kF16) d.refuse("an f16 result needs f16 operands");

    need_operands(d, 4);
    const auto& operands = d.statement().operands;
    const size_t a_registers = form->k == 8 ? 2 : 4;
    form->d = register_list(d, operands[0], form->f32_result ? 4 : 2);
    form->a = source_list(d, operands[1], a_registers, 32);
    form->b = source_list(d, operands[2], a_registers / 2, 32);
    form->c = source_list(d, operands[3], form->d.size(), 32);
    Instr i;
    i.flags = kAligned;
    i.exec = exec_mma_sync_mma;
    i.extra = form;
    return i;
}

}  // namespace

const Family mma_sync_family{"mma.sync", {"mma.sync"}, decode_mma_sync};

}  // namespace nvfp4r::sim
