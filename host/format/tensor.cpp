#include "format/tensor.hpp"

#include <cstring>

#include "core/error.hpp"
#include "format/number.hpp"

namespace nvfp4r {
namespace {

constexpr uint64_t kMostElements = uint64_t{1} << 60;

/// File bytes need not be aligned for their type, so each value is copied out.
template <class Stored, class Out, class Convert>
std::vector<Out> convert(const Tensor& tensor, Convert&& one) {
    std::vector<Out> out(tensor.bytes.size() / sizeof(Stored));
    for (size_t i = 0; i < out.size(); ++i) {
        Stored stored;
        std::memcpy(&stored, tensor.bytes.data() + i * sizeof(Stored), sizeof(Stored));
        out[i] = one(stored);
    }
    return out;
}

}  // namespace

uint64_t element_size(nvfp4r_dtype type) {
    switch (type) {
        case NVFP4R_F32:
        case NVFP4R_I32: return 4;
        case NVFP4R_BF16:
        case NVFP4R_F16:
        case NVFP4R_I16: return 2;
        case NVFP4R_F8_E4M3:
        case NVFP4R_U8: return 1;
        case NVFP4R_I64: return 8;
        case NVFP4R_DTYPE_UNSET:
        case NVFP4R_E2M1:
        case NVFP4R_PACKED: break;
    }
    return 0;
}

const char* dtype_name(nvfp4r_dtype type) {
    switch (type) {
        case NVFP4R_F32: return "F32";
        case NVFP4R_BF16: return "BF16";
        case NVFP4R_F16: return "F16";
        case NVFP4R_E2M1: return "E2M1";
        case NVFP4R_F8_E4M3: return "F8_E4M3";
        case NVFP4R_U8: return "U8";
        case NVFP4R_I16: return "I16";
        case NVFP4R_I32: return "I32";
        case NVFP4R_I64: return "I64";
        case NVFP4R_PACKED: return "PACKED";
        case NVFP4R_DTYPE_UNSET: break;
    }
    return "unset";
}

std::string shape_text(std::span<const uint64_t> shape) {
    std::string text = "[";
    for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
    return text + "]";
}

uint64_t element_count(std::span<const uint64_t> shape, std::string_view what) {
    // A zero makes the product zero however large the other dimensions are.
    for (const uint64_t n : shape) {
        if (n == 0) return 0;
    }
    uint64_t count = 1;
    for (const uint64_t n : shape) {
        if (n > kMostElements / count) {
            fail(NVFP4R_BAD_FILE, "{}: shape {} has more than 2^60 elements", what, shape_text(shape));
        }
        count *= n;
    }
    return count;
}

std::vector<float> to_f32(const Tensor& tensor, std::string_view file) {
    switch (tensor.type) {
        case NVFP4R_F32: return convert<float, float>(tensor, [](float v) { return v; });
        case NVFP4R_BF16: return convert<uint16_t, float>(tensor, bf16_to_f32);
        case NVFP4R_F16: return convert<uint16_t, float>(tensor, f16_to_f32);
        default: break;
    }
    fail(NVFP4R_BAD_FILE, "{}: tensor {} is {}; F32, BF16 or F16 is needed", file, tensor.name,
         dtype_name(tensor.type));
}

std::vector<int64_t> to_i64(const Tensor& tensor, std::string_view file) {
    const auto widen = [](auto v) { return static_cast<int64_t>(v); };
    switch (tensor.type) {
        case NVFP4R_I64: return convert<int64_t, int64_t>(tensor, widen);
        case NVFP4R_I32: return convert<int32_t, int64_t>(tensor, widen);
        case NVFP4R_I16: return convert<int16_t, int64_t>(tensor, widen);
        case NVFP4R_U8: return convert<uint8_t, int64_t>(tensor, widen);
        default: break;
    }
    fail(NVFP4R_BAD_FILE, "{}: tensor {} is {}; I64, I32, I16 or U8 is needed", file, tensor.name,
         dtype_name(tensor.type));
}

}  // namespace nvfp4r
