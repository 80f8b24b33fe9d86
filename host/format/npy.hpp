// NumPy's .npy (versions 1, 2 and 3) and .npz (zip, stored or deflated).
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "format/tensor.hpp"

namespace nvfp4r {

/// Reads one array from the bytes of a .npy file; the result keeps `owner`. Accepted: <f4 <f2 |u1 |b1 <i2 <i4 <i8, and
/// the raw types that NumPy saves for types it does not know, only when the caller says what they are: |V2 as BF16,
/// |V1 as F8_E4M3 (`raw_type`, else UNSET). Everything else, big-endian and Fortran order included: BAD_FILE by name.
Tensor parse_npy(std::span<const uint8_t> bytes, std::shared_ptr<const void> owner, std::string_view file,
                 nvfp4r_dtype raw_type);

/// The array of a .npy file, mapped; its name is empty.
Tensor read_npy(const std::filesystem::path& path, nvfp4r_dtype raw_type = NVFP4R_DTYPE_UNSET);
/// Every array of a .npz file, named without ".npy". Checks sizes and CRCs; a member that inflates past its stated size
/// is refused before it does.
std::vector<Tensor> read_npz(const std::filesystem::path& path, nvfp4r_dtype raw_type = NVFP4R_DTYPE_UNSET);

/// BF16 is written as |V2 and F8_E4M3 as |V1, as ml_dtypes does. Files appear whole or not at all.
void write_npy(const std::filesystem::path& path, const Tensor& tensor);
/// Stored, not deflated. At most 4 GiB and 65,535 arrays, the limits of a zip without the 64-bit extension.
void write_npz(const std::filesystem::path& path, std::span<const Tensor> tensors);

}  // namespace nvfp4r
