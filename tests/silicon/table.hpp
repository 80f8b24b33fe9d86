// Programs that apply a list of instructions, one after the other, to a table of operand rows: one thread a row.
#pragma once

#include "silicon/program.hpp"

namespace nvfp4r::silicon {

/// One instruction form. `text` without a semicolon is an opcode with modifiers; `kinds` names the registers of its
/// operands, the destination first: h r d for .b16 .b32 .b64, p for a predicate; `tail` follows as written.
/// Text with a semicolon is taken whole: it reads h1.. r1.. d1.. p1.. (columns 1 to 4 of the row) and writes ho, ro, do
/// or po as `kinds` says; h5.. h9, r5.. r9, d5.. d9, p5.. p9 are free; [s], [q] and [stack] are 64 bytes of shared, global
/// and local memory of the thread's own, lane its %laneid, row its row.
struct Form {
    std::string text, kinds, tail;
};

/// Every expansion of `pattern` (see expand) as a form.
void add_forms(std::vector<Form>& forms, const std::string& pattern, const std::string& kinds,
               const std::string& tail = "");

/// What the columns hold: values that matter for the type mixed with random ones.
/// `angles` are f32 in [-pi, pi]; products of two `tiny` values lie around the least normal number; the `matrix` values have an Inf or NaN in one of 200 only, so that sums of many
/// products are mostly finite.
enum class Values {
    words,
    f32,
    f64,
    f16,
    bf16,
    eight_bit,
    angles,
    f32_tiny,
    f16_tiny,
    f16_matrix,
    bf16_matrix,
    eight_bit_matrix
};

inline constexpr unsigned kTableRows = 2048, kTableBlock = 256;

/// The program; column i+1 takes values of columns[i]. Results of one form fill whole blocks of the output.
Program table_program(const std::string& name, const std::vector<Form>& forms, const std::vector<Values>& columns,
                      uint64_t seed, unsigned rows = kTableRows);

uint64_t sample(Values values, Random& random);

}  // namespace nvfp4r::silicon
