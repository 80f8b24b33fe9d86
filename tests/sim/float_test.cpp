// f32, f64, f32x2, f16 and bf16 arithmetic against exact values (PTX ISA 9.7.3 to 9.7.5; NaN rules measured on H200).
#include <algorithm>
#include <limits>

#include "sim/evaluate.hpp"
#include "sim/exact.hpp"

using namespace nvfp4r::sim::test;

namespace {

Values floats(std::initializer_list<float> list) {
    Values out;
    for (const float value : list) out.push_back(std::bit_cast<uint32_t>(value));
    return out;
}
Values doubles(std::initializer_list<double> list) {
    Values out;
    for (const double value : list) out.push_back(std::bit_cast<uint64_t>(value));
    return out;
}

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kTiny = 0x1p-149f;
// Finite, of a range that keeps sums of products exact in 113 bits.
const Values kExactF32 = floats({0.0f, -0.0f, 1.0f, -1.0f, 1.5f, 0x1.fffffep0f, -0x1.000002p0f, 3.0f, 0x1.234568p10f,
                                 -0x1.fedcbap-12f, 0x1.000002p-3f, 7.0f, 0x1.8p20f});
const Values kEdgeF32 = floats({0.0f, -0.0f, 1.0f, -2.5f, kTiny, -kTiny, 0x1.fffffcp-127f, 0x1p-126f, -0x1p-126f,
                                0x1.fffffep127f, -0x1.fffffep127f, kInf, -kInf, std::nanf("")});
const Values kExactF64 = doubles(
    {0.0, 1.0, -1.0, 1.5, 0x1.fffffffffffffp0, -0x1.0000000000001p0, 3.0, 0x1.23456789abcdep5, -0x1.fedcba987p-6});

bool is_subnormal(uint64_t bits) {
    return (bits & 0x7f800000) == 0;
}
uint64_t flushed(uint64_t bits) {
    return is_subnormal(bits) ? bits & 0x80000000 : bits;
}

}  // namespace

