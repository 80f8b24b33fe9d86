// min and max of f32 and f64 (PTX ISA 9.7.3.11, 9.7.3.12), with two or (sm_100) three sources.
#include "sim/instr/families.hpp"
#include "sim/instr/floats.hpp"

namespace nvfp4r::sim {

namespace {

struct FloatMinMaxForm {
    bool max = false, ftz = false, nan = false, xorsign = false, abs = false;
};

float pick_float_min_max(const FloatMinMaxForm& form, float a, float b) {
    // .xorsign.abs: the magnitude is that of |a| and |b|, the sign is the exclusive or of the signs.
    const bool negative = std::signbit(a) != std::signbit(b);
    if (form.abs) {
        a = std::fabs(a);
        b = std::fabs(b);
    }
    const float value = form.max ? greatest(a, b, form.nan) : least(a, b, form.nan);
    return form.xorsign && negative ? -value : value;
}

template <size_t N>
Step exec_f32_pick(Warp& warp, const Instr& instr, LaneMask lanes) {
    const FloatMinMaxForm& form = instr.extra_as<FloatMinMaxForm>();
    FloatRule rule;
    rule.ftz = form.ftz;
    if constexpr (N == 2) {
        return map_lanes<2>(warp, instr, lanes, [&](uint64_t a, uint64_t b) {
            return store_f32(pick_float_min_max(form, load_f32(a, rule), load_f32(b, rule)), rule);
        });
    } else {
        return map_lanes<3>(warp, instr, lanes, [&](uint64_t a, uint64_t b, uint64_t c) {
            const float first = pick_float_min_max(form, load_f32(a, rule), load_f32(b, rule));
            return store_f32(pick_float_min_max(form, first, load_f32(c, rule)), rule);
        });
    }
}

template <bool max>
Step exec_f64_pick(Warp& warp, const Instr& instr, LaneMask lanes) {
    return map_lanes<2>(warp, instr, lanes, [](uint64_t a, uint64_t b) {
        const double x = f64_of(a), y = f64_of(b);
        return slot_of_f64(max ? greatest(x, y, false) : least(x, y, false), a, b);
    });
}

Instr decode_float_min_max(Decoder& decoder) {
    const Statement& statement = decoder.statement();
    Modifiers modifiers(decoder);
    FloatMinMaxForm form;
    form.max = statement.opcode == "max";
    form.ftz = modifiers.take("ftz");
    form.nan = modifiers.take("NaN");
    form.xorsign = modifiers.take("xorsign");
    form.abs = modifiers.take("abs");
    const DataType type = take_type(decoder, modifiers);
    modifiers.done();
    const bool three = statement.operands.size() == 4;
    Instr instr;
    if (type == DataType::f64) {
        if (three || form.ftz || form.nan || form.xorsign || form.abs) decoder.refuse("this form is not modelled");
        instr.exec = form.max ? exec_f64_pick<true> : exec_f64_pick<false>;
    } else {
        if (three && decoder.sm() < 100) decoder.refuse("three sources exist on sm_100 and up");
        if (form.xorsign && (!form.abs || three)) decoder.refuse(".xorsign wants .abs and two sources");
        if (form.abs && !form.xorsign && !three) decoder.refuse(".abs wants .xorsign or three sources");
        instr.exec = three ? exec_f32_pick<3> : exec_f32_pick<2>;
        instr.extra = std::make_shared<FloatMinMaxForm>(form);
    }
    instr.dst = decoder.dst(0);
    for (size_t i = 0; i < (three ? 3u : 2u); ++i) instr.src[i] = decoder.src(i + 1, type_bits(type));
    return instr;
}

}  // namespace

const Family float_min_max_family = {"float min max", {"min", "max"}, decode_float_min_max, {"f32", "f64"}};

}  // namespace nvfp4r::sim
