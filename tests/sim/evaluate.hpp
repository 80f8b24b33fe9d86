// Runs one scalar instruction in the simulator over vectors of operand values.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "sim/machine/gpu.hpp"

namespace nvfp4r::sim::test {

using Values = std::vector<uint64_t>;

inline std::string register_type(char kind) {
    switch (kind) {
        case 'b': return "b8";
        case 'h': return "b16";
        case 'r': return "b32";
        case 'd': return "b64";
        default: return "pred";
    }
}

/// The kernel that applies `instruction` to its operands. `kinds`: one letter for each register operand, the
/// destination first: b h r d for .b8 .b16 .b32 .b64, p for a predicate (as 0 or 1). `constants` follow as written.
/// Text that ends in a semicolon is taken whole; its operands are v0, the result, and v1, v2 ...
inline std::string evaluation_ptx(const std::string& instruction, const std::string& kinds,
                                  const std::string& constants, const std::string& target) {
    std::string text = ".version 8.8\n.target " + target + "\n.address_size 64\n.visible .entry k(.param .u64 out";
    for (size_t i = 1; i < kinds.size(); ++i) text += ", .param .u64 in" + std::to_string(i);
    text += ")\n{\n.reg .b64 base, offset, wide; .reg .b32 thread, cta; .reg .b16 half, zero; .reg .b8 none;\n";
    for (size_t i = 0; i < kinds.size(); ++i) {
        text += ".reg ." + register_type(kinds[i]) + " v" + std::to_string(i) + ";\n";
    }
    text +=
        "mov.u32 thread, %tid.x; mov.u32 cta, %ctaid.x; shl.b32 cta, cta, 8; add.u32 thread, thread, cta;\n"
        "mul.wide.u32 offset, thread, 8;\n";
    for (size_t i = 1; i < kinds.size(); ++i) {
        const std::string v = "v" + std::to_string(i);
        text += "ld.param.u64 base, [in" + std::to_string(i) + "]; add.u64 base, base, offset;\n";
        if (kinds[i] == 'b') {
            text += "ld.global.b16 half, [base]; mov.b16 {" + v + ", _}, half;\n";
        } else if (kinds[i] == 'p') {
            text += "ld.global.b32 cta, [base]; setp.ne.b32 " + v + ", cta, 0;\n";
        } else {
            text += "ld.global." + register_type(kinds[i]) + " " + v + ", [base];\n";
        }
    }
    text += instruction;
    if (instruction.back() != ';') {
        text += " v0";
        for (size_t i = 1; i < kinds.size(); ++i) text += ", v" + std::to_string(i);
        text += constants + ";";
    }
    text += "\nld.param.u64 base, [out]; add.u64 base, base, offset;\n";
    switch (kinds[0]) {
        case 'b':
            text += "mov.b16 zero, 0; mov.b16 {none, _}, zero; mov.b16 half, {v0, none}; cvt.u64.u16 wide, half;\n";
            break;
        case 'p': text += "selp.b64 wide, 1, 0, v0;\n"; break;
        case 'd': text += "mov.b64 wide, v0;\n"; break;
        case 'h': text += "cvt.u64.u16 wide, v0;\n"; break;
        default: text += "cvt.u64.u32 wide, v0;\n"; break;
    }
    return text + "st.global.u64 [base], wide;\nret;\n}\n";
}

inline GpuConfig gpu_of(const std::string& target) {
    GpuConfig config = GpuConfig::for_sm(target == "sm_90a" ? 90 : 100);
    config.check = false;
    return config;
}

/// Results of `instruction` for each row of `inputs` (one vector for each source register).
inline Values evaluate(const std::string& instruction, const std::string& kinds, const std::vector<Values>& inputs,
                       const std::string& constants = "", const std::string& target = "sm_100a") {
    constexpr uint32_t kBlock = 256;
    REQUIRE(inputs.size() + 1 == kinds.size());
    const auto gpu = Gpu::create(gpu_of(target));
    const auto module = gpu->load(evaluation_ptx(instruction, kinds, constants, target));
    const size_t count = inputs.at(0).size();
    const auto ctas = static_cast<uint32_t>((count + kBlock - 1) / kBlock);
    const uint64_t bytes = uint64_t{ctas} * kBlock * sizeof(uint64_t);
    std::vector<uint64_t> addresses;
    for (size_t i = 0; i < kinds.size(); ++i) {
        addresses.push_back(gpu->allocate(bytes, 256, "operand"));
        Values padded(uint64_t{ctas} * kBlock, 0);
        if (i > 0) {
            REQUIRE(inputs[i - 1].size() == count);
            std::copy(inputs[i - 1].begin(), inputs[i - 1].end(), padded.begin());
        }
        REQUIRE(gpu->write(addresses.back(), padded.data(), bytes));
    }
    GridLaunch launch;
    launch.program = module->entry("k");
    REQUIRE(launch.program);
    launch.grid.x = ctas;
    launch.block.x = kBlock;
    launch.params.resize(addresses.size() * sizeof(uint64_t));
    std::memcpy(launch.params.data(), addresses.data(), launch.params.size());
    launch.name = instruction;
    const auto results = gpu->run(std::span(&launch, 1));
    INFO(results.at(0).finding.text);
    REQUIRE(results.at(0).ok);
    Values out(count);
    REQUIRE(gpu->read(addresses[0], out.data(), count * sizeof(uint64_t)));
    return out;
}

/// Every combination of the values in `sets`, as columns for `evaluate`.
inline std::vector<Values> combinations(const std::vector<Values>& sets) {
    std::vector<Values> columns(sets.size());
    std::vector<size_t> index(sets.size(), 0);
    for (;;) {
        for (size_t i = 0; i < sets.size(); ++i) columns[i].push_back(sets[i][index[i]]);
        size_t i = 0;
        while (i < sets.size() && ++index[i] == sets[i].size()) index[i++] = 0;
        if (i == sets.size()) return columns;
    }
}

/// Compares with `expected(row values...)`, naming the first row that differs.
template <class Expected>
void check_instruction(const std::string& instruction, const std::string& kinds, const std::vector<Values>& inputs,
                       Expected expected, const std::string& constants = "", const std::string& target = "sm_100a") {
    const Values got = evaluate(instruction, kinds, inputs, constants, target);
    size_t wrong = 0;
    std::string first;
    for (size_t row = 0; row < got.size(); ++row) {
        Values values;
        for (const Values& column : inputs) values.push_back(column[row]);
        const uint64_t want = expected(values);
        if (got[row] == want || wrong++ > 0) continue;
        for (const uint64_t value : values) first += fmt::format(" {:x}", value);
        first = fmt::format("{} of{}: {:x}, expected {:x}", instruction, first, got[row], want);
    }
    INFO(first);
    CHECK(wrong == 0);
}

/// Why the simulator refuses a kernel with this instruction, "accepted" when it does not.
inline std::string refusal_of(const std::string& instruction, const std::string& kinds,
                              const std::string& constants = "", const std::string& target = "sm_100a") {
    const auto gpu = Gpu::create(gpu_of(target));
    try {
        gpu->load(evaluation_ptx(instruction, kinds, constants, target))->entry("k");
    } catch (const Error& error) {
        CHECK(error.status() == NVFP4R_UNSUPPORTED);
        return error.what();
    }
    return "accepted";
}

}  // namespace nvfp4r::sim::test
