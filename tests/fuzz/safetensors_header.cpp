// libFuzzer target: the safetensors header parser. `make fuzz` builds it.
#include <cstdint>
#include <cstdlib>

#include "core/error.hpp"
#include "format/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    try {
        const nvfp4r::SafetensorsHeader header = nvfp4r::parse_safetensors({data, size}, "fuzz");
        for (const nvfp4r::TensorEntry& entry : header.tensors) {
            if (entry.begin > entry.end || entry.end > size) std::abort();
        }
    } catch (const nvfp4r::Error&) {
        // A refusal is a right answer to most inputs.
    }
    return 0;
}
