// The Decoder that families get: one statement of one linked function.
#pragma once

#include "sim/program/link.hpp"

namespace nvfp4r::sim {

class StatementDecoder : public Decoder {
  public:
    StatementDecoder(const Link& link, size_t function, const Statement& statement);

    const Statement& statement() const override { return statement_; }
    uint32_t sm() const override { return sm_; }
    bool arch_specific() const override { return arch_specific_; }
    Src src(size_t i, uint32_t bits) override;
    Src src(const Operand& operand, uint32_t bits) override;
    uint32_t dst(size_t i) override;
    uint32_t dst(const Operand& operand) override;
    Addr addr(size_t i) override;
    Addr addr(const Operand& operand) override;
    uint32_t label(size_t i) override;
    StateSpace symbol_space(const Operand& operand) override;
    bool is_unused(const Operand& operand) const override {
        return operand.kind == OperandKind::sink ||
               (operand.kind == OperandKind::reg && function_.mentions[operand.reg] == 1);
    }
    bool in_entry() const override { return function_.function->is_entry; }
    std::vector<uint32_t> branch_table(size_t i) override;
    [[noreturn]] void refuse(std::string_view why) override;

    /// A variable of the frame, by name; nullptr when there is none. Its byte in local memory goes to `local`.
    const Variable* frame_variable(std::string_view name, uint64_t& local) const;

  private:
    const Operand& operand(size_t i);
    Src symbol_address(const Operand& operand);
    uint64_t immediate(const Operand& operand, uint32_t bits);

    const Link& link_;
    const LinkedFunction& function_;
    const std::map<std::string, uint64_t, std::less<>>& shared_locals_;
    const Statement& statement_;
    uint32_t sm_ = 0;
    bool arch_specific_ = false;
};

}  // namespace nvfp4r::sim
