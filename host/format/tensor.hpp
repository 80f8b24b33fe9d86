// A named array as files hold it: type, shape, little-endian bytes in row-major order.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nvfp4router.h"

namespace nvfp4r {

/// A view; `owner` keeps the mapped file or the buffer behind `bytes` alive and may be null when the caller does.
struct Tensor {
    std::string name;
    nvfp4r_dtype type = NVFP4R_DTYPE_UNSET;
    std::vector<uint64_t> shape;
    std::span<const uint8_t> bytes;
    std::shared_ptr<const void> owner;
};

/// Bytes of one element; 0 for types that no file stores as such (UNSET, E2M1, PACKED).
uint64_t element_size(nvfp4r_dtype type);
/// "F32", "BF16" ... as safetensors spells it; "E2M1", "PACKED", "unset" for the others.
const char* dtype_name(nvfp4r_dtype type);
/// "[384, 7168]"
std::string shape_text(std::span<const uint64_t> shape);
/// Product of the shape; throws BAD_FILE naming `what` when it does not fit 60 bits.
uint64_t element_count(std::span<const uint64_t> shape, std::string_view what);

/// A tensor over a copy of the values.
template <class T>
Tensor make_tensor(std::string name, nvfp4r_dtype type, std::vector<uint64_t> shape, std::vector<T> values) {
    auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(owner->data()), owner->size() * sizeof(T));
    return Tensor{std::move(name), type, std::move(shape), bytes, std::move(owner)};
}

/// Values of a F32, BF16 or F16 tensor, widened without loss. Others: BAD_FILE naming both dtypes and `file`.
std::vector<float> to_f32(const Tensor& tensor, std::string_view file);
/// Values of an I64, I32, I16 or U8 tensor.
std::vector<int64_t> to_i64(const Tensor& tensor, std::string_view file);

}  // namespace nvfp4r
