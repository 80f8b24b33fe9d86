#include "sim/program/system_call.hpp"

#include <bit>
#include <cstdio>
#include <cstring>

#include "core/error.hpp"
#include "sim/machine/machine.hpp"

namespace nvfp4r::sim {

namespace {

constexpr size_t kLongestString = 64 * 1024;

/// One lane's call: its arguments, and the memory they point to.
struct SystemCall {
    Warp& warp;
    uint32_t lane;
    const Instr& instr;
    const LinkedFunction& linked;

    uint8_t* local(const Variable& variable) const {
        return warp.local.data() + warp.local.size() / kLanes * lane + linked.frame + variable.offset;
    }
    uint64_t argument(size_t i) const {
        const Variable& parameter = linked.function->params.at(i);
        uint64_t value = 0;
        std::memcpy(&value, local(parameter), std::min<uint64_t>(parameter.size, sizeof value));
        return value;
    }
    uint64_t load(uint64_t address, uint32_t bytes) const {
        const Machine::Place place =
            warp.machine().place(warp, lane, StateSpace::generic, address, bytes, bytes, &instr);
        uint64_t value = 0;
        std::memcpy(&value, place.bytes, bytes);
        return value;
    }
    std::string string(uint64_t address) const {
        std::string text;
        while (text.size() < kLongestString) {
            const auto c = static_cast<char>(load(address + text.size(), 1));
            if (c == 0) break;
            text += c;
        }
        return text;
    }
};

template <class Value>
std::string print_one(const std::string& conversion, Value value) {
    std::string text(static_cast<size_t>(std::snprintf(nullptr, 0, conversion.c_str(), value)), '\0');
    std::snprintf(text.data(), text.size() + 1, conversion.c_str(), value);
    return text;
}

/// The text of printf's format with arguments as CUDA packs them: each at its natural alignment, floats as doubles.
/// `count`: arguments used.
std::string formatted(const SystemCall& call, const std::string& format, uint64_t arguments, uint32_t& count) {
    const auto next = [&](uint32_t bytes) {
        arguments = (arguments + bytes - 1) / bytes * bytes;
        arguments += bytes;
        ++count;
        return call.load(arguments - bytes, bytes);
    };
    std::string out;
    for (size_t i = 0; i < format.size(); ++i) {
        if (format[i] != '%') {
            out += format[i];
            continue;
        }
        std::string conversion = "%";
        bool wide = false;
        for (++i; i < format.size() && std::strchr("-+ #0123456789.*hlLzjt", format[i]); ++i) {
            const char c = format[i];
            if (c == '*')
                conversion += fmt::format("{}", static_cast<int32_t>(next(4)));
            else if (!std::strchr("hlLzjt", c))
                conversion += c;
            wide |= std::strchr("lLzjt", c) != nullptr;
        }
        if (i == format.size()) break;
        const char kind = format[i];
        if (kind == '%') {
            out += kind;
        } else if (std::strchr("di", kind)) {
            const uint64_t value = next(wide ? 8 : 4);
            out += print_one(conversion + "lld", wide ? static_cast<long long>(value)
                                                      : static_cast<long long>(static_cast<int32_t>(value)));
        } else if (std::strchr("ouxX", kind)) {
            out += print_one(conversion + "ll" + kind, static_cast<unsigned long long>(next(wide ? 8 : 4)));
        } else if (kind == 'c') {
            out += print_one(conversion + kind, static_cast<int>(next(4)));
        } else if (std::strchr("eEfFgGaA", kind)) {
            out += print_one(conversion + kind, std::bit_cast<double>(next(8)));
        } else if (kind == 's') {
            out += print_one(conversion + kind, call.string(next(8)).c_str());
        } else if (kind == 'p') {
            out += print_one(conversion + "#llx", static_cast<unsigned long long>(next(8)));
        } else {
            out += conversion + kind;  // printed as it stands
        }
    }
    return out;
}

Step exec_print(Warp& warp, const Instr& instr, LaneMask lanes) {
    const auto& linked = instr.extra_as<LinkedFunction>();
    for (LaneMask left = lanes; left; left &= left - 1) {
        const SystemCall call{warp, static_cast<uint32_t>(std::countr_zero(left)), instr, linked};
        uint32_t count = 0;
        const std::string text = formatted(call, call.string(call.argument(0)), call.argument(1), count);
        std::fwrite(text.data(), 1, text.size(), stdout);
        std::memcpy(call.local(linked.function->returns.at(0)), &count, sizeof count);
        warp.pc[call.lane] = warp.call_stack[call.lane].back();
        warp.call_stack[call.lane].pop_back();
    }
    return Step::jumped;
}

Step exec_assert_failed(Warp& warp, const Instr& instr, LaneMask lanes) {
    const SystemCall call{warp, static_cast<uint32_t>(std::countr_zero(lanes)), instr,
                          instr.extra_as<LinkedFunction>()};
    const std::string text =
        fmt::format("{}:{}: {}: assertion `{}` failed", call.string(call.argument(1)), call.argument(2),
                    call.string(call.argument(3)), call.string(call.argument(0)));
    warp.machine().report(FindingKind::trap, text, &warp, lanes, &instr);
    return Step::exited;
}

Statement named(const char* name) {
    Statement statement;
    statement.opcode = "call";
    statement.text = name;
    return statement;
}

}  // namespace

bool is_system_call(const Function& prototype) {
    if (prototype.has_body) return false;
    const auto widths = [](const std::vector<Variable>& list) {
        std::vector<uint64_t> bytes;
        for (const Variable& variable : list) bytes.push_back(variable.space == StateSpace::reg ? 0 : variable.size);
        return bytes;
    };
    using Widths = std::vector<uint64_t>;
    if (prototype.name == "vprintf")
        return widths(prototype.params) == Widths{8, 8} && widths(prototype.returns) == Widths{4};
    return prototype.name == "__assertfail" && widths(prototype.params) == Widths{8, 8, 4, 8, 8};
}

Instr decode_system_call(const LinkedFunction& linked) {
    static const Statement kPrint = named("vprintf"), kAssertFailed = named("__assertfail");
    const bool prints = linked.function->name == "vprintf";
    Instr instr;
    instr.exec = prints ? exec_print : exec_assert_failed;
    instr.statement = prints ? &kPrint : &kAssertFailed;
    instr.flags = kBranch;
    instr.extra = std::make_shared<LinkedFunction>(linked);
    return instr;
}

}  // namespace nvfp4r::sim
