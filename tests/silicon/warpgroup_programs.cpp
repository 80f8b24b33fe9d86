// wgmma (PTX ISA 9.7.15): both operands from shared memory or A from registers, K-major and transposed, every swizzle,
// several N, negated and not accumulating. Shared memory holds random values, so a layout read wrongly cannot pass.
#include "silicon/engine_text.hpp"

namespace nvfp4r::silicon {

namespace {

constexpr unsigned kWarpgroupThreads = 128;
constexpr unsigned kShared = 56 * 1024, kOffsetB = 16 * 1024;

struct Operand {
    unsigned swizzle = 0;  // span in bytes: 0, 32, 64, 128
    bool transposed = false;
    unsigned start = 0;        // beyond the operand's area, bytes
    unsigned base_offset = 0;  // of the swizzle's phase
};

struct Multiply {
    std::string types = "f32.f16.f16";
    unsigned n = 64;
    Operand a = {}, b = {};
    bool a_in_registers = false;
    int sign_a = 1, sign_b = 1;
    bool accumulate = true;
    unsigned steps = 1;  // multiplies along K, 32 bytes each
};

bool eight_bit(const Multiply& m) {
    return m.types.find(".e") != std::string::npos;
}

// Leading and stride byte offsets of a dense tile of `rows` (isa.md 2.3; transposed: PTX ISA 9.7.15.5.1).
void offsets_of(const Operand& operand, unsigned rows, unsigned& leading, unsigned& stride) {
    if (!operand.transposed) {
        leading = operand.swizzle == 0 ? rows * 16 : 16;
        stride = operand.swizzle == 0 ? 128 : operand.swizzle * 8;
        return;
    }
    // Transposed: a chunk of 16 bytes holds 8 rows; 8 chunks of consecutive k are a core matrix.
    if (operand.swizzle == 0) {
        stride = 128;
        leading = rows / 8 * 128;
    } else {
        stride = operand.swizzle * 8;
        leading = operand.swizzle * 16;
    }
}

uint64_t descriptor(const Operand& operand, unsigned rows) {
    unsigned leading = 0, stride = 0;
    offsets_of(operand, rows, leading, stride);
    const uint64_t swizzle = operand.swizzle == 128 ? 1 : operand.swizzle == 64 ? 2 : operand.swizzle == 32 ? 3 : 0;
    return uint64_t{leading / 16} << 16 | uint64_t{stride / 16} << 32 | uint64_t{operand.base_offset} << 49 |
           swizzle << 62;
}

std::string registers(const char* prefix, unsigned first, unsigned count) {
    std::string list = "{";
    for (unsigned i = 0; i < count; ++i) list += fmt::format("{}{}{}", i ? ", " : "", prefix, first + i);
    return list + "}";
}

std::string describe(const Operand& operand) {
    return fmt::format("{}{}{}{}", operand.swizzle ? fmt::format("{}B", operand.swizzle) : "none",
                       operand.transposed ? " transposed" : "",
                       operand.start ? fmt::format(" at {}", operand.start) : "",
                       operand.base_offset ? fmt::format(" base {}", operand.base_offset) : "");
}

std::string name_of(const Multiply& m) {
    return fmt::format("wgmma {} n{} A {} B {}{}{}{}{}", m.types, m.n, m.a_in_registers ? "registers" : describe(m.a),
                       describe(m.b), m.sign_a < 0 ? " -A" : "", m.sign_b < 0 ? " -B" : "", m.accumulate ? "" : " no C",
                       m.steps > 1 ? fmt::format(" {} steps", m.steps) : "");
}

Values values_of(const Multiply& m) {
    if (eight_bit(m)) return Values::eight_bit_matrix;
    return m.types.find("bf16") != std::string::npos ? Values::bf16_matrix : Values::f16_matrix;
}

void add(Programs& programs, const Multiply& m, uint64_t seed) {
    const bool f16_result = m.types.starts_with("f16");
    const unsigned words = f16_result ? m.n / 4 : m.n / 2;
    Program program;
    program.name = name_of(m);
    Buffer out;
    out.bytes.resize(size_t{words} * 4 * kWarpgroupThreads);
    out.output = true;
    program.buffers = {{random_bytes(values_of(m), kShared, seed)},
                       {random_bytes(f16_result ? Values::f16_matrix : Values::f32, out.bytes.size(), seed + 1)},
                       out,
                       {random_bytes(values_of(m), size_t{kWarpgroupThreads} * 16, seed + 2)}};
    std::string body =
        copy_text(true, "%b0", 0, 0, kShared, kWarpgroupThreads, "in") + "fence.proxy.async;\nbar.sync 0;\n";
    body +=
        "mul.wide.u32 %d1, %tid_x, 4;\nadd.u64 %d2, %b1, %d1;\nadd.u64 %d3, %b2, %d1;\nmul.wide.u32 %d1, %tid_x, 16;\n"
        "add.u64 %d4, %b3, %d1;\nld.global.v4.b32 {%r300, %r301, %r302, %r303}, [%d4];\n";
    for (unsigned i = 0; i < words; ++i)
        body += fmt::format("ld.global.b32 %r{}, [%d2+{}];\n", i, i * 4 * kWarpgroupThreads);
    body += fmt::format(
        "mov.u32 %r310, sm;\nadd.u32 %r311, %r310, {};\nadd.u32 %r312, %r310, {};\nshr.u32 %r311, %r311, 4;\n"
        "shr.u32 %r312, %r312, 4;\ncvt.u64.u32 %d10, %r311;\ncvt.u64.u32 %d11, %r312;\nor.b64 %d10, %d10, {:#x};\n"
        "or.b64 %d11, %d11, {:#x};\nsetp.eq.u32 %p1, %r310, {};\nwgmma.fence.sync.aligned;\n",
        m.a.start, kOffsetB + m.b.start, descriptor(m.a, 64), descriptor(m.b, m.n),
        // Never equal, or always: the address is a multiple of 1024.
        m.accumulate ? "%r310" : "1");
    for (unsigned step = 0; step < m.steps; ++step) {
        if (step > 0) body += "add.u64 %d10, %d10, 2;\nadd.u64 %d11, %d11, 2;\n";
        const std::string transposes = eight_bit(m) ? ""
                                       : m.a_in_registers
                                           ? fmt::format(", {}", int{m.b.transposed})
                                           : fmt::format(", {}, {}", int{m.a.transposed}, int{m.b.transposed});
        body += fmt::format("wgmma.mma_async.sync.aligned.m64n{}k{}.{} {}, {}, %d11, %p1, {}, {}{};\n", m.n,
                            eight_bit(m) ? 32 : 16, m.types, registers("%r", 0, words),
                            m.a_in_registers ? registers("%r", 300, 4) : "%d10", m.sign_a, m.sign_b, transposes);
    }
    body += "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";
    for (unsigned i = 0; i < words; ++i)
        body += fmt::format("st.global.b32 [%d3+{}], %r{};\n", i * 4 * kWarpgroupThreads, i);
    program.launches = {{.block = kWarpgroupThreads, .shared = kShared}};
    program.ptx = engine_module(program, body);
    programs.push_back(program);
}

}  // namespace

void add_warpgroup_programs(Programs& programs) {
    uint64_t seed = 600;
    const auto plain = [](unsigned swizzle) { return Operand{.swizzle = swizzle}; };
    const auto across = [](unsigned swizzle) { return Operand{.swizzle = swizzle, .transposed = true}; };
    for (const char* type : {"f16", "bf16"}) {
        const std::string types = std::string("f32.") + type + "." + type;
        const unsigned spans[] = {0, 32, 64, 128};
        const unsigned widths[] = {8, 24, 64, 200, 256, 128};
        for (unsigned i = 0; i < 6; ++i)
            add(programs,
                {.types = types, .n = widths[i], .a = plain(spans[i % 4]), .b = plain(spans[(i + i / 4) % 4])},
                seed += 10);
        for (const unsigned span : spans) {
            add(programs, {.types = types, .n = 64, .a = plain(128), .b = across(span)}, seed += 10);
            add(programs, {.types = types, .n = 128, .a = across(span), .b = plain(128)}, seed += 10);
        }
        add(programs, {.types = types, .n = 192, .a = across(64), .b = across(128)}, seed += 10);
        for (const unsigned n : {16u, 40u, 96u})
            add(programs, {.types = types, .n = n, .b = plain(n == 40 ? 0 : 128), .a_in_registers = true}, seed += 10);
        add(programs, {.types = types, .n = 64, .b = across(64), .a_in_registers = true}, seed += 10);
        add(programs, {.types = types, .n = 32, .a = plain(128), .b = plain(128), .sign_a = -1}, seed += 10);
        add(programs, {.types = types, .n = 32, .a = plain(64), .b = plain(32), .sign_b = -1}, seed += 10);
        add(programs, {.types = types, .n = 48, .a = plain(128), .b = plain(128), .accumulate = false}, seed += 10);
        add(programs, {.types = types, .n = 64, .a = plain(128), .b = plain(128), .steps = 4}, seed += 10);
    }
    // An operand may start at any row of the swizzle's period; the base offset moves the phase (hopper-facts 5.1).
    for (const unsigned row : {1u, 3u, 6u})
        for (const bool phase : {false, true})
            add(programs,
                {.n = 32, .a = {.swizzle = 128, .start = row * 128, .base_offset = phase ? row : 0}, .b = plain(128)},
                seed += 10);
    add(programs, {.types = "f16.f16.f16", .n = 40, .a = plain(128), .b = plain(128)}, seed += 10);
    add(programs, {.types = "f16.f16.f16", .n = 64, .b = plain(64), .a_in_registers = true}, seed += 10);
    for (const char* types : {"f32.e4m3.e4m3", "f32.e5m2.e5m2", "f32.e4m3.e5m2"}) {
        add(programs, {.types = types, .n = 64, .a = plain(128), .b = plain(128)}, seed += 10);
        add(programs, {.types = types, .n = 16, .b = plain(0), .a_in_registers = true}, seed += 10);
        add(programs, {.types = types, .n = 32, .a = plain(64), .b = plain(32), .sign_a = -1, .steps = 1}, seed += 10);
    }
}

}  // namespace nvfp4r::silicon
