// What .npy and .npz writing share.
#pragma once

#include <string>
#include <string_view>

#include "format/tensor.hpp"

namespace nvfp4r {

/// Everything of a .npy file before the data, version 1.0.
std::string npy_header(const Tensor& tensor);
/// Throws INVALID_ARGUMENT when the bytes do not match the type and shape.
void check_bytes(const Tensor& tensor, std::string_view file);

}  // namespace nvfp4r