TEST_CASE("f32 and f64 add, sub, mul, fma, div, rcp, sqrt in every rounding", "[sim]") {
    const auto pairs = combinations({kExactF32, kExactF32});
    const auto wide_pairs = combinations({kExactF64, kExactF64});
    for (const std::string mode : {"rn", "rz", "rm", "rp"}) {
        // The sign of an exact zero sum is the mode's; IEEE 754 6.3 gives it, so it is compared apart from the value.
        auto f32 = [&](const std::string& op, auto exact) {
            check_instruction(op + "." + mode + ".f32", "rrr", pairs, [&](const Values& v) {
                const Quad value = exact(static_cast<Quad>(as_f32(v[0])), static_cast<Quad>(as_f32(v[1])));
                if (value != 0) return bits_of(round_quad<float>(value, mode));
                const float a = as_f32(v[0]), b = op == "sub" ? -as_f32(v[1]) : as_f32(v[1]);
                const bool same = std::signbit(a) == std::signbit(b);
                const bool negative = op == "mul" ? !same : same ? std::signbit(a) : mode == "rm";
                return uint64_t{negative ? 0x80000000u : 0};
            });
        };
        f32("add", [](Quad a, Quad b) { return a + b; });
        f32("sub", [](Quad a, Quad b) { return a - b; });
        f32("mul", [](Quad a, Quad b) { return a * b; });
        const Values nonzero(kExactF32.begin() + 2, kExactF32.end());
        check_instruction("div." + mode + ".f32", "rrr", combinations({nonzero, nonzero}), [&](const Values& v) {
            return bits_of(round_quad<float>(static_cast<Quad>(as_f32(v[0])) / static_cast<Quad>(as_f32(v[1])), mode));
        });
        check_instruction("rcp." + mode + ".f32", "rr", {nonzero}, [&](const Values& v) {
            return bits_of(round_quad<float>(Quad{1} / static_cast<Quad>(as_f32(v[0])), mode));
        });
        check_instruction(
            "fma." + mode + ".f32", "rrrr", combinations({nonzero, nonzero, nonzero}), [&](const Values& v) {
                const Quad value =
                    static_cast<Quad>(as_f32(v[0])) * static_cast<Quad>(as_f32(v[1])) + static_cast<Quad>(as_f32(v[2]));
                if (value == 0) return uint64_t{mode == "rm" ? 0x80000000u : 0};
                return bits_of(round_quad<float>(value, mode));
            });
        const Values wide_nonzero(kExactF64.begin() + 1, kExactF64.end());
        const auto wide = combinations({wide_nonzero, wide_nonzero});
        check_instruction("mul." + mode + ".f64", "ddd", wide, [&](const Values& v) {
            return bits_of(round_quad<double>(static_cast<Quad>(as_f64(v[0])) * static_cast<Quad>(as_f64(v[1])), mode));
        });
        check_instruction("add." + mode + ".f64", "ddd", wide, [&](const Values& v) {
            const Quad sum = static_cast<Quad>(as_f64(v[0])) + static_cast<Quad>(as_f64(v[1]));
            if (sum == 0) return mode == "rm" ? uint64_t{1} << 63 : 0;
            return bits_of(round_quad<double>(sum, mode));
        });
        check_instruction("div." + mode + ".f64", "ddd", wide, [&](const Values& v) {
            return bits_of(round_quad<double>(static_cast<Quad>(as_f64(v[0])) / static_cast<Quad>(as_f64(v[1])), mode));
        });
        // A root is right when its square is on the right side of the radicand: exact in 113 bits.
        const Values radicands = floats({1.0f, 2.0f, 3.0f, 0x1.fffffep0f, 0x1.234568p10f, 0x1.000002p-3f, 16.0f});
        const Values roots = evaluate("sqrt." + mode + ".f32", "rr", {radicands});
        for (size_t i = 0; i < roots.size(); ++i) {
            const auto square = [](float x) { return static_cast<Quad>(x) * static_cast<Quad>(x); };
            const float root = as_f32(roots[i]), up = std::nextafter(root, kInf), down = std::nextafter(root, 0.0f);
            const auto x = static_cast<Quad>(as_f32(radicands[i]));
            INFO(mode << " of " << as_f32(radicands[i]));
            if (mode == "rz" || mode == "rm") CHECK((square(root) <= x && square(up) > x));
            if (mode == "rp") CHECK((square(root) >= x && square(down) < x));
            if (mode == "rn") CHECK((square(up) > x && square(down) < x));
        }
    }
}

TEST_CASE("f32 edge values: infinities, NaN, subnormals, ftz and sat", "[sim]") {
    const auto pairs = combinations({kEdgeF32, kEdgeF32});
    check_instruction("add.f32", "rrr", pairs, [](const Values& v) { return bits_of(as_f32(v[0]) + as_f32(v[1])); });
    check_instruction("mul.f32", "rrr", pairs, [](const Values& v) { return bits_of(as_f32(v[0]) * as_f32(v[1])); });
    check_instruction("mul.ftz.f32", "rrr", pairs,
                      [](const Values& v) { return flushed(bits_of(as_f32(flushed(v[0])) * as_f32(flushed(v[1])))); });
    check_instruction("add.sat.f32", "rrr", pairs, [](const Values& v) {
        const float sum = as_f32(v[0]) + as_f32(v[1]);
        return bits_of(sum > 0 ? std::min(sum, 1.0f) : 0.0f);
    });
    // Directed rounding far below the last place: one step, not none.
    CHECK(evaluate("add.rp.f32", "rrr", {floats({1.0f}), floats({kTiny})}) == floats({0x1.000002p0f}));
    CHECK(evaluate("add.rz.f32", "rrr", {floats({1.0f}), floats({-kTiny})}) == floats({0x1.fffffep-1f}));
    CHECK(evaluate("mul.rz.f32", "rrr", {floats({0x1p127f}), floats({4.0f})}) == floats({0x1.fffffep127f}));
    CHECK(evaluate("neg.f32", "rr", {floats({0.0f, 1.0f})}) == floats({-0.0f, -1.0f}));
    CHECK(evaluate("neg.f32", "rr", {{0x7fc00001}}) == Values{0x7fffffff});
    CHECK(evaluate("abs.ftz.f32", "rr", {floats({-kTiny, -3.0f})}) == floats({0.0f, 3.0f}));
    CHECK(evaluate("copysign.f32", "rrr", {floats({-1.0f, 2.0f}), floats({5.0f, -6.0f})}) == floats({-5.0f, 6.0f}));
    CHECK(evaluate("testp.subnormal.f32", "pr", {kEdgeF32}) == Values{0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0});
    CHECK(evaluate("testp.finite.f32", "pr", {floats({1.0f, kInf})}) == Values{1, 0});
    CHECK(evaluate("div.approx.f32", "rrr", {floats({8.0f, 1.0f}), floats({2.0f, 0x1.8p126f})}) ==
          floats({4.0f, 0.0f}));
    CHECK_THAT(refusal_of("fma.f32", "rrrr"), Catch::Contains("a rounding modifier is wanted"));
    CHECK_THAT(refusal_of("add.ftz.f64", "ddd"), Catch::Contains(".ftz and .sat are for .f32"));
}

