// A PTX program that runs from the same text on a GPU and in the simulator, with its inputs and what its outputs must
// agree on.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <string>
#include <vector>

namespace nvfp4r::silicon {

/// Device memory of a program. Every kernel of the program receives the address of every buffer, in order.
struct Buffer {
    std::vector<uint8_t> bytes;  // contents before the first launch
    bool output = false;         // compared after the last
};

inline Buffer output_buffer(size_t bytes) {
    return {std::vector<uint8_t>(bytes), true};
}

/// A tensor map over a buffer; kernels receive the maps after the buffers.
struct TensorMapSpec {
    size_t buffer = 0;
    CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_UINT32;
    std::vector<cuuint64_t> dims, strides;  // elements, innermost first; bytes, one fewer
    std::vector<cuuint32_t> box, element_strides;
    CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
    CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
};

struct Launch {
    std::string entry = "k";
    unsigned grid = 1, block = 32;
    unsigned cluster = 0;  // CTAs along x; 0: launched without a cluster
    unsigned shared = 0;   // dynamic, bytes
    bool programmatic = false;
};

/// How an output agrees. Approximate functions have documented bounds only (PTX ISA 9.7.3): a value agrees when one of
/// the three holds. NaN, infinities and zeros have to be the same bits.
struct Agreement {
    bool exact = true;
    unsigned width = 32;  // bits of a value: 32 for f32, 16 for f16 or bf16
    bool bf16 = false;
    int64_t ulps = 0;
    double relative = 0, absolute = 0;
};

struct Program {
    std::string name;
    std::string ptx;
    std::vector<Launch> launches;
    std::vector<Buffer> buffers;
    std::vector<TensorMapSpec> maps;
    Agreement agreement;
    std::vector<std::string> labels;  // what each block of the first output holds, for messages; may be empty
};

/// Seeded bits, the same on every machine (xorshift64*).
class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 1) {}
    uint64_t next() {
        state_ ^= state_ >> 12;
        state_ ^= state_ << 25;
        state_ ^= state_ >> 27;
        return state_ * 0x2545f4914f6cdd1d;
    }
    uint64_t below(uint64_t n) { return (next() >> 11) % n; }

  private:
    uint64_t state_;
};

/// "add.<u16|s16>" -> add.u16, add.s16; every combination of all <...>.
std::vector<std::string> expand(const std::string& pattern);

/// A module for sm_90a with one entry `k`. Its body sees the buffers' addresses in %b0, %b1 ..., those of the maps in
/// %m0, %m1 ..., dynamic shared memory `sm` aligned to 1024 bytes, mbarriers `mb` (16 of 8 bytes), %tid_x, %cta_x and
/// registers %p<32>, %h<32>, %r<600>, %d<64>.
std::string engine_module(const Program& program, const std::string& body);

using Programs = std::vector<Program>;
void add_integer_programs(Programs& programs);
void add_float_programs(Programs& programs);
void add_half_programs(Programs& programs);
void add_conversion_programs(Programs& programs);
void add_approximation_programs(Programs& programs);
void add_warp_programs(Programs& programs);
void add_memory_programs(Programs& programs);
void add_control_programs(Programs& programs);
void add_tensor_copy_programs(Programs& programs);
void add_bulk_copy_programs(Programs& programs);
void add_mbarrier_programs(Programs& programs);
void add_cluster_programs(Programs& programs);
void add_matrix_programs(Programs& programs);
void add_warpgroup_programs(Programs& programs);
void add_dependent_launch_programs(Programs& programs);

/// Every program, in the order of the stored file.
const Programs& all_programs();

}  // namespace nvfp4r::silicon
