// libFuzzer target: the .npy parser. `make fuzz` builds it.
#include "format/npy.hpp"

#include <cstdint>
#include <cstdlib>

#include "core/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    try {
        const nvfp4r::Tensor tensor = nvfp4r::parse_npy({data, size}, nullptr, "fuzz", NVFP4R_BF16);
        if (tensor.bytes.size() > size) std::abort();
    } catch (const nvfp4r::Error&) {
        // A refusal is a right answer to most inputs.
    }
    return 0;
}