TEST_CASE("min and max: zeros, NaN, xorsign, three sources", "[sim]") {
    const float nan = std::nanf("");
    const auto a = floats({0.0f, -0.0f, nan, 1.0f, nan, -3.0f}), b = floats({-0.0f, 0.0f, 2.0f, nan, nan, 2.0f});
    CHECK(evaluate("min.f32", "rrr", {a, b}) ==
          Values{0x80000000, 0x80000000, 0x40000000, 0x3f800000, 0x7fffffff, 0xc0400000});
    CHECK(evaluate("max.f32", "rrr", {a, b}) == Values{0, 0, 0x40000000, 0x3f800000, 0x7fffffff, 0x40000000});
    CHECK(evaluate("max.NaN.f32", "rrr", {a, b})[2] == 0x7fffffff);
    CHECK(evaluate("min.xorsign.abs.f32", "rrr", {a, b})[5] == bits_of(-2.0f));
    CHECK(evaluate("max.xorsign.abs.f32", "rrr", {a, b})[5] == bits_of(-3.0f));
    CHECK(evaluate("max.f32", "rrrr", {floats({1.0f, nan}), floats({5.0f, nan}), floats({3.0f, 7.0f})}) ==
          floats({5.0f, 7.0f}));
    CHECK_THAT(refusal_of("max.f32", "rrrr", "", "sm_90a"), Catch::Contains("three sources exist on sm_100"));
    CHECK(evaluate("min.f64", "ddd", {doubles({1.0}), doubles({-2.0})}) == doubles({-2.0}));
}

TEST_CASE("packed f32x2 and mixed-precision arithmetic", "[sim]") {
    auto packed = [](float low, float high) { return bits_of(low) | bits_of(high) << 32; };
    CHECK(evaluate("fma.rn.f32x2", "dddd", {{packed(1, 2)}, {packed(3, 4)}, {packed(5, 6)}}) == Values{packed(8, 14)});
    CHECK(evaluate("add.rm.f32x2", "ddd", {{packed(1, -1)}, {packed(-kTiny, -kTiny)}}) ==
          Values{packed(0x1.fffffep-1f, -0x1.000002p0f)});
    CHECK_THAT(refusal_of("add.rn.f32x2", "ddd", "", "sm_90a"), Catch::Contains(".f32x2 exists on sm_100"));
    // 0x3c01 is 1 + 2^-10 in f16, 0x3f81 is 1 + 2^-7 in bf16.
    CHECK(evaluate("add.rn.f32.f16", "rhr", {{0x3c01}, floats({1.0f})}) == floats({2.0f + 0x1p-10f}));
    CHECK(evaluate("fma.rn.f32.bf16", "rhhr", {{0x3f81}, {0x4000}, floats({1.0f})}) == floats({3.0f + 0x1p-6f}));
    CHECK_THAT(refusal_of("add.rn.f32.f16", "rhr", "", "sm_90a"), Catch::Contains("exists on sm_100"));
}

