#include "silicon/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "silicon/stored.hpp"

namespace nvfp4r::silicon {

namespace {

constexpr unsigned kColumns = 4, kSlotBytes = 64;

constexpr uint64_t kWords[] = {0,
                               1,
                               2,
                               3,
                               7,
                               31,
                               32,
                               33,
                               63,
                               64,
                               65,
                               127,
                               128,
                               255,
                               256,
                               0x7fff,
                               0x8000,
                               0xffff,
                               0x10000,
                               0x7fffffff,
                               0x80000000,
                               0xffffffff,
                               0x100000000,
                               0x7fffffffffffffff,
                               0x8000000000000000,
                               0xffffffffffffffff,
                               0xfffffffffffffffe,
                               0xaaaaaaaaaaaaaaaa,
                               0x5555555555555555,
                               0x0123456789abcdef};
// Zero, subnormals, the edges of the normal range, ties of the narrower formats and of integers, Inf, quiet and
// signalling NaN.
constexpr uint32_t kF32[] = {0x00000000, 0x00000001, 0x007fffff, 0x00800000, 0x00800001, 0x3f800000, 0x3f800001,
                             0x3f7fffff, 0x3f000000, 0x3fc00000, 0x40200000, 0x40000000, 0x40490fdb, 0x7f7fffff,
                             0x7f800000, 0x7fc00000, 0x7f800001, 0x7fa12345, 0x4b000001, 0x4b800000, 0x4f000000,
                             0x4effffff, 0x4f7fffff, 0x4f800000, 0x5f000000, 0x5f800000, 0x477fe000, 0x477ff000,
                             0x477fefff, 0x43e00000, 0x43e80000, 0x47600000, 0x47700000, 0x33000000, 0x33800000,
                             0x38800000, 0x387fc000, 0x3a800000, 0x3b000000, 0x37800000, 0x00400000, 0x42fe0000,
                             0x42ff0000, 0x437f0000, 0x437f8000, 0x47000000, 0x3effffff, 0x3f808000, 0x3f801000};
constexpr uint64_t kF64[] = {
    0x0000000000000000, 0x0000000000000001, 0x000fffffffffffff, 0x0010000000000000, 0x3ff0000000000000,
    0x3ff0000000000001, 0x3fefffffffffffff, 0x3fe0000000000000, 0x3ff8000000000000, 0x4004000000000000,
    0x7fefffffffffffff, 0x7ff0000000000000, 0x7ff8000000000000, 0x7ff0000000000001, 0x7ff4123456789abc,
    0x41dfffffffc00000, 0x41e0000000000000, 0x41efffffffe00000, 0x43e0000000000000, 0x43f0000000000000,
    0x380fffffffffffff, 0x3810000000000000, 0x36a0000000000000, 0x3690000000000000, 0x47efffffe0000000,
    0x47efffffefffffff, 0x47effffff0000000, 0x3ff0000010000000, 0x3ff0000030000000, 0x4330000000000001};
constexpr uint16_t kF16[] = {0x0000, 0x0001, 0x03ff, 0x0400, 0x0401, 0x3c00, 0x3c01, 0x3bff, 0x3800, 0x3e00,
                             0x4100, 0x7bff, 0x7c00, 0x7e00, 0x7c01, 0x7d23, 0x5bff, 0x6800, 0x77ff, 0x7800};
constexpr uint16_t kBf16[] = {0x0000, 0x0001, 0x007f, 0x0080, 0x0081, 0x3f80, 0x3f81, 0x3f7f, 0x3f00, 0x3fc0,
                              0x4020, 0x7f7f, 0x7f80, 0x7fc0, 0x7f81, 0x7fa3, 0x4380, 0x4f00, 0x3380, 0x7f00};

template <class T, size_t n>
T one_of(const T (&values)[n], Random& random) {
    return values[random.below(n)];
}

// One value of a format of `fraction` fraction bits and `width` bits: from the list, random bits, or of an exponent
// near that of 1 so that sums and products of such stay in range and cancel.
template <class T, size_t n>
uint64_t float_sample(const T (&list)[n], unsigned width, unsigned fraction, uint64_t one, Random& random) {
    const uint64_t sign = (random.next() >> 63) << (width - 1);
    const uint64_t mask = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
    switch (random.below(5)) {
        case 0:
        case 1: return one_of(list, random) | sign;
        case 2: return random.next() & mask;
        case 3: {
            const uint64_t exponent = (one >> fraction) + random.below(9) - 4;
            return exponent << fraction | (random.next() & ((uint64_t{1} << fraction) - 1)) | sign;
        }
        default: {  // few significant bits: products and sums that are exact or ties
            const uint64_t exponent = (one >> fraction) + random.below(5) - 2;
            return exponent << fraction | random.below(8) << (fraction - 3) | sign;
        }
    }
}

// One element of a matrix: of an exponent up to `spread` / 2 away from 1, zero, subnormal, or seldom a listed value.
template <size_t n>
uint64_t matrix_sample(const uint16_t (&list)[n], unsigned fraction, unsigned bias, unsigned spread, Random& random) {
    const uint64_t sign = (random.next() >> 63) << 15;
    const uint64_t low = random.next() & ((uint64_t{1} << fraction) - 1);
    const uint64_t choice = random.below(200);
    if (choice == 0) return one_of(list, random) | sign;
    if (choice < 10) return sign;
    if (choice < 20) return low | sign;
    const uint64_t span = choice < 140 ? 6 : spread;
    const uint64_t exponent = bias + random.below(span) - span / 2;
    return std::max<uint64_t>(exponent, 1) << fraction | low | sign;
}

// Near 1, a half or 2, or near the least normal number or its double; all within a few units of a power of two.
uint64_t tiny_sample(unsigned fraction, unsigned bias, Random& random) {
    const uint64_t exponent = random.below(2) ? bias - 1 + random.below(3) : 1 + random.below(2);
    const uint64_t near = (exponent << fraction) + random.below(8) - 4;
    return near | random.below(2) << (fraction + (bias == 127 ? 8 : 5));
}

std::string operands(const Form& form) {
    std::string text = fmt::format(" {}o", form.kinds[0]);
    for (size_t i = 1; i < form.kinds.size(); ++i) text += fmt::format(", {}{}", form.kinds[i], i);
    return text + form.tail + ";";
}

std::string instructions(const Form& form) {
    return form.text.find(';') == std::string::npos ? form.text + operands(form) : form.text;
}

}  // namespace

void add_forms(std::vector<Form>& forms, const std::string& pattern, const std::string& kinds,
               const std::string& tail) {
    for (const std::string& text : expand(pattern)) forms.push_back({text, kinds, tail});
}

uint64_t sample(Values values, Random& random) {
    uint64_t out = 0;
    switch (values) {
        case Values::words:
            switch (random.below(4)) {
                case 0: return one_of(kWords, random);
                case 1: return random.below(80);
                case 2: return (uint64_t{1} << random.below(64)) - random.below(2);
                default: return random.next();
            }
        case Values::f32:
            for (unsigned at = 0; at < 64; at += 32) out |= float_sample(kF32, 32, 23, 0x3f800000, random) << at;
            return out;
        case Values::f64: return float_sample(kF64, 64, 52, 0x3ff0000000000000, random);
        case Values::f16:
            for (unsigned at = 0; at < 64; at += 16) out |= float_sample(kF16, 16, 10, 0x3c00, random) << at;
            return out;
        case Values::bf16:
            for (unsigned at = 0; at < 64; at += 16) out |= float_sample(kBf16, 16, 7, 0x3f80, random) << at;
            return out;
        case Values::eight_bit: return random.next();
        case Values::angles: {
            // A random fraction of pi, a small one, or a subnormal.
            const unsigned shift = static_cast<unsigned>(random.below(3)) * 60;
            const double part = static_cast<double>(random.below(1u << 24)) / (1u << 24);
            const auto angle = static_cast<float>(std::ldexp(3.14159 * part, -static_cast<int>(shift)));
            return std::bit_cast<uint32_t>(random.below(2) ? angle : -angle);
        }
        case Values::f32_tiny:
            for (unsigned at = 0; at < 64; at += 32) out |= tiny_sample(23, 127, random) << at;
            return out;
        case Values::f16_tiny:
            for (unsigned at = 0; at < 64; at += 16) out |= tiny_sample(10, 15, random) << at;
            return out;
        case Values::f16_matrix:
            for (unsigned at = 0; at < 64; at += 16) out |= matrix_sample(kF16, 10, 15, 30, random) << at;
            return out;
        case Values::bf16_matrix:
            for (unsigned at = 0; at < 64; at += 16) out |= matrix_sample(kBf16, 7, 127, 60, random) << at;
            return out;
        case Values::eight_bit_matrix:
            for (unsigned at = 0; at < 64; at += 8) {
                const uint64_t byte = random.next() & 0xff;
                const bool special = (byte & 0x7f) >= 0x7c;  // e4m3 NaN, e5m2 Inf and NaN
                out |= (special && random.below(50) ? byte & 0xbf : byte) << at;
            }
            return out;
    }
    return out;
}

Program table_program(const std::string& name, const std::vector<Form>& forms, const std::vector<Values>& columns,
                      uint64_t seed, unsigned rows) {
    Program program;
    program.name = name;
    program.launches = {{.entry = "k", .grid = rows / kTableBlock, .block = kTableBlock}};
    Random random(seed);
    Buffer table, out, scratch;
    for (unsigned row = 0; row < rows; ++row) {
        for (unsigned c = 0; c < kColumns; ++c) {
            const uint64_t value = sample(columns[std::min<size_t>(c, columns.size() - 1)], random);
            const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
            table.bytes.insert(table.bytes.end(), bytes, bytes + sizeof(value));
        }
    }
    std::string body;
    uint64_t at = 0;
    for (const Form& form : forms) {
        const uint64_t width = form.kinds[0] == 'd' ? 8 : 4;
        body += instructions(form) + "\n";
        switch (form.kinds[0]) {
            case 'h': body += "cvt.u32.u16 ro, ho;\n"; break;
            case 'p': body += "selp.u32 ro, 1, 0, po;\n"; break;
            default: break;
        }
        body += fmt::format("st.global.b{} [o{}+{}], {};\n", width * 8, width, at, width == 8 ? "do" : "ro");
        at += width * rows;
        for (uint64_t block = 0; block < width * rows / kBlockBytes; ++block)
            program.labels.push_back(form.text + form.tail);
    }
    out.bytes.resize(at);
    out.output = true;
    scratch.bytes.resize(size_t{rows} * kSlotBytes);
    program.buffers = {table, out, scratch};
    std::string columns_text;
    for (unsigned c = 1; c <= kColumns; ++c) {
        columns_text += fmt::format(
            "ld.global.b64 d{0}, [base+{1}];\ncvt.u32.u64 r{0}, d{0};\ncvt.u16.u64 h{0}, d{0};\n"
            "and.b32 r9, r{0}, 1;\nsetp.ne.u32 p{0}, r9, 0;\n",
            c, (c - 1) * 8);
    }
    program.ptx = fmt::format(
        ".version 8.6\n.target sm_90a\n.address_size 64\n"
        ".visible .entry k(.param .u64 in, .param .u64 out, .param .u64 scratch) {{\n"
        ".shared .align 64 .b8 slots[{0}];\n.local .align 16 .b8 stack[64];\n"
        ".reg .b64 base, q, o4, o8, do, d<10>;\n.reg .b32 row, cta, lane, s, ro, r<10>;\n.reg .b16 ho, h<10>;\n"
        ".reg .pred po, p<10>;\n"
        "mov.u32 row, %tid.x;\nmov.u32 cta, %ctaid.x;\nmov.u32 lane, %laneid;\n"
        "mov.u32 s, slots;\nshl.b32 r9, row, 6;\nadd.u32 s, s, r9;\nmad.lo.u32 row, cta, {1}, row;\n"
        "ld.param.u64 q, [scratch];\nmul.wide.u32 d9, row, {2};\nadd.u64 q, q, d9;\n"
        "ld.param.u64 o4, [out];\nmul.wide.u32 d9, row, 4;\nadd.u64 o8, o4, d9;\nadd.u64 o4, o4, d9;\n"
        "add.u64 o8, o8, d9;\nld.param.u64 base, [in];\nmul.wide.u32 d9, row, {3};\nadd.u64 base, base, d9;\n{4}{5}"
        "ret;\n}}\n",
        kTableBlock * kSlotBytes, kTableBlock, kSlotBytes, kColumns * 8, columns_text, body);
    return program;
}

}  // namespace nvfp4r::silicon
