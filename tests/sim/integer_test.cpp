// Integer arithmetic, bit fields, logic and shifts against plain models (PTX ISA 9.7.1, 9.7.2, 9.7.8).
#include <algorithm>

#include "sim/evaluate.hpp"

using namespace nvfp4r::sim::test;

namespace {

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 Uint128;

const Values k32 = {0,          1,          2,          3,          5,          0x7f,       0x80,
                    0xff,       0x7fff,     0x8000,     0xffff,     0x10000,    0x12345678, 0x7fffffff,
                    0x80000000, 0x80000001, 0xdeadbeef, 0xfffffffe, 0xffffffff, 0x00ffffff};
const Values k64 = {0,
                    1,
                    7,
                    0xffffffff,
                    0x100000000,
                    0x123456789abcdef0,
                    0x7fffffffffffffff,
                    0x8000000000000000,
                    0x8000000000000001,
                    0xffffffffffffffff};
const Values k16 = {0, 1, 3, 0x7f, 0xff, 0x1234, 0x7fff, 0x8000, 0x8001, 0xfffe, 0xffff};
const Values kShifts = {0, 1, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 255, 256, 0xffffffff};

/// The value of a slot as a number of `bits` bits.
Int128 number(uint64_t slot, int bits, bool is_signed) {
    Int128 value = slot;
    if (bits < 64) value &= (Int128{1} << bits) - 1;
    if (is_signed && (value >> (bits - 1) & 1)) value -= Int128{1} << bits;
    return value;
}
uint64_t wrapped(Int128 value, int bits) {
    return static_cast<uint64_t>(bits < 64 ? value & ((Int128{1} << bits) - 1) : value);
}

struct IntegerType {
    const char* name;
    char kind;
    int bits;
    bool is_signed;
    const Values& values;
};
const IntegerType kTypes[] = {{"u16", 'h', 16, false, k16}, {"s16", 'h', 16, true, k16},  {"u32", 'r', 32, false, k32},
                              {"s32", 'r', 32, true, k32},  {"u64", 'd', 64, false, k64}, {"s64", 'd', 64, true, k64}};

}  // namespace

TEST_CASE("add, sub, mul, mad, min, max, sad, div, rem of every integer type", "[sim]") {
    for (const IntegerType& type : kTypes) {
        const std::string name = type.name;
        const std::string two = {type.kind, type.kind, type.kind};
        const std::string three = two + type.kind;
        const auto pairs = combinations({type.values, type.values});
        auto of = [&](uint64_t slot) { return number(slot, type.bits, type.is_signed); };
        auto check = [&](const std::string& text, auto op) {
            check_instruction(text + "." + name, two, pairs,
                              [&](const Values& v) { return wrapped(op(of(v[0]), of(v[1])), type.bits); });
        };
        check("add", [](Int128 a, Int128 b) { return a + b; });
        check("sub", [](Int128 a, Int128 b) { return a - b; });
        // The low half of a product does not depend on the sign; 64-bit products stay within 128 bits unsigned.
        check("mul.lo", [](Int128 a, Int128 b) {
            return static_cast<Int128>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
        });
        check("min", [](Int128 a, Int128 b) { return std::min(a, b); });
        check("max", [](Int128 a, Int128 b) { return std::max(a, b); });
        check("div", [&](Int128 a, Int128 b) { return b == 0 ? Int128{-1} : a / b; });
        check("rem", [&](Int128 a, Int128 b) { return b == 0 ? a : a % b; });
        if (type.bits < 64) {
            check("mul.hi", [&](Int128 a, Int128 b) { return (a * b) >> type.bits; });
            const std::string wide = {type.bits == 16 ? 'r' : 'd', type.kind, type.kind};
            check_instruction("mul.wide." + name, wide, pairs,
                              [&](const Values& v) { return wrapped(of(v[0]) * of(v[1]), 2 * type.bits); });
            const Values small = {0, 1, 0x7fff, 0x8000, 0xffff};
            const auto triples = combinations({small, small, {0, 5, 0xffffffff}});
            check_instruction("mad.wide." + name, wide + wide[0], triples, [&](const Values& v) {
                return wrapped(of(v[0]) * of(v[1]) + number(v[2], 2 * type.bits, type.is_signed), 2 * type.bits);
            });
            check_instruction("mad.hi." + name, three, combinations({small, small, small}), [&](const Values& v) {
                return wrapped(((of(v[0]) * of(v[1])) >> type.bits) + of(v[2]), type.bits);
            });
        }
        check_instruction("mad.lo." + name, three, combinations({k16, k16, k16}),
                          [&](const Values& v) { return wrapped(of(v[0]) * of(v[1]) + of(v[2]), type.bits); });
        check_instruction("sad." + name, three, combinations({k16, k16, {0, 9}}), [&](const Values& v) {
            const Int128 a = of(v[0]), b = of(v[1]);
            return wrapped((a < b ? b - a : a - b) + of(v[2]), type.bits);
        });
        if (!type.is_signed) continue;
        const std::string one = {type.kind, type.kind};
        check_instruction("neg." + name, one, {type.values},
                          [&](const Values& v) { return wrapped(-of(v[0]), type.bits); });
        check_instruction("abs." + name, one, {type.values},
                          [&](const Values& v) { return wrapped(of(v[0]) < 0 ? -of(v[0]) : of(v[0]), type.bits); });
    }
}