TEST_CASE("approximate functions stay within their bounds and have the measured special values", "[sim]") {
    const struct {
        const char* name;
        double (*exact)(double);
        double bound;  // relative, PTX ISA 9.7.3
        Values inputs;
    } kFunctions[] = {
        {"ex2.approx.f32", [](double x) { return std::exp2(x); }, 0x1p-22,
         floats({0.5f, 1.0f, -3.25f, 100.0f, -126.0f, 0.1f})},
        {"lg2.approx.f32", [](double x) { return std::log2(x); }, 0x1p-22, floats({3.0f, 10.0f, 0.1f, 1e30f, 1e-30f})},
        {"rcp.approx.f32", [](double x) { return 1 / x; }, 0x1p-23, floats({3.0f, -7.0f, 1e20f, 0.1f})},
        {"rsqrt.approx.f32", [](double x) { return 1 / std::sqrt(x); }, 0x1p-22, floats({3.0f, 7.0f, 1e20f, 0.1f})},
        {"sqrt.approx.f32", [](double x) { return std::sqrt(x); }, 0x1p-23, floats({3.0f, 7.0f, 1e20f, 0.1f})},
        {"tanh.approx.f32", [](double x) { return std::tanh(x); }, 0x1p-11, floats({0.3f, -2.0f, 9.0f, 1e-20f})},
        {"sin.approx.f32", [](double x) { return std::sin(x); }, 0x1p-20, floats({0.3f, -2.0f, 3.0f})},
        {"cos.approx.f32", [](double x) { return std::cos(x); }, 0x1p-20, floats({0.3f, -2.0f, 3.0f})},
    };
    for (const auto& [name, exact, bound, inputs] : kFunctions) {
        const Values got = evaluate(name, "rr", {inputs});
        for (size_t i = 0; i < got.size(); ++i) {
            const double want = exact(static_cast<double>(as_f32(inputs[i])));
            INFO(name << " of " << as_f32(inputs[i]));
            CHECK(std::fabs(static_cast<double>(as_f32(got[i])) - want) <= bound * std::fabs(want));
        }
    }
    // The table of hopper-facts 6: +0, -0, +sub, -sub, -1, +Inf, -Inf, NaN.
    constexpr uint32_t kNan = 0x7fffffff, kPlus = 0x7f800000, kMinus = 0xff800000, kOne = 0x3f800000;
    const Values special = {0, 0x80000000, 1, 0x80000001, 0xbf800000, kPlus, kMinus, 0x7fc00000};
    CHECK(evaluate("ex2.approx.f32", "rr", {special}) == Values{kOne, kOne, kOne, kOne, 0x3f000000, kPlus, 0, kNan});
    CHECK(evaluate("lg2.approx.f32", "rr", {special}) ==
          Values{kMinus, kMinus, 0xc3150000, kNan, kNan, kPlus, kNan, kNan});
    CHECK(evaluate("lg2.approx.ftz.f32", "rr", {special}) ==
          Values{kMinus, kMinus, kMinus, kMinus, kNan, kPlus, kNan, kNan});
    CHECK(evaluate("rcp.approx.f32", "rr", {special}) ==
          Values{kPlus, kMinus, kPlus, kMinus, 0xbf800000, 0, 0x80000000, kNan});
    CHECK(evaluate("rsqrt.approx.ftz.f32", "rr", {special}) ==
          Values{kPlus, kMinus, kPlus, kMinus, kNan, 0, kNan, kNan});
    CHECK(evaluate("sqrt.approx.ftz.f32", "rr", {special}) ==
          Values{0, 0x80000000, 0, 0x80000000, kNan, kPlus, kNan, kNan});
    CHECK(evaluate("tanh.approx.f32", "rr", {special}) ==
          Values{0, 0x80000000, 1, 0x80000001, bits_of(static_cast<float>(std::tanh(-1.0))), kOne, 0xbf800000, kNan});
    CHECK(evaluate("ex2.approx.f32", "rr", {floats({128.0f, -149.0f})}) == Values{kPlus, 1});
    CHECK(evaluate("ex2.approx.ftz.f32", "rr", {floats({-149.0f})}) == Values{0});
    CHECK_THAT(refusal_of("tanh.approx.ftz.f32", "rr"), Catch::Contains("tanh has no .ftz form"));
}

