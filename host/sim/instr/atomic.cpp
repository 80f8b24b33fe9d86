// atom, red (PTX ISA 9.7.13.8, 9.7.13.9): all scalar types and operations, the packed half types and global vectors.
#include <bit>
#include <cmath>
#include <cstring>

#include "format/number.hpp"
#include "sim/engine/reduce.hpp"
#include "sim/instr/families.hpp"
#include "sim/instr/floats.hpp"
#include "sim/instr/lane_runs.hpp"
#include "sim/instr/memory_order.hpp"
#include "sim/machine/cost.hpp"

namespace nvfp4r::sim {
namespace {

enum class Op : uint8_t { add, min, max, inc, dec, and_bits, or_bits, xor_bits, exch, cas };
enum class Type : uint8_t { b16, b32, b64, u32, u64, s32, s64, f32, f64, f16, bf16, f16x2, bf16x2, b128 };

constexpr uint32_t kAtomicMaxVector = 8;
constexpr uint32_t kNanF32 = 0x7fffffff;

struct Atomic {
    StateSpace space = StateSpace::generic;
    Semantics semantics = Semantics::relaxed;
    Scope scope = Scope::gpu;
    Op op = Op::add;
    Type type = Type::b32;
    uint32_t bytes = 4;  // of an element
    uint32_t count = 1;  // elements; b128 has two, the halves of a register of two slots
    uint32_t registers[kAtomicMaxVector] = {};
    Src values[kAtomicMaxVector];
    Src swap[2];  // cas: the new value
};

float flushed(float x) {
    return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}

uint32_t add_f32(uint32_t a, uint32_t b, bool flush) {
    float x = std::bit_cast<float>(a), y = std::bit_cast<float>(b);
    if (flush) {
        x = flushed(x);
        y = flushed(y);
    }
    float sum = x + y;
    if (flush) sum = flushed(sum);
    return std::isnan(sum) ? kNanF32 : std::bit_cast<uint32_t>(sum);
}

/// min or max of one half-precision number: a NaN loses against a number, -0 is below +0.
uint16_t extreme(uint16_t a, uint16_t b, float x, float y, bool max) {
    if (std::isnan(x) && std::isnan(y)) return 0x7fff;
    if (std::isnan(x)) return b;
    if (std::isnan(y)) return a;
    if (x == y) return static_cast<uint16_t>(max ? a & b : a | b);
    return (x > y) == max ? a : b;
}

// The sum of two f16 or bf16 numbers rounded to f32 first is still rounded right: 24 >= 2 * 11 + 2 bits (Figueroa
// 1995).
uint16_t half_op(uint16_t a, uint16_t b, Op op, bool bf16) {
    const float x = bf16 ? bf16_to_f32(a) : f16_to_f32(a), y = bf16 ? bf16_to_f32(b) : f16_to_f32(b);
    if (op != Op::add) return extreme(a, b, x, y, op == Op::max);
    return bf16 ? f32_to_bf16(x + y) : f32_to_f16(x + y);
}

uint64_t packed_op(uint64_t a, uint64_t b, Op op, bool bf16) {
    const uint64_t low = half_op(static_cast<uint16_t>(a), static_cast<uint16_t>(b), op, bf16);
    const uint64_t high = half_op(static_cast<uint16_t>(a >> 16), static_cast<uint16_t>(b >> 16), op, bf16);
    return high << 16 | low;
}

template <class T>
uint64_t integer_extreme(uint64_t a, uint64_t b, bool max) {
    const T x = static_cast<T>(a), y = static_cast<T>(b);
    return (x > y) == max ? a : b;
}

/// Every operation but cas, which looks at all elements at once. `global`: done at memory, where an f32 add flushes subnormals (PTX ISA 9.7.13.8) and an f64 add keeps a NaN as it is.
uint64_t apply(const Atomic& atomic, uint64_t old, uint64_t b, bool global) {
    const bool max = atomic.op == Op::max;
    switch (atomic.op) {
        case Op::exch: return b;
        case Op::and_bits: return old & b;
        case Op::or_bits: return old | b;
        case Op::xor_bits: return old ^ b;
        case Op::inc: return old >= b ? 0 : old + 1;
        case Op::dec: return old == 0 || old > b ? b : old - 1;
        case Op::add:
        case Op::min:
        case Op::max:
        case Op::cas: break;
    }
    switch (atomic.type) {
        case Type::f16: return half_op(static_cast<uint16_t>(old), static_cast<uint16_t>(b), atomic.op, false);
        case Type::bf16: return half_op(static_cast<uint16_t>(old), static_cast<uint16_t>(b), atomic.op, true);
        case Type::f16x2: return packed_op(old, b, atomic.op, false);
        case Type::bf16x2: return packed_op(old, b, atomic.op, true);
        case Type::f32: return add_f32(static_cast<uint32_t>(old), static_cast<uint32_t>(b), global);
        case Type::f64: return global ? add_f64_at_memory(old, b) : slot_of_f64(f64_of(b) + f64_of(old), b, old);
        default: break;
    }
    if (atomic.op == Op::add) return old + b;
    switch (atomic.type) {
        case Type::s32: return integer_extreme<int32_t>(old, b, max);
        case Type::s64: return integer_extreme<int64_t>(old, b, max);
        case Type::u64: return integer_extreme<uint64_t>(old, b, max);
        default: return integer_extreme<uint32_t>(old, b, max);
    }
}

Step exec_atomic(Warp& warp, const Instr& instr, LaneMask lanes) {
    const Atomic& atomic = instr.extra_as<Atomic>();
    const uint32_t total = atomic.bytes * atomic.count;
    const uint64_t mask = atomic.bytes == 8 ? ~0ull : (uint64_t{1} << atomic.bytes * 8) - 1;
    Machine& machine = warp.machine();
    Checker* checker = machine.checker();
    const Order order = order_of(atomic.semantics, atomic.scope);
    Lanes addresses, scratch[kAtomicMaxVector], swap_scratch[2], results[kAtomicMaxVector];
    warp.addresses(instr.addr, addresses, lanes);
    const uint64_t* values[kAtomicMaxVector];
    for (uint32_t e = 0; e < atomic.count; ++e) values[e] = warp.read(atomic.values[e], scratch[e], lanes);
    const uint64_t* swap[2];
    for (uint32_t e = 0; e < 2; ++e) swap[e] = warp.read(atomic.swap[e], swap_scratch[e], lanes);
    bool changed = false;
    for (LaneMask left = lanes; left; left &= left - 1) {
        const uint32_t lane = static_cast<uint32_t>(std::countr_zero(left));
        const Machine::Place place = machine.place(warp, lane, atomic.space, addresses[lane], total, total, &instr);
        if (checker && place.shadow) {
            const ActorId actor = warp.first_actor + lane;
            checker->access(actor, *place.shadow, place.offset, total, {Access::read, Proxy::generic, order, &instr});
            note_read(warp, lane, place, atomic.semantics, atomic.scope);
            checker->access(actor, *place.shadow, place.offset, total, {Access::write, Proxy::generic, order, &instr});
        }
        bool equal = true;
        for (uint32_t e = 0; e < atomic.count; ++e) {
            uint64_t old = 0;
            std::memcpy(&old, place.bytes + e * atomic.bytes, atomic.bytes);
            results[e][lane] = old;
            equal &= old == (values[e][lane] & mask);
        }
        for (uint32_t e = 0; e < atomic.count; ++e) {
            const uint64_t old = results[e][lane];
            const uint64_t fresh = atomic.op == Op::cas
                                       ? (equal ? swap[e][lane] & mask : old)
                                       : apply(atomic, old, values[e][lane] & mask, !place.owner) & mask;
            std::memcpy(place.bytes + e * atomic.bytes, &fresh, atomic.bytes);
            changed |= fresh != old;
        }
        if (checker && place.shadow) note_write(warp, lane, place, atomic.semantics, atomic.scope, true);
        if (lane == static_cast<uint32_t>(std::countr_zero(lanes)))
            warp.time += !place.owner              ? cost::kGlobalAccess
                         : place.owner == warp.cta ? cost::kSharedAccess
                                                   : cost::kRemoteSharedAccess;
    }
    for (uint32_t e = 0; e < atomic.count; ++e) {
        if (atomic.registers[e] == ~0u) continue;
        Lanes sink;
        uint64_t* out = warp.write(atomic.registers[e], sink, lanes);
        for (LaneMask left = lanes; left; left &= left - 1) {
            const size_t lane = static_cast<size_t>(std::countr_zero(left));
            out[lane] = results[e][lane];
        }
    }
    if (changed) machine.progress();
    return Step::next;
}

struct TypeName {
    std::string_view name;
    Type type;
    uint32_t bytes;
};
constexpr TypeName kTypes[] = {{"b16", Type::b16, 2},       {"b32", Type::b32, 4},   {"b64", Type::b64, 8},
                               {"u32", Type::u32, 4},       {"u64", Type::u64, 8},   {"s32", Type::s32, 4},
                               {"s64", Type::s64, 8},       {"f32", Type::f32, 4},   {"f64", Type::f64, 8},
                               {"f16", Type::f16, 2},       {"bf16", Type::bf16, 2}, {"f16x2", Type::f16x2, 4},
                               {"bf16x2", Type::bf16x2, 4}, {"b128", Type::b128, 8}};

bool is_half(Type type) {
    return type >= Type::f16 && type <= Type::bf16x2;
}

/// Combinations of PTX ISA 9.7.13.8.
bool allowed(Op op, Type type, bool vector) {
    const bool bits = type == Type::b32 || type == Type::b64;
    const bool integer = type >= Type::u32 && type <= Type::s64;
    switch (op) {
        case Op::add:
            return is_half(type) || type == Type::f32 ||
                   (!vector && (type == Type::f64 || (integer && type != Type::s64)));
        case Op::min:
        case Op::max: return vector ? is_half(type) : integer;
        case Op::inc:
        case Op::dec: return type == Type::u32;
        case Op::and_bits:
        case Op::or_bits:
        case Op::xor_bits:
        case Op::exch: return bits || type == Type::b128;
        case Op::cas: return bits || type == Type::b16 || type == Type::b128;
    }
    return false;
}

Instr decode_atomic(Decoder& decoder) {
    const Statement& statement = decoder.statement();
    const bool reduction = statement.opcode == "red";
    Modifiers modifiers(decoder);
    Atomic atomic;
    const bool spelled = modifiers.peek() == "relaxed" || modifiers.peek() == "acquire" ||
                         modifiers.peek() == "release" || modifiers.peek() == "acq_rel";
    if (spelled) {
        atomic.semantics = modifiers.take_one<Semantics>({{"relaxed", Semantics::relaxed},
                                                          {"acquire", Semantics::acquire},
                                                          {"release", Semantics::release},
                                                          {"acq_rel", Semantics::acq_rel}},
                                                         Semantics::relaxed);
        if (reduction && acquires(atomic.semantics)) decoder.refuse("red has .relaxed and .release only");
    }
    atomic.scope = take_scope(modifiers, Scope::gpu);
    atomic.space = take_space(modifiers);
    if (atomic.space == StateSpace::local || atomic.space == StateSpace::param || atomic.space == StateSpace::constant)
        decoder.refuse("atomics are for global and shared memory");
    const std::string_view name =
        modifiers.need_any({"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"});
    constexpr std::pair<std::string_view, Op> kOps[] = {
        {"add", Op::add},      {"min", Op::min},    {"max", Op::max},      {"inc", Op::inc},   {"dec", Op::dec},
        {"and", Op::and_bits}, {"or", Op::or_bits}, {"xor", Op::xor_bits}, {"exch", Op::exch}, {"cas", Op::cas}};
    for (const auto& [text, op] : kOps)
        if (text == name) atomic.op = op;
    if (reduction && (atomic.op == Op::exch || atomic.op == Op::cas)) decoder.refuse("red has no exch and no cas");
    const bool noftz = modifiers.take("noftz");
    const bool hint = modifiers.take("L2::cache_hint");
    atomic.count = modifiers.take_one<uint32_t>({{"v2", 2}, {"v4", 4}, {"v8", 8}}, 1);
    const std::string_view type = modifiers.next("the type");
    const TypeName* known = nullptr;
    for (const TypeName& entry : kTypes)
        if (entry.name == type) known = &entry;
    if (!known) decoder.refuse("type ." + std::string(type) + " is not modelled here");
    modifiers.done();
    atomic.type = known->type;
    atomic.bytes = known->bytes;
    constexpr uint32_t kWidestVector = 16;
    const bool vector = atomic.count > 1;
    const bool wide = atomic.type == Type::b128;
    if (!allowed(atomic.op, atomic.type, vector)) decoder.refuse("the type does not fit the operation");
    if (is_half(atomic.type) != noftz) decoder.refuse(".noftz goes with the half types, and only with them");
    if (vector && (atomic.space != StateSpace::global || atomic.bytes * atomic.count > kWidestVector))
        decoder.refuse("vectors are for global memory and hold at most 16 bytes");

    if (wide) {
        if (vector) decoder.refuse("there are no vectors of .b128");
        atomic.count = 2;
    }

    size_t next = 0;
    const size_t wanted = (reduction ? 0u : 1u) + 2u + (atomic.op == Op::cas ? 1u : 0u) + (hint ? 1u : 0u);
    if (statement.operands.size() != wanted) decoder.refuse("an operand is missing or too many");
    const auto part = [&](const Operand& operand, uint32_t e) -> const Operand& {
        if (!vector) return operand;
        if (operand.kind != OperandKind::vector || operand.parts.size() != atomic.count)
            decoder.refuse("the vector does not have the number of registers that the instruction names");
        return operand.parts[e];
    };
    // Half e of a 128-bit register lies in its slot e.
    const uint32_t bits = wide ? 128 : atomic.bytes * 8;
    const auto source = [&](const Operand& operand, uint32_t e) {
        if (wide && (operand.kind != OperandKind::reg || operand.cls != RegClass::b128))
            decoder.refuse("a register of 128 bits is wanted");
        Src value = decoder.src(operand, bits);
        if (wide) value.slot += e;
        return value;
    };
    for (uint32_t e = 0; e < atomic.count; ++e) {
        atomic.registers[e] = reduction ? ~0u : decoder.dst(part(statement.operands[0], e));
        if (wide && atomic.registers[e] != ~0u) atomic.registers[e] += e;
    }
    if (!reduction) ++next;
    Instr instr;
    instr.addr = decoder.addr(next++);
    for (uint32_t e = 0; e < atomic.count; ++e) atomic.values[e] = source(part(statement.operands[next], e), e);
    ++next;
    if (atomic.op == Op::cas)
        for (uint32_t e = 0; e < (wide ? 2u : 1u); ++e) atomic.swap[e] = source(statement.operands[next], e);
    instr.exec = exec_atomic;
    instr.flags = kMemory | kStore | kMaySpin;
    instr.extra = std::make_shared<Atomic>(atomic);
    return instr;
}

}  // namespace

const Family atomic_family = {"atomic", {"atom", "red"}, decode_atomic};

}  // namespace nvfp4r::sim
