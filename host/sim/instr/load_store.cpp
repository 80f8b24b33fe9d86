// ld, ldu, st (PTX ISA 9.7.9.8 to 9.7.9.12): all spaces, vectors, orders and scopes.
#include <bit>
#include <cstring>

#include "sim/instr/families.hpp"
#include "sim/instr/lane_runs.hpp"
#include "sim/instr/memory_order.hpp"
#include "sim/machine/cost.hpp"

namespace nvfp4r::sim {
namespace {

constexpr uint32_t kLoadStoreMaxVector = 8;

struct MemoryAccess {
    StateSpace space = StateSpace::generic;
    Semantics semantics = Semantics::weak;
    Scope scope = Scope::sys;
    uint32_t bytes = 0;  // of an element
    uint32_t count = 1;  // elements of the vector
    bool is_signed = false;
    uint32_t registers[kLoadStoreMaxVector] = {};      // ld: destination slots
    uint32_t register_bits[kLoadStoreMaxVector] = {};  // ld: their widths
    Src values[kLoadStoreMaxVector];                   // st
    // ld: the part of the access that some instruction uses; compilers widen vector loads past it.
    uint32_t used_from = 0, used_to = 0;
};

uint64_t width_mask(uint32_t bits) {
    return bits >= 64 ? ~0ull : (uint64_t{1} << bits) - 1;
}

uint64_t load_element(const uint8_t* bytes, uint32_t size, bool is_signed) {
    uint64_t value = 0;
    std::memcpy(&value, bytes, size);
    if (!is_signed || size == 8) return value;
    const uint32_t shift = 64 - 8 * size;
    return static_cast<uint64_t>(static_cast<int64_t>(value << shift) >> shift);
}

void charge(Warp& warp, const MemoryAccess& access, const Machine::Place& place, bool store) {
    if (store) return;
    uint64_t cycles = cost::kGlobalAccess;
    if (place.owner) cycles = place.owner == warp.cta ? cost::kSharedAccess : cost::kRemoteSharedAccess;
    if (access.space == StateSpace::param || access.space == StateSpace::constant) cycles = cost::kSharedAccess;
    warp.time += cycles;
}

Step exec_load_store_load(Warp& warp, const Instr& instr, LaneMask lanes) {
    const MemoryAccess& access = instr.extra_as<MemoryAccess>();
    const uint32_t total = access.bytes * access.count;
    Checker* checker = warp.machine().checker();
    const AccessInfo info{Access::read, Proxy::generic, order_of(access.semantics, access.scope), &instr};
    Lanes addresses, sink;
    warp.addresses(instr.addr, addresses, lanes);
    uint64_t* destination[kLoadStoreMaxVector];
    for (uint32_t e = 0; e < access.count; ++e) destination[e] = warp.write(access.registers[e], sink, lanes);
    bool charged = false;
    for_each_run(
        warp, instr, lanes, addresses, access.space, total,
        [&](uint32_t first, uint32_t count, const Machine::Place& place) {
            if (!charged) charge(warp, access, place, false);
            charged = true;
            if (checker && place.shadow) {
                if (access.used_to - access.used_from == total)
                    checker->access_run(warp.first_actor + first, count, *place.shadow, place.offset, total, info);
                else
                    for (uint32_t i = 0; i < count; ++i)
                        checker->access(warp.first_actor + first + i, *place.shadow,
                                        place.offset + uint64_t{i} * total + access.used_from,
                                        access.used_to - access.used_from, info);
                if (access.semantics != Semantics::weak)
                    for (uint32_t i = 0; i < count; ++i)
                        note_read(warp, first + i, advanced(place, uint64_t{i} * total), access.semantics,
                                  access.scope);
            }
            const uint8_t* bytes = place.bytes;
            for (uint32_t lane = first; lane < first + count; ++lane)
                for (uint32_t e = 0; e < access.count; ++e, bytes += access.bytes)
                    destination[e][lane] =
                        load_element(bytes, access.bytes, access.is_signed) & width_mask(access.register_bits[e]);
        });
    return Step::next;
}

Step exec_load_store_store(Warp& warp, const Instr& instr, LaneMask lanes) {
    const MemoryAccess& access = instr.extra_as<MemoryAccess>();
    const uint32_t total = access.bytes * access.count;
    Machine& machine = warp.machine();
    Checker* checker = machine.checker();
    const AccessInfo info{Access::write, Proxy::generic, order_of(access.semantics, access.scope), &instr};
    Lanes addresses, scratch[kLoadStoreMaxVector];
    warp.addresses(instr.addr, addresses, lanes);
    const uint64_t* values[kLoadStoreMaxVector];
    for (uint32_t e = 0; e < access.count; ++e) values[e] = warp.read(access.values[e], scratch[e], lanes);
    bool changed = false;
    for_each_run(warp, instr, lanes, addresses, access.space, total,
                 [&](uint32_t first, uint32_t count, const Machine::Place& place) {
                     if (checker && place.shadow) {
                         checker->access_run(warp.first_actor + first, count, *place.shadow, place.offset, total, info);
                         if (access.semantics != Semantics::weak)
                             for (uint32_t i = 0; i < count; ++i)
                                 note_write(warp, first + i, advanced(place, uint64_t{i} * total), access.semantics,
                                            access.scope, false);
                     }
                     uint8_t* bytes = place.bytes;
                     for (uint32_t lane = first; lane < first + count; ++lane)
                         for (uint32_t e = 0; e < access.count; ++e, bytes += access.bytes) {
                             changed |= std::memcmp(bytes, &values[e][lane], access.bytes) != 0;
                             std::memcpy(bytes, &values[e][lane], access.bytes);
                         }
                 });
    // What a store leaves as it was shows nothing new to a polling thread.
    if (changed && access.space != StateSpace::local) machine.progress();
    return Step::next;
}

struct ElementType {
    uint32_t bytes;
    bool is_signed;
};

ElementType take_element_type(Decoder& decoder, Modifiers& modifiers) {
    const std::string_view name = modifiers.next("the type");
    constexpr struct {
        std::string_view name;
        ElementType type;
    } kElements[] = {{"b8", {1, false}},  {"u8", {1, false}},  {"s8", {1, true}},    {"b16", {2, false}},
                     {"u16", {2, false}}, {"s16", {2, true}},  {"b32", {4, false}},  {"u32", {4, false}},
                     {"s32", {4, true}},  {"f32", {4, false}}, {"b64", {8, false}},  {"u64", {8, false}},
                     {"s64", {8, true}},  {"f64", {8, false}}, {"b128", {16, false}}};
    for (const auto& entry : kElements)
        if (entry.name == name) return entry.type;
    decoder.refuse("type ." + std::string(name) + " is not modelled here");
    return {};
}

uint32_t bits_of(Decoder& decoder, const Operand& operand) {
    switch (operand.cls) {
        case RegClass::b8: return 8;
        case RegClass::b16: return 16;
        case RegClass::b32: return 32;
        case RegClass::b64: return 64;
        case RegClass::none:
        case RegClass::pred:
        case RegClass::b128: break;
    }
    decoder.refuse("the operand is no register of 8 to 64 bits");
    return 0;
}

void take_order_load_store(Decoder& decoder, Modifiers& modifiers, bool store, MemoryAccess& access) {
    if (modifiers.take("weak")) return;
    if (modifiers.take("volatile")) {
        // volatile is relaxed with system scope (PTX ISA 8.4), and nothing more.
        access.semantics = Semantics::relaxed;
        return;
    }
    modifiers.take("mmio");
    const std::string_view ordered = store ? "release" : "acquire";
    if (modifiers.take("relaxed")) {
        access.semantics = Semantics::relaxed;
    } else if (modifiers.take(ordered)) {
        access.semantics = store ? Semantics::release : Semantics::acquire;
    } else {
        return;
    }
    modifiers.take("mmio");
    access.scope = need_scope(decoder, modifiers);
}

/// Cache operators, eviction priorities, prefetch sizes: they change no value. True when a cache policy operand
/// follows.
bool take_cache_modifiers(Modifiers& modifiers, bool& non_coherent) {
    bool hint = false;
    while (true) {
        if (modifiers.take("nc")) {
            non_coherent = true;
        } else if (modifiers.take("L1::cache_hint") || modifiers.take("L2::cache_hint")) {
            hint = true;
        } else if (modifiers
                       .take_any({"ca", "cg", "cs", "lu", "cv", "wb", "wt", "L1::evict_normal", "L1::evict_unchanged",
                                  "L1::evict_first", "L1::evict_last", "L1::no_allocate", "L2::evict_normal",
                                  "L2::evict_first", "L2::evict_last", "L2::64B", "L2::128B", "L2::256B"})
                       .empty()) {
            return hint;
        }
    }
}

Instr decode_load_store(Decoder& decoder) {
    const Statement& statement = decoder.statement();
    const bool store = statement.opcode == "st";
    Modifiers modifiers(decoder);
    MemoryAccess access;
    take_order_load_store(decoder, modifiers, store, access);
    access.space = take_space(modifiers);
    bool non_coherent = false;
    const bool hint = take_cache_modifiers(modifiers, non_coherent);
    if (non_coherent && (store || access.space != StateSpace::global)) decoder.refuse(".nc is for ld.global");
    access.count = modifiers.take_one<uint32_t>({{"v2", 2}, {"v4", 4}, {"v8", 8}}, 1);
    const ElementType type = take_element_type(decoder, modifiers);
    modifiers.done();
    access.bytes = type.bytes;
    access.is_signed = type.is_signed && !store;
    const bool wide = type.bytes == 16;  // one register of two slots, moved as its halves
    if (wide) {
        if (access.count > 1) decoder.refuse("vectors of .b128 are not modelled");
        access.bytes = 8;
        access.count = 2;
    }
    constexpr uint32_t kWidest = 16, kWidestGlobal = 32, kWideTarget = 100;
    const uint32_t total = access.bytes * access.count;
    if (total > kWidest && (total > kWidestGlobal || decoder.sm() < kWideTarget || access.space != StateSpace::global))
        decoder.refuse("vectors of 32 bytes exist in global memory on sm_100 and later; longer ones do not");

    const size_t address = store ? 0 : 1, value = store ? 1 : 0;
    if (statement.operands.size() != (hint ? 3u : 2u)) decoder.refuse("an operand is missing or too many");
    Instr instr;
    instr.addr = decoder.addr(address);
    // Parameters of device functions live in local memory; those of the entry are read only.
    // A register may hold the address of an entry's parameter (mov.b64 %rd, param), and then only inside the entry.
    const StateSpace named = decoder.symbol_space(statement.operands[address]);
    if (access.space == StateSpace::param && named != StateSpace::param &&
        (named != StateSpace::none || !decoder.in_entry()))
        access.space = StateSpace::local;
    if (store && (access.space == StateSpace::param || access.space == StateSpace::constant))
        decoder.refuse("constants and kernel parameters are read only");

    const Operand& data = statement.operands[value];
    if (wide && (data.kind == OperandKind::vector || data.cls != RegClass::b128) && data.kind != OperandKind::sink)
        decoder.refuse("a register of 128 bits is wanted");
    const bool vector = access.count > 1 && !wide;
    if ((data.kind == OperandKind::vector) != vector ||
        (data.kind == OperandKind::vector && data.parts.size() != access.count))
        decoder.refuse("the vector does not have the number of registers that the instruction names");
    for (uint32_t e = 0; e < access.count; ++e) {
        const Operand& part = vector ? data.parts[e] : data;
        if (store) {
            access.values[e] = decoder.src(part, type.bytes * 8);
            if (wide) access.values[e].slot += e;
            continue;
        }
        access.registers[e] = decoder.dst(part);
        if (wide && part.kind != OperandKind::sink) access.registers[e] += e;
        if (!decoder.is_unused(part)) {
            if (access.used_to == 0) access.used_from = e * access.bytes;
            access.used_to = (e + 1) * access.bytes;
        }
        access.register_bits[e] = wide || part.kind == OperandKind::sink ? 64 : bits_of(decoder, part);
        if (access.register_bits[e] < access.bytes * 8) decoder.refuse("the register is narrower than the type");
    }
    if (!store && access.used_to == 0) access.used_to = access.count * access.bytes;  // nothing is used: judged whole
    instr.exec = store ? exec_load_store_store : exec_load_store_load;
    instr.flags = static_cast<uint16_t>(kMemory | (store ? kStore : 0));
    if (!store && access.semantics != Semantics::weak) instr.flags |= kMaySpin;
    instr.extra = std::make_shared<MemoryAccess>(access);
    return instr;
}

}  // namespace

const Family load_store_family = {"load_store", {"ld", "ldu", "st"}, decode_load_store};

}  // namespace nvfp4r::sim