TEST_CASE("64-bit mul.hi, saturating, 24-bit, relu and paired integer forms", "[sim]") {
    check_instruction("mul.hi.u64", "ddd", combinations({k64, k64}), [](const Values& v) {
        // Schoolbook in 32-bit halves.
        const uint64_t al = v[0] & 0xffffffff, ah = v[0] >> 32, bl = v[1] & 0xffffffff, bh = v[1] >> 32;
        const uint64_t middle = ah * bl + ((al * bl) >> 32);
        return ah * bh + (middle >> 32) + (((middle & 0xffffffff) + al * bh) >> 32);
    });
    auto s32 = [](uint64_t slot) { return number(slot, 32, true); };
    auto saturated = [](Int128 value) { return wrapped(std::clamp<Int128>(value, INT32_MIN, INT32_MAX), 32); };
    const auto pairs = combinations({k32, k32});
    check_instruction("add.sat.s32", "rrr", pairs, [&](const Values& v) { return saturated(s32(v[0]) + s32(v[1])); });
    check_instruction("sub.sat.s32", "rrr", pairs, [&](const Values& v) { return saturated(s32(v[0]) - s32(v[1])); });
    check_instruction("mad.hi.sat.s32", "rrrr", combinations({k32, k32, k32}),
                      [&](const Values& v) { return saturated(((s32(v[0]) * s32(v[1])) >> 32) + s32(v[2])); });
    check_instruction("max.relu.s32", "rrr", pairs, [&](const Values& v) {
        return wrapped(std::max<Int128>(0, std::max(s32(v[0]), s32(v[1]))), 32);
    });
    check_instruction("min.relu.s32", "rrr", pairs, [&](const Values& v) {
        return wrapped(std::max<Int128>(0, std::min(s32(v[0]), s32(v[1]))), 32);
    });
    for (const bool is_signed : {false, true}) {
        const std::string type = is_signed ? ".s32" : ".u32";
        auto low = [&](uint64_t slot) { return number(slot, 24, is_signed); };
        check_instruction("mul24.lo" + type, "rrr", pairs,
                          [&](const Values& v) { return wrapped(low(v[0]) * low(v[1]), 32); });
        check_instruction("mul24.hi" + type, "rrr", pairs,
                          [&](const Values& v) { return wrapped((low(v[0]) * low(v[1])) >> 16, 32); });
        check_instruction("mad24.lo" + type, "rrrr", combinations({k16, k32, k16}), [&](const Values& v) {
            return wrapped(low(v[0]) * low(v[1]) + number(v[2], 32, is_signed), 32);
        });
        auto halves = [&](const Values& v, auto op) {
            uint64_t result = 0;
            for (int shift : {0, 16}) {
                result |= wrapped(op(number(v[0] >> shift, 16, is_signed), number(v[1] >> shift, 16, is_signed)), 16)
                          << shift;
            }
            return result;
        };
        const std::string x2 = is_signed ? ".s16x2" : ".u16x2";
        check_instruction("add" + x2, "rrr", pairs,
                          [&](const Values& v) { return halves(v, [](Int128 a, Int128 b) { return a + b; }); });
        check_instruction("max" + x2, "rrr", pairs, [&](const Values& v) {
            return halves(v, [](Int128 a, Int128 b) { return std::max(a, b); });
        });
        check_instruction("min" + x2, "rrr", pairs, [&](const Values& v) {
            return halves(v, [](Int128 a, Int128 b) { return std::min(a, b); });
        });
    }
    CHECK_THAT(refusal_of("add.sat.u32", "rrr"), Catch::Contains(".sat is for .s32"));
    CHECK_THAT(refusal_of("mul.u32", "rrr"), Catch::Contains("one of .lo, .hi and .wide is wanted"));
    CHECK_THAT(refusal_of("add.u32", "rrh"), Catch::Contains("register v2 has 16 bits where 32 are wanted"));
}