TEST_CASE("f16 and bf16 arithmetic rounds once", "[sim]") {
    const Values f16 = {0, 0x8000, 1, 0x03ff, 0x0400, 0x3c00, 0x3c01, 0xbc00, 0x4248, 0x7bff, 0xfbff, 0x2e66, 0x1400};
    const Values bf16 = {0, 0x8000, 1, 0x007f, 0x0080, 0x3f80, 0x3f81, 0xbf80, 0x4049, 0x7f7f, 0x3dcd, 0xc2f7};
    for (const bool is_bf16 : {false, true}) {
        const NarrowFormat& format = is_bf16 ? bf16_values() : f16_values();
        const Values& values = is_bf16 ? bf16 : f16;
        const std::string type = is_bf16 ? ".bf16" : ".f16";
        auto value = [&](uint64_t bits) { return static_cast<Quad>(half_value(format, bits)); };
        auto negative = [](uint64_t bits) { return (bits & 0x8000) != 0; };
        const auto pairs = combinations({values, values});
        // Zero results: sums of unlike zeros are +0, products carry the exclusive or of the signs. bf16 sums span more
        // than 113 bits only when the small one is far below the last place; those pairs cannot change the nearest.
        check_instruction("add.rn" + type, "hhh", pairs, [&](const Values& v) {
            return half_bits(format, value(v[0]) + value(v[1]), negative(v[0]) && negative(v[1]));
        });
        check_instruction("mul.rn" + type, "hhh", pairs, [&](const Values& v) {
            return half_bits(format, value(v[0]) * value(v[1]), negative(v[0]) != negative(v[1]));
        });
        const Values nonzero = {values.begin() + 5, values.end()};
        check_instruction("fma.rn" + type, "hhhh", combinations({nonzero, nonzero, nonzero}), [&](const Values& v) {
            return half_bits(format, value(v[0]) * value(v[1]) + value(v[2]), false);
        });
        check_instruction("max.NaN" + type, "hhh", pairs, [&](const Values& v) {
            if (value(v[0]) == value(v[1])) return negative(v[0]) ? v[1] : v[0];
            return value(v[0]) > value(v[1]) ? v[0] : v[1];
        });
        CHECK(evaluate("neg" + type, "hh", {values})[5] == (values[5] ^ 0x8000));
        CHECK(evaluate("abs" + type, "hh", {values})[7] == values[5]);
        // Both halves of a pair, and .relu.
        const uint64_t one = values[5], minus = values[7];
        CHECK(evaluate("fma.rn.relu" + type + "x2", "rrrr",
                       {{one | one << 16}, {minus | one << 16}, {one | one << 16}}) ==
              Values{(is_bf16 ? 0x4000u : 0x4000u) << 16});
        CHECK(evaluate("add.rn" + type, "hhh", {{one}, {is_bf16 ? 0x7fc0u : 0x7e00u}}) == Values{0x7fff});
    }
    CHECK(evaluate("add.rn.ftz.f16", "hhh", {{0x0001}, {0x0001}}) == Values{0});
    CHECK(evaluate("add.rn.sat.f16", "hhh", {{0x3c00}, {0x3c00}}) == Values{0x3c00});
    CHECK(evaluate("ex2.approx.ftz.bf16x2", "rr", {{0x40003f80}}) == Values{0x40804000});
    CHECK(evaluate("ex2.approx.f16", "hh", {{0x4200}}) == Values{0x4800});
    CHECK(evaluate("tanh.approx.bf16", "hh", {{0x4120}}) == Values{0x3f80});
    CHECK_THAT(refusal_of("add.ftz.bf16", "hhh"), Catch::Contains("not modelled"));
}
