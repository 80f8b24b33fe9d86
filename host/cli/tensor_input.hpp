// Arrays named on the command line as FILE[:TENSOR]: safetensors, npy or npz.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/tensor.hpp"
#include "nvfp4router.h"

namespace nvfp4r::cli {

struct TensorSpec {
    std::string file;
    std::string tensor;  // "": the file's only one, or the one of the default name
};

/// Splits at the last colon, unless a file of the whole name exists.
TensorSpec parse_spec(const std::string& text);

/// `raw_type`: what raw bytes of npy mean (BF16 for |V2, F8_E4M3 for |V1). Throws BAD_FILE with the tensors that are
/// there.
Tensor load_tensor(const TensorSpec& spec, const std::string& default_name, nvfp4r_dtype raw_type = NVFP4R_DTYPE_UNSET);
bool has_tensor(const TensorSpec& spec, const std::string& name);

/// Integers of a tensor of exactly `count` elements, as T; throws BAD_FILE naming the file for another count, or for a
/// value that T cannot hold.
template <class T>
std::vector<T> load_integers(const std::string& text, const std::string& default_name, uint64_t count);

/// The tokens of a call: bf16, f16 or f32 [M, K]; or NVFP4 as u8 codes [M, K/2], with `<tensor>_scale` (f8_e4m3) and
/// `<tensor>_scale_2` (f32, one or one per token) from the same file.
class HiddenInput {
  public:
    HiddenInput(const std::string& text, nvfp4r_scale_layout scale_layout);

    int64_t tokens() const { return tokens_; }
    uint32_t hidden() const { return hidden_; }
    nvfp4r_dtype type() const { return type_; }
    /// Points the call's token fields into this object, which must outlive the call.
    void fill(nvfp4r_call& call) const;

  private:
    Tensor values_, scales_;
    std::vector<float> globals_;
    nvfp4r_scale_layout scale_layout_;
    nvfp4r_dtype type_;
    int64_t tokens_ = 0;
    uint32_t hidden_ = 0;
};

}  // namespace nvfp4r::cli