TEST_CASE("carry chains add, subtract and multiply 128-bit numbers", "[sim]") {
    // {lo, hi} arrives in two registers; the second instruction takes the carry of the first.
    const auto four = combinations({k64, {0, 1, ~uint64_t{0}}, k64, {0, 1, ~uint64_t{0}}});
    const Values got = evaluate("add.cc.u64 v1, v1, v3; addc.u64 v0, v2, v4;", "ddddd", four);
    const Values borrow = evaluate("sub.cc.u64 v1, v1, v3; subc.u64 v0, v2, v4;", "ddddd", four);
    const Values product = evaluate("mad.lo.cc.u64 v0, v1, v3, v2; madc.hi.u64 v0, v1, v3, v4;", "ddddd", four);
    for (size_t row = 0; row < got.size(); ++row) {
        const auto a = static_cast<Int128>(four[1][row]) << 64 | four[0][row];
        const auto b = static_cast<Int128>(four[3][row]) << 64 | four[2][row];
        CHECK(got[row] == static_cast<uint64_t>((static_cast<Uint128>(a) + static_cast<Uint128>(b)) >> 64));
        const auto addend = static_cast<Uint128>(four[3][row]) << 64 | four[1][row];
        CHECK(product[row] ==
              static_cast<uint64_t>((static_cast<Uint128>(four[0][row]) * four[2][row] + addend) >> 64));
        CHECK(borrow[row] == static_cast<uint64_t>((static_cast<Uint128>(a) - static_cast<Uint128>(b)) >> 64));
    }
}

