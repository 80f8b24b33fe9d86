// cvt and cvt.pack against exact rounding and the edge values measured on H200 (PTX ISA 9.7.9.21).
#include <algorithm>
#include <limits>

#include "sim/evaluate.hpp"
#include "sim/exact.hpp"

using namespace nvfp4r::sim::test;

namespace {

Values float_list(std::initializer_list<float> list) {
    Values out;
    for (const float value : list) out.push_back(std::bit_cast<uint32_t>(value));
    return out;
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Every 16-bit pattern's neighbourhood: f32 values on, just below and just above a grid of f16-like midpoints.
Values probes() {
    Values out;
    for (uint32_t high = 0; high < 0x10000; high += 97) {
        for (const uint32_t low : {0x0000u, 0x0001u, 0x1000u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
            const uint32_t bits = high << 16 | low;
            if ((bits & 0x7fffffff) <= 0x7f800000) out.push_back(bits);
        }
    }
    return out;
}

uint64_t narrow_bits(const NarrowFormat& format, uint64_t slot, int sign_bit, uint64_t beyond) {
    const float value = as_f32(slot);
    const uint64_t sign = uint64_t{std::signbit(value)} << sign_bit;
    if (std::isinf(value)) return sign | beyond;
    const uint64_t code = format.nearest(static_cast<Quad>(std::fabs(value)));
    return sign | (code > format.max_code() ? beyond : code);
}

}  // namespace

TEST_CASE("cvt from f32 to f16, bf16, e4m3, e5m2 and e2m1 rounds to nearest even", "[sim]") {
    const Values inputs = probes();
    const Values zeros(inputs.size(), 0);
    check_instruction("cvt.rn.f16.f32", "hr", {inputs},
                      [](const Values& v) { return narrow_bits(f16_values(), v[0], 15, 0x7c00); });
    check_instruction("cvt.rn.bf16.f32", "hr", {inputs},
                      [](const Values& v) { return narrow_bits(bf16_values(), v[0], 15, 0x7f80); });
    check_instruction("cvt.rz.bf16.f32", "hr", {inputs}, [](const Values& v) { return v[0] >> 16; });
    check_instruction("cvt.rz.f16.f32", "hr", {inputs}, [](const Values& v) {
        const float value = as_f32(v[0]);
        const uint64_t code = std::isinf(value) ? 0x7c00 : f16_values().below(static_cast<Quad>(std::fabs(value)));
        return code | (std::signbit(value) ? 0x8000u : 0u);
    });
    const NarrowFormat e4m3(3, 7, 0x7e), e5m2(2, 15, 0x7b), e2m1(1, 1, 7);
    check_instruction("cvt.rn.satfinite.e4m3x2.f32", "hrr", {inputs, zeros},
                      [&](const Values& v) { return narrow_bits(e4m3, v[0], 7, 0x7e) << 8; });
    check_instruction("cvt.rn.satfinite.e5m2x2.f32", "hrr", {zeros, inputs},
                      [&](const Values& v) { return narrow_bits(e5m2, v[1], 7, 0x7b); });
    check_instruction("cvt.rn.satfinite.e2m1x2.f32", "brr", {inputs, zeros},
                      [&](const Values& v) { return narrow_bits(e2m1, v[0], 3, 7) << 4; });
}

TEST_CASE("cvt special values as measured: NaN, relu, satfinite, tf32", "[sim]") {
    const Values nan = {0x7fc00123};
    CHECK(evaluate("cvt.rn.satfinite.e4m3x2.f32", "hrr", {nan, nan}) == Values{0x7f7f});
    CHECK(evaluate("cvt.rn.satfinite.e5m2x2.f32", "hrr", {nan, nan}) == Values{0x7f7f});
    CHECK(evaluate("cvt.rn.satfinite.e2m1x2.f32", "brr", {nan, float_list({-0.0f})}) == Values{0x78});
    CHECK(evaluate("cvt.rn.f16.f32", "hr", {nan}) == Values{0x7fff});
    CHECK(evaluate("cvt.rn.relu.bf16.f32", "hr", {float_list({-1.0f, -0.0f, 2.0f})}) == Values{0, 0, 0x4000});
    CHECK(evaluate("cvt.rn.relu.f16x2.f32", "rrr", {nan, float_list({-1.0f})}) == Values{0x7fff0000});
    CHECK(evaluate("cvt.rn.satfinite.relu.e4m3x2.f32", "hrr", {float_list({-5.0f}), float_list({-kInfinity})}) ==
          Values{0});
    CHECK(evaluate("cvt.rn.satfinite.e4m3x2.f32", "hrr", {float_list({0x1p-10f}), float_list({0x1.000002p-10f})}) ==
          Values{0x0001});
    CHECK(evaluate("cvt.rz.f16.f32", "hr", {float_list({1e9f, kInfinity})}) == Values{0x7bff, 0x7c00});
    CHECK(evaluate("cvt.rna.tf32.f32", "rr", {{0x3f801000, 0x3f800fff, 0x7f800001}}) ==
          Values{0x3f802000, 0x3f800000, 0x7f800000});
    CHECK(evaluate("cvt.rn.tf32.f32", "rr", {{0x3f801000, 0x3f803000, 0x7fc00001}}) ==
          Values{0x3f800000, 0x3f804000, 0x7fffe000});
    CHECK(evaluate("cvt.rz.tf32.f32", "rr", {{0x3f801fff}}) == Values{0x3f800000});
    CHECK(evaluate("cvt.f32.f16", "rh", {{0x7e01, 0x0001, 0xfc00}}) == Values{0x7fffffff, 0x33800000, 0xff800000});
    CHECK(evaluate("cvt.f32.bf16", "rh", {{0x7fc1, 0x3f80}}) == Values{0x7fc10000, 0x3f800000});
    CHECK(evaluate("cvt.rn.f16x2.e4m3x2", "rh", {{0x7f38}}) == Values{0x7fff3c00});
    CHECK(evaluate("cvt.rn.f16x2.e5m2x2", "rh", {{0x7c3c, 0x7d01}}) == Values{0x7c003c00, 0x7fff0100});
    CHECK(evaluate("cvt.rn.f16x2.e2m1x2", "rb", {{0x7f, 0x81}}) == Values{0x4600c600, 0x80003800});
    CHECK(evaluate("cvt.sat.f32.f32", "rr",
                   {
                       float_list({-1.0f, 0.25f, 9.0f}),
                   }) == float_list({0.0f, 0.25f, 1.0f}));
    CHECK(evaluate("cvt.rn.f32.f64", "rd", {{std::bit_cast<uint64_t>(0x1.000001p0), std::bit_cast<uint64_t>(1e300)}}) ==
          Values{0x3f800000, 0x7f800000});
    CHECK(evaluate("cvt.f64.f32", "dr", {float_list({0x1p-149f})}) == Values{std::bit_cast<uint64_t>(0x1p-149)});
    // ue8m0: value 2^(x - 127); .rp rounds up to the next power, what lies above 2^127 saturates to 0xfe.
    CHECK(evaluate("cvt.rp.satfinite.ue8m0x2.f32", "hrr",
                   {float_list({1.5f, 0x1.8p127f}), float_list({-2.0f, 0.0f})}) == Values{0x8080, 0xfe00});
    CHECK(evaluate("cvt.rz.satfinite.ue8m0x2.f32", "hrr", {float_list({1.5f, kInfinity}), {0x7fc00000, 1}}) ==
          Values{0x7fff, 0xfe00});
    CHECK(evaluate("cvt.rn.bf16x2.ue8m0x2", "rh", {{0x7f80}}) == Values{0x3f804000});
}

TEST_CASE("cvt between integers and floating point", "[sim]") {
    const Values f = float_list({0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.7f, 3e9f, -3e9f, 1e20f, -1e20f, kInfinity, 0.0f});
    const struct {
        const char* mode;
        double (*round)(double);
    } kModes[] = {{"rni", [](double x) { return std::nearbyint(x); }},
                  {"rzi", [](double x) { return std::trunc(x); }},
                  {"rmi", [](double x) { return std::floor(x); }},
                  {"rpi", [](double x) { return std::ceil(x); }}};
    for (const auto& [mode, round] : kModes) {
        auto clamped = [&](uint64_t slot, double least, double most) {
            return std::clamp(round(static_cast<double>(as_f32(slot))), least, most);
        };
        const std::string prefix = std::string("cvt.") + mode;
        check_instruction(prefix + ".s32.f32", "rr", {f}, [&](const Values& v) {
            return static_cast<uint64_t>(static_cast<int64_t>(clamped(v[0], INT32_MIN, INT32_MAX))) & 0xffffffff;
        });
        check_instruction(prefix + ".u32.f32", "rr", {f},
                          [&](const Values& v) { return static_cast<uint64_t>(clamped(v[0], 0, UINT32_MAX)); });
        check_instruction(prefix + ".f32.f32", "rr", {f}, [&](const Values& v) {
            return bits_of(static_cast<float>(round(static_cast<double>(as_f32(v[0])))));
        });
    }
    CHECK(evaluate("cvt.rzi.s64.f32", "dr", {float_list({1e30f, -1e30f, -7.9f})}) ==
          Values{0x7fffffffffffffff, 0x8000000000000000, uint64_t(-7)});
    CHECK(evaluate("cvt.rzi.u64.f32", "dr", {float_list({1e30f, -1.0f, 0x1p63f})}) ==
          Values{~uint64_t{0}, 0, uint64_t{1} << 63});
    // NaN: 0, or the top bit for 64-bit types.
    CHECK(evaluate("cvt.rzi.s32.f32", "rr", {{0x7fc00000}}) == Values{0});
    CHECK(evaluate("cvt.rzi.s64.f32", "dr", {{0x7fc00000}}) == Values{uint64_t{1} << 63});
    CHECK(evaluate("cvt.rzi.s32.f64", "rd", {{0x7ff8000000000000}}) == Values{0x80000000});
    const Values integers = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0x01000001, 0x00ffffff, 0x01000003};
    for (const std::string mode : {"rn", "rz", "rm", "rp"}) {
        check_instruction("cvt." + mode + ".f32.s32", "rr", {integers}, [&](const Values& v) {
            return bits_of(round_quad<float>(static_cast<Quad>(static_cast<int32_t>(v[0])), mode));
        });
        check_instruction("cvt." + mode + ".f64.u64", "dd",
                          {{0, 1, 0x20000000000001, 0xffffffffffffffff, 0x8000000000000401}},
                          [&](const Values& v) { return bits_of(round_quad<double>(static_cast<Quad>(v[0]), mode)); });
    }
    CHECK(evaluate("cvt.rn.f16.u32", "hr", {{2049, 65504, 65520, 0xffffffff}}) ==
          Values{0x6800, 0x7bff, 0x7c00, 0x7c00});
    CHECK(evaluate("cvt.rni.s32.f16", "rh", {{0x4100, 0xfc00}}) == Values{2, 0x80000000});
    CHECK_THAT(refusal_of("cvt.f32.s32", "rr"), Catch::Contains("one of .rn, .rz, .rm and .rp is wanted"));
    CHECK_THAT(refusal_of("cvt.s32.f32", "rr"), Catch::Contains("one of .rni"));
    CHECK_THAT(refusal_of("cvt.f16.f32", "hr"), Catch::Contains("a rounding is wanted"));
}

TEST_CASE("cvt between integers: sign, width, saturation, wider registers; cvt.pack", "[sim]") {
    const Values values = {0, 1, 0x7f, 0x80, 0xff, 0x1234, 0x8000, 0xffff, 0x12345678, 0x80000000, 0xffffffff};
    check_instruction("cvt.s64.s32", "dr", {values},
                      [](const Values& v) { return static_cast<uint64_t>(int64_t{static_cast<int32_t>(v[0])}); });
    check_instruction("cvt.s32.s8", "rr", {values}, [](const Values& v) {
        return uint64_t{static_cast<uint32_t>(int32_t{static_cast<int8_t>(v[0])})};
    });
    check_instruction("cvt.u32.u8", "rr", {values}, [](const Values& v) { return v[0] & 0xff; });
    check_instruction("cvt.u16.u32", "hr", {values}, [](const Values& v) { return v[0] & 0xffff; });
    check_instruction("cvt.sat.u8.s32", "rr", {values}, [](const Values& v) {
        return static_cast<uint64_t>(std::clamp<int32_t>(static_cast<int32_t>(v[0]), 0, 255));
    });
    // An 8-bit result in a 32-bit register is extended by its own sign.
    check_instruction("cvt.s8.s32", "rr", {values}, [](const Values& v) {
        return uint64_t{static_cast<uint32_t>(int32_t{static_cast<int8_t>(v[0])})};
    });
    CHECK(evaluate("cvt.u32.u8", "rb", {{0x7e}}) == Values{0x7e});
    CHECK(evaluate("cvt.pack.sat.s16.s32", "rrr", {{70000, 5}, {uint32_t(-70000), uint32_t(-1)}}) ==
          Values{0x7fff8000, 0x0005ffff});
    CHECK(evaluate("cvt.pack.sat.u8.s32.b32", "rrrr", {{300}, {uint32_t(-4)}, {0xabcd1234}}) == Values{0x1234ff00});
}

TEST_CASE("conversions that a target lacks are refused", "[sim]") {
    CHECK_THAT(refusal_of("cvt.rn.satfinite.e2m1x2.f32", "brr", "", "sm_90a"),
               Catch::Contains("sm_100a and its like only"));
    CHECK_THAT(refusal_of("cvt.rn.satfinite.e2m1x2.f32", "hrr"), Catch::Contains(".b8 register"));
    CHECK_THAT(refusal_of("cvt.rn.satfinite.ue8m0x2.f32", "hrr"), Catch::Contains("not modelled"));
    CHECK_THAT(refusal_of("cvt.rn.f16x2.ue8m0x2", "rh"), Catch::Contains("not modelled"));
    CHECK_THAT(refusal_of("cvt.rn.e4m3x2.f32", "hrr"), Catch::Contains("not modelled"));
    CHECK(refusal_of("cvt.rn.satfinite.e4m3x2.f32", "hrr", "", "sm_90a") == "accepted");
}
