// What programs gave on a GPU, kept small: short outputs as they are, long ones as a CRC-32 of each block, so that a
// difference is located to one block; values of approximate functions always as they are.
#pragma once

#include <map>

#include "silicon/program.hpp"

namespace nvfp4r::silicon {

inline constexpr size_t kBlockBytes = 4096, kShortBytes = 256;

using Outputs = std::vector<std::vector<uint8_t>>;  // of the output buffers, in order

struct StoredOutput {
    size_t bytes = 0;
    std::vector<uint8_t> values;   // all of them, or
    std::vector<uint32_t> blocks;  // the CRC-32 of each block
};

struct StoredProgram {
    uint32_t key = 0;  // of the PTX text and the inputs: a changed program has no stored outputs
    std::vector<StoredOutput> outputs;
};

struct StoredFile {
    std::string machine;
    std::map<std::string, StoredProgram> programs;
};

uint32_t program_key(const Program& program);

StoredProgram store(const Program& program, const Outputs& outputs);

/// Throws when the file is missing or a line is not of the format.
StoredFile read_stored(const std::string& path);
void write_stored(const std::string& path, const StoredFile& file);

struct Comparison {
    size_t values = 0;     // 32-bit words, or 16-bit ones, that were compared
    size_t differing = 0;  // single values, or blocks where only their CRC is stored
    std::string first;     // where the first difference is
};

Comparison compare(const Program& program, const StoredProgram& stored, const Outputs& outputs);

}  // namespace nvfp4r::silicon