TEST_CASE("popc, clz, bfind, brev, bfe, bfi, szext, bmsk, fns", "[sim]") {
    auto bit = [](uint64_t value, int i) { return value >> i & 1; };
    for (const bool wide : {false, true}) {
        const int bits = wide ? 64 : 32;
        const Values& values = wide ? k64 : k32;
        const std::string kind(1, wide ? 'd' : 'r'), b = wide ? ".b64" : ".b32";
        check_instruction("popc" + b, "r" + kind, {values}, [&](const Values& v) {
            uint64_t count = 0;
            for (int i = 0; i < bits; ++i) count += bit(v[0], i);
            return count;
        });
        check_instruction("clz" + b, "r" + kind, {values}, [&](const Values& v) {
            uint64_t count = 0;
            while (count < static_cast<uint64_t>(bits) && !bit(v[0], bits - 1 - static_cast<int>(count))) ++count;
            return count;
        });
        check_instruction("brev" + b, kind + kind, {values}, [&](const Values& v) {
            uint64_t value = 0;
            for (int i = 0; i < bits; ++i) value |= bit(v[0], i) << (bits - 1 - i);
            return value;
        });
        for (const bool is_signed : {false, true}) {
            const std::string type = std::string(is_signed ? ".s" : ".u") + (wide ? "64" : "32");
            auto highest = [&](uint64_t value) {
                const uint64_t sign = is_signed ? bit(value, bits - 1) : 0;
                for (int i = bits - 1; i >= 0; --i) {
                    if (bit(value, i) != sign) return i;
                }
                return -1;
            };
            check_instruction("bfind" + type, "r" + kind, {values},
                              [&](const Values& v) { return static_cast<uint64_t>(highest(v[0])) & 0xffffffff; });
            check_instruction("bfind.shiftamt" + type, "r" + kind, {values}, [&](const Values& v) {
                const int high = highest(v[0]);
                return high < 0 ? 0xffffffff : static_cast<uint64_t>(bits - 1 - high);
            });
            check_instruction("bfe" + type, kind + kind + "rr", combinations({values, kShifts, kShifts}),
                              [&](const Values& v) {
                                  // The pseudocode of PTX ISA 9.7.1.17, bit by bit.
                                  const int pos = v[1] & 0xff, len = v[2] & 0xff;
                                  uint64_t sign = 0, value = 0;
                                  if (is_signed && len != 0) sign = bit(v[0], std::min(pos + len - 1, bits - 1));
                                  for (int i = 0; i < bits; ++i) {
                                      value |= (i < len && pos + i <= bits - 1 ? bit(v[0], pos + i) : sign) << i;
                                  }
                                  return value;
                              });
        }
        check_instruction("bfi" + b, kind + kind + kind + "rr",
                          combinations({{0x5a, 0xffffffff}, values, kShifts, kShifts}), [&](const Values& v) {
                              const int pos = v[2] & 0xff, len = v[3] & 0xff;
                              uint64_t value = v[1];
                              for (int i = 0; i < len && pos + i <= bits - 1; ++i) {
                                  value &= ~(uint64_t{1} << (pos + i));
                                  value |= bit(v[0], i) << (pos + i);
                              }
                              return value;
                          });
    }
    check_instruction("szext.clamp.s32", "rrr", combinations({k32, kShifts}), [](const Values& v) {
        return v[1] == 0 ? 0 : wrapped(number(v[0], static_cast<int>(std::min<uint64_t>(v[1], 32)), true), 32);
    });
    check_instruction("szext.wrap.u32", "rrr", combinations({k32, kShifts}), [](const Values& v) {
        return (v[1] & 31) == 0 ? 0 : wrapped(number(v[0], static_cast<int>(v[1] & 31), false), 32);
    });
    check_instruction("bmsk.clamp.b32", "rrr", combinations({kShifts, kShifts}), [](const Values& v) {
        uint64_t value = 0;
        for (uint64_t i = 0; i < std::min<uint64_t>(v[1], 32) && v[0] + i < 32; ++i) value |= uint64_t{1} << (v[0] + i);
        return value;
    });
    // Find the n-th set bit (PTX ISA 9.7.1.18).
    CHECK(
        evaluate("fns.b32", "rrrr",
                 {{0xaaaa, 0xaaaa, 0xaaaa, 0xaaaa, 0xaaaa}, {3, 3, 3, 3, 2}, {1, 2, uint32_t(-1), uint32_t(-2), 0}}) ==
        Values{3, 5, 3, 1, 0xffffffff});
    check_instruction("dp4a.u32.s32", "rrrr", combinations({k32, k32, {0, 0x80000000}}), [](const Values& v) {
        Int128 sum = number(v[2], 32, true);
        for (int i = 0; i < 32; i += 8) sum += number(v[0] >> i, 8, false) * number(v[1] >> i, 8, true);
        return wrapped(sum, 32);
    });
    check_instruction("dp2a.hi.s32.u32", "rrrr", combinations({k32, k32, {0, 7}}), [](const Values& v) {
        Int128 sum = number(v[2], 32, true);
        sum += number(v[0], 16, true) * number(v[1] >> 16, 8, false);
        sum += number(v[0] >> 16, 16, true) * number(v[1] >> 24, 8, false);
        return wrapped(sum, 32);
    });
}

