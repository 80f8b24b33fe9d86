// The decoded form: what a warp executes. Decoded once a module, shared by every launch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/ptx/ast.hpp"

namespace nvfp4r::sim {

class Warp;
struct Instr;

using LaneMask = uint32_t;
inline constexpr uint32_t kLanes = 32;

/// What became of one instruction for the lanes that executed it.
enum class Step : uint8_t {
    next,     // done; the lanes move on
    jumped,   // done; the instruction set the lanes' program counters itself
    blocked,  // not done; the lanes stay, and are tried again when Warp::wait says so
    exited    // the lanes are gone
};

/// Executes `instr` for `lanes` (never empty: guarded-off lanes are already removed).
using Exec = Step (*)(Warp& warp, const Instr& instr, LaneMask lanes);

/// A decoded operand: a register slot, an immediate, a special register, or the address of a .shared variable.
struct Src {
    enum class Kind : uint8_t {
        none,
        reg,
        imm,
        pred,
        special,  // `slot` = SpecialRegister
        shared    // Cta::shared_address(imm): the own rank is known only when it runs
    } kind = Kind::none;
    bool negated = false;  // pred
    uint32_t slot = 0;
    uint64_t imm = 0;  // raw bits, already in the operand's type
};

/// An address operand: [base + offset] or a constant address (base none).
struct Addr {
    Src base;
    int64_t offset = 0;  // also holds a symbol's address within its space
};

enum InstrFlag : uint16_t {
    kAligned = 1,   // every lane of the warp must execute it together; an exited lane is a fault
    kWarpSync = 2,  // orders the lanes of its mask among themselves (shfl.sync, bar.warp.sync, ...)
    kBranch = 4,
    kMemory = 8,
    kStore = 16,
    kMaySpin = 32,     // a poll: loads of relaxed or stronger order, volatile, test_wait
    kAlignedLive = 64  // as kAligned, but lanes that have exited are not missed (bar.sync)
};

struct Instr {
    Exec exec = nullptr;
    uint32_t guard = 0;  // predicate slot
    bool guarded = false;
    bool guard_negated = false;
    uint16_t flags = 0;
    uint32_t target = 0;  // branch target, as an index into Program::code
    uint32_t dst = 0;     // register or predicate slot of the first destination
    uint32_t dst2 = 0;
    Src src[4];
    Addr addr;
    uint64_t detail = 0;                   // small family-specific encoding (an enum, a size ...)
    std::shared_ptr<const void> extra;     // larger family-specific decoded form; see extra_as
    const Statement* statement = nullptr;  // for messages

    template <class T>
    const T& extra_as() const {
        return *static_cast<const T*>(extra.get());
    }
};

/// A function ready to run. Program counters index `code`, which holds the entry first and then every device function
/// it calls.
struct Program {
    const Module* module = nullptr;
    const Function* entry = nullptr;
    std::vector<Instr> code;
    uint32_t registers = 0;  // per thread, callees included
    uint32_t predicates = 0;
    uint64_t static_shared = 0;   // bytes, laid out as ptxas does (first byte at kSharedReserved)
    uint64_t dynamic_shared = 0;  // window offset of the first dynamic byte: behind the static ones, aligned
    uint64_t local_bytes = 0;     // per thread
    bool communicates = false;    // has atomics or ordered accesses to global memory: CTAs may wait for one another
};

/// The slot of the sink `_`.
inline constexpr uint32_t kSinkSlot = ~0u;

/// What a family's decode function gets: the statement plus helpers that resolve operands and refuse by name.
class Decoder {
  public:
    virtual ~Decoder() = default;
    virtual const Statement& statement() const = 0;
    /// Target number without suffix (90, 100, 103, 110) and whether it is an `a` target.
    virtual uint32_t sm() const = 0;
    virtual bool arch_specific() const = 0;
    /// Operand i as a value of `bits` bits (immediates are converted: float literals to that float width).
    virtual Src src(size_t i, uint32_t bits) = 0;
    virtual Src src(const Operand& operand, uint32_t bits) = 0;
    /// Register slot of destination operand i; kSinkSlot for the sink `_`.
    virtual uint32_t dst(size_t i) = 0;
    virtual uint32_t dst(const Operand& operand) = 0;
    virtual Addr addr(size_t i) = 0;
    virtual Addr addr(const Operand& operand) = 0;
    virtual uint32_t label(size_t i) = 0;
    /// The space that a symbol operand (or an address's symbol) lives in: `param` for an entry's parameters, `local`
    /// for local variables and for the parameters of device functions (they are kept in local memory); none without a
    /// symbol.
    virtual StateSpace symbol_space(const Operand& operand) = 0;
    /// Whether a register operand is never mentioned elsewhere: what is loaded into it is not used. Compilers widen vector
    /// loads that way.
    virtual bool is_unused(const Operand& operand) const = 0;
    /// Whether the statement stands in the kernel itself, not in a device function.
    virtual bool in_entry() const = 0;
    /// Targets of the .branchtargets list that operand i names.
    virtual std::vector<uint32_t> branch_table(size_t i) = 0;
    /// Refuses the statement: "line 12: `add.foo.u32`: modifier .foo is not known".
    [[noreturn]] virtual void refuse(std::string_view why) = 0;
};

/// One instruction family: the opcodes it decodes. Each host/sim/instr/*.cpp defines one; families.cpp lists them all.
struct Family {
    const char* name;
    std::vector<std::string_view>
        opcodes;  // "add", or with first modifiers "tcgen05.mma", "cp.async.bulk": longest wins
    Instr (*decode)(Decoder& decoder);
    // Only statements that end in one of these ("f32", "f32.bf16"), so that families may share an opcode; longest wins,
    // and a family that names no types takes what the others leave.
    std::vector<std::string_view> types = {};
};
const std::vector<const Family*>& families();
/// nullptr when no family takes the statement.
const Family* find_family(const Statement& statement);

/// Decodes an entry and what it calls. Throws Error(NVFP4R_UNSUPPORTED) naming opcode, modifier and line.
std::unique_ptr<Program> decode_program(const Module& module, const Function& entry);

}  // namespace nvfp4r::sim
