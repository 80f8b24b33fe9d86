// cvt in all its forms that sm_90a has (PTX ISA 9.7.9.21, 9.7.9.22).
#include "silicon/table.hpp"

namespace nvfp4r::silicon {

namespace {

std::vector<Form> integers() {
    std::vector<Form> forms;
    add_forms(forms, "cvt<|.sat>.<u8|s8>.<u16|s16> ho, h1;", "h");
    add_forms(forms, "cvt<|.sat>.<u8|s8>.<u32|s32> ho, r1;", "h");
    add_forms(forms, "cvt<|.sat>.<u16|s16>.<u32|s32>", "hr");
    add_forms(forms, "cvt<|.sat>.<u16|s16>.<u64|s64>", "hd");
    add_forms(forms, "cvt<|.sat>.<u32|s32>.<u64|s64>", "rd");
    add_forms(forms, "cvt.<u32|s32>.<u16|s16|u8|s8> ro, h1;", "r");
    add_forms(forms, "cvt.<u64|s64>.<u32|s32>", "dr");
    add_forms(forms, "cvt.<u64|s64>.<u16|s16|u8|s8> do, h1;", "d");
    add_forms(forms, "cvt.sat.u32.s32", "rr");
    add_forms(forms, "cvt.sat.s32.u32", "rr");
    add_forms(forms, "cvt.sat.s64.u64", "dd");
    add_forms(forms, "cvt.pack.sat.<u16|s16>.s32", "rrr");
    add_forms(forms, "cvt.pack.sat.<u8|s8>.s32.b32", "rrrr");
    add_forms(forms, "cvt.<rn|rz|rm|rp>.f32.<u8|s8|u16|s16> ro, h1;", "r");
    add_forms(forms, "cvt.<rn|rz|rm|rp>.f32.<u32|s32>", "rr");
    add_forms(forms, "cvt.<rn|rz|rm|rp>.f32.<u64|s64>", "rd");
    add_forms(forms, "cvt.<rn|rz|rm|rp>.f64.<u32|s32>", "dr");
    add_forms(forms, "cvt.<rn|rz|rm|rp>.f64.<u64|s64>", "dd");
    add_forms(forms, "cvt.<rn|rz|rm|rp>.f16.<u8|s8|u16|s16> ho, h1;", "h");
    add_forms(forms, "cvt.<rn|rz|rm|rp>.f16.<u32|s32>", "hr");
    add_forms(forms, "cvt.<rn|rz|rm|rp>.f16.<u64|s64>", "hd");
    add_forms(forms, "cvt.<rn|rz|rm|rp>.bf16.<u16|s16> ho, h1;", "h");
    add_forms(forms, "cvt.<rn|rz|rm|rp>.bf16.<u32|s32>", "hr");
    return forms;
}

std::vector<Form> from_single() {
    std::vector<Form> forms;
    add_forms(forms, "cvt.<rni|rzi|rmi|rpi><|.ftz>.<u8|s8|u16|s16>.f32 ho, r1;", "h");
    add_forms(forms, "cvt.<rni|rzi|rmi|rpi><|.ftz>.<u32|s32>.f32", "rr");
    add_forms(forms, "cvt.<rni|rzi|rmi|rpi><|.ftz>.<u64|s64>.f32", "dr");
    add_forms(forms, "cvt.<rni|rzi|rmi|rpi><|.ftz><|.sat>.f32.f32", "rr");
    add_forms(forms, "cvt<|.ftz>.f64.f32", "dr");
    add_forms(forms, "cvt.<rn|rz|rm|rp><|.ftz><|.sat>.f16.f32", "hr");
    add_forms(forms, "cvt.<rn|rz><|.relu>.f16.f32", "hr");
    add_forms(forms, "cvt.<rn|rz|rm|rp>.bf16.f32", "hr");
    add_forms(forms, "cvt.<rn|rz><|.relu>.<f16x2|bf16x2>.f32", "rrr");
    add_forms(forms, "cvt.<rn|rz>.relu.bf16.f32", "hr");
    add_forms(forms, "cvt.rn.satfinite<|.relu>.<e4m3x2|e5m2x2>.f32 ho, r1, r2;", "h");
    add_forms(forms, "cvt.<rna|rn|rz>.tf32.f32", "rr");
    add_forms(forms, "cvt.<rn|rz>.relu.tf32.f32", "rr");
    return forms;
}

std::vector<Form> from_twice() {
    std::vector<Form> forms;
    add_forms(forms, "cvt.<rni|rzi|rmi|rpi>.<u8|s8|u16|s16>.f64 ho, d1;", "h");
    add_forms(forms, "cvt.<rni|rzi|rmi|rpi>.<u32|s32>.f64", "rd");
    add_forms(forms, "cvt.<rni|rzi|rmi|rpi>.<u64|s64>.f64", "dd");
    add_forms(forms, "cvt.<rni|rzi|rmi|rpi>.f64.f64", "dd");
    add_forms(forms, "cvt.<rn|rz|rm|rp><|.ftz><|.sat>.f32.f64", "rd");
    add_forms(forms, "cvt.<rn|rz|rm|rp>.f16.f64", "hd");
    return forms;
}

std::vector<Form> from_half() {
    std::vector<Form> forms;
    add_forms(forms, "cvt.<rni|rzi|rmi|rpi>.<u8|s8|u16|s16>.f16 ho, h1;", "h");
    add_forms(forms, "cvt.<rni|rzi|rmi|rpi>.<u32|s32>.f16", "rh");
    add_forms(forms, "cvt.<rni|rzi|rmi|rpi>.<u64|s64>.f16", "dh");
    add_forms(forms, "cvt.<rni|rzi|rmi|rpi>.f16.f16", "hh");
    add_forms(forms, "cvt<|.ftz><|.sat>.f32.f16", "rh");
    add_forms(forms, "cvt.f64.f16", "dh");
    add_forms(forms, "cvt.rn.satfinite<|.relu>.<e4m3x2|e5m2x2>.f16x2 ho, r1;", "h");
    return forms;
}

std::vector<Form> from_brain_half() {
    std::vector<Form> forms;
    add_forms(forms, "cvt.f32.bf16", "rh");
    add_forms(forms, "cvt.f64.bf16", "dh");
    add_forms(forms, "cvt.<rni|rzi|rmi|rpi>.<u16|s16>.bf16 ho, h1;", "h");
    add_forms(forms, "cvt.<rni|rzi|rmi|rpi>.<u32|s32>.bf16", "rh");
    add_forms(forms, "cvt.<rni|rzi|rmi|rpi>.<u64|s64>.bf16", "dh");
    return forms;
}

std::vector<Form> from_eight_bit() {
    std::vector<Form> forms;
    add_forms(forms, "cvt.rn<|.relu>.f16x2.<e4m3x2|e5m2x2> ro, h1;", "r");
    return forms;
}

}  // namespace

void add_conversion_programs(Programs& programs) {
    programs.push_back(table_program("conversions from integers", integers(), {Values::words}, 41));
    programs.push_back(table_program("conversions from f32", from_single(), {Values::f32}, 42));
    programs.push_back(table_program("conversions from f64", from_twice(), {Values::f64}, 43));
    programs.push_back(table_program("conversions from f16", from_half(), {Values::f16}, 44));
    programs.push_back(table_program("conversions from bf16", from_brain_half(), {Values::bf16}, 45));
    programs.push_back(table_program("conversions from 8-bit floats", from_eight_bit(), {Values::eight_bit}, 46));
}

}  // namespace nvfp4r::silicon