TEST_CASE("logic, shifts, funnel shifts, lop3 and prmt", "[sim]") {
    const auto pairs = combinations({k32, k32});
    check_instruction("and.b32", "rrr", pairs, [](const Values& v) { return v[0] & v[1]; });
    check_instruction("or.b64", "ddd", combinations({k64, k64}), [](const Values& v) { return v[0] | v[1]; });
    check_instruction("xor.b16", "hhh", combinations({k16, k16}), [](const Values& v) { return v[0] ^ v[1]; });
    check_instruction("not.b32", "rr", {k32}, [](const Values& v) { return v[0] ^ 0xffffffff; });
    check_instruction("not.b16", "hh", {k16}, [](const Values& v) { return v[0] ^ 0xffff; });
    check_instruction("cnot.b32", "rr", {k32}, [](const Values& v) { return v[0] == 0 ? 1u : 0u; });
    check_instruction("xor.pred", "ppp", combinations({{0, 1}, {0, 1}}), [](const Values& v) { return v[0] ^ v[1]; });
    check_instruction("not.pred", "pp", {{0, 1}}, [](const Values& v) { return v[0] ^ 1; });
    check_instruction("shl.b32", "rrr", combinations({k32, kShifts}),
                      [](const Values& v) { return v[1] > 31 ? 0 : v[0] << v[1] & 0xffffffff; });
    check_instruction("shr.u32", "rrr", combinations({k32, kShifts}),
                      [](const Values& v) { return v[1] > 31 ? 0 : v[0] >> v[1]; });
    check_instruction("shr.s32", "rrr", combinations({k32, kShifts}), [](const Values& v) {
        return wrapped(number(v[0], 32, true) >> std::min<uint64_t>(v[1], 31), 32);
    });
    check_instruction("shr.s64", "ddr", combinations({k64, kShifts}), [](const Values& v) {
        return wrapped(number(v[0], 64, true) >> std::min<uint64_t>(v[1], 63), 64);
    });
    check_instruction("shr.s16", "hhr", combinations({k16, kShifts}), [](const Values& v) {
        return wrapped(number(v[0], 16, true) >> std::min<uint64_t>(v[1], 15), 16);
    });
    for (const bool wrap : {false, true}) {
        const std::string mode = wrap ? ".wrap.b32" : ".clamp.b32";
        const auto triples = combinations({k32, {0x01234567, 0x89abcdef}, kShifts});
        auto amount = [&](uint64_t c) { return static_cast<int>(wrap ? c % 32 : std::min<uint64_t>(c, 32)); };
        check_instruction("shf.l" + mode, "rrrr", triples, [&](const Values& v) {
            return static_cast<uint64_t>(((static_cast<Uint128>(v[1]) << 32 | v[0]) << amount(v[2])) >> 32) &
                   0xffffffff;
        });
        check_instruction("shf.r" + mode, "rrrr", triples, [&](const Values& v) {
            return static_cast<uint64_t>((static_cast<Uint128>(v[1]) << 32 | v[0]) >> amount(v[2])) & 0xffffffff;
        });
    }
    for (const uint32_t table : {0x00u, 0x01u, 0x1eu, 0x80u, 0xe8u, 0x96u, 0xcau, 0xffu}) {
        check_instruction(
            "lop3.b32", "rrrr", combinations({k32, {0xf0f0cc55, 0x12345678}, {0xff00aa33}}),
            [&](const Values& v) {
                uint64_t value = 0;
                for (int i = 0; i < 32; ++i) {
                    const auto row = (v[0] >> i & 1) * 4 + (v[1] >> i & 1) * 2 + (v[2] >> i & 1);
                    value |= uint64_t{table >> row & 1} << i;
                }
                return value;
            },
            ", " + std::to_string(table));
    }
    const Values a = {0x03020180}, b = {0x07868504};
    check_instruction("prmt.b32", "rrrr", combinations({a, b, {0x0000, 0x7654, 0x3210, 0x8888, 0xf0e1, 0x6ddc}}),
                      [](const Values& v) {
                          uint64_t value = 0;
                          for (int i = 0; i < 4; ++i) {
                              const auto pick = v[2] >> (4 * i) & 0xf;
                              const uint64_t byte = ((pick & 4 ? v[1] : v[0]) >> (8 * (pick & 3))) & 0xff;
                              value |= (pick & 8 ? (byte >> 7) * 0xff : byte) << (8 * i);
                          }
                          return value;
                      });
    // The mode tables of PTX ISA 9.7.9.7: selectors of bytes 3..0 for c = 0, 1, 2, 3.
    const struct {
        const char* mode;
        uint32_t selectors[4];
    } kModes[] = {{".f4e", {0x3210, 0x4321, 0x5432, 0x6543}}, {".b4e", {0x5670, 0x6701, 0x7012, 0x0123}},
                  {".rc8", {0x0000, 0x1111, 0x2222, 0x3333}}, {".ecl", {0x3210, 0x3211, 0x3222, 0x3333}},
                  {".ecr", {0x0000, 0x1110, 0x2210, 0x3210}}, {".rc16", {0x1010, 0x3232, 0x1010, 0x3232}}};
    for (const auto& [mode, selectors] : kModes) {
        check_instruction(std::string("prmt.b32") + mode, "rrrr",
                          combinations({{0x13121110}, {0x17161514}, {0, 1, 2, 3}}), [&](const Values& v) {
                              uint64_t value = 0;
                              for (int i = 0; i < 4; ++i) value |= (0x10 + (selectors[v[2]] >> (4 * i) & 7)) << (8 * i);
                              return value;
                          });
    }
    CHECK_THAT(refusal_of("shf.l.b32", "rrrr"), Catch::Contains("one of .clamp and .wrap is wanted"));
    CHECK_THAT(refusal_of("and.u32", "rrr"), Catch::Contains("the type is one of"));
}
