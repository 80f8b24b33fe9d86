#include "cli/tensor_input.hpp"

#include <filesystem>
#include <limits>

#include "core/error.hpp"
#include "format/npy.hpp"
#include "format/nvfp4.hpp"
#include "format/safetensors.hpp"

namespace nvfp4r::cli {
namespace {

std::string extension(const std::string& file) {
    return std::filesystem::path(file).extension().string();
}

std::string joined(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
}

/// Which of the file's tensors is meant.
std::string choose(const TensorSpec& spec, const std::vector<std::string>& names, const std::string& default_name) {
    const std::string wanted = spec.tensor.empty() && names.size() == 1 ? names.front()
                               : spec.tensor.empty()                    ? default_name
                                                                        : spec.tensor;
    for (const std::string& name : names)
        if (name == wanted) return wanted;
    fail(NVFP4R_BAD_FILE, "{}: no tensor {}; it has {}", spec.file, wanted, joined(names));
}

std::vector<std::string> tensor_names(const TensorSpec& spec) {
    std::vector<std::string> names;
    if (extension(spec.file) == ".safetensors") {
        const Safetensors file(spec.file);
        for (const TensorEntry& entry : file.entries()) names.push_back(entry.name);
    } else if (extension(spec.file) == ".npz") {
        for (const Tensor& tensor : read_npz(spec.file)) names.push_back(tensor.name);
    }
    return names;
}

/// A mapped tensor may start at any byte; the C API wants its elements aligned.
Tensor aligned(Tensor tensor) {
    const uint64_t size = element_size(tensor.type);
    if (size <= 1 || reinterpret_cast<uintptr_t>(tensor.bytes.data()) % size == 0) return tensor;
    return make_tensor(tensor.name, tensor.type, tensor.shape,
                       std::vector<uint8_t>(tensor.bytes.begin(), tensor.bytes.end()));
}

void check_scales(const Tensor& scales, uint64_t rows, uint32_t hidden, nvfp4r_scale_layout layout,
                  const std::string& file) {
    const uint64_t needed = scale_bytes(rows, hidden / kBlock, layout);
    if (element_size(scales.type) != 1 || scales.bytes.size() != needed)
        fail(NVFP4R_BAD_FILE, "{}: {} is {} {}; [{}, {}] codes need {} scale bytes in this layout", file, scales.name,
             dtype_name(scales.type), shape_text(scales.shape), rows, hidden / 2, needed);
}

}  // namespace

TensorSpec parse_spec(const std::string& text) {
    const size_t colon = text.rfind(':');
    if (colon == std::string::npos || std::filesystem::exists(text)) return {text, ""};
    return {text.substr(0, colon), text.substr(colon + 1)};
}

Tensor load_tensor(const TensorSpec& spec, const std::string& default_name, nvfp4r_dtype raw_type) {
    const std::string kind = extension(spec.file);
    if (kind == ".safetensors") {
        const Safetensors file(spec.file);
        return aligned(file.tensor(choose(spec, tensor_names(spec), default_name)));
    }
    if (kind == ".npz") {
        const std::vector<Tensor> tensors = read_npz(spec.file, raw_type);
        std::vector<std::string> names;
        for (const Tensor& tensor : tensors) names.push_back(tensor.name);
        const std::string name = choose(spec, names, default_name);
        for (const Tensor& tensor : tensors)
            if (tensor.name == name) return aligned(tensor);
    }
    if (kind == ".npy") {
        if (!spec.tensor.empty())
            fail(NVFP4R_BAD_FILE, "{}: an npy file has one array without a name, not {}", spec.file, spec.tensor);
        Tensor tensor = read_npy(spec.file, raw_type);
        tensor.name = default_name;
        return aligned(std::move(tensor));
    }
    fail(NVFP4R_BAD_FILE, "{}: tensors are read from .safetensors, .npy and .npz", spec.file);
}

bool has_tensor(const TensorSpec& spec, const std::string& name) {
    for (const std::string& found : tensor_names(spec))
        if (found == name) return true;
    return false;
}

template <class T>
std::vector<T> load_integers(const std::string& text, const std::string& default_name, uint64_t count) {
    const TensorSpec spec = parse_spec(text);
    const std::vector<int64_t> values = to_i64(load_tensor(spec, default_name), spec.file);
    if (values.size() != count)
        fail(NVFP4R_BAD_FILE, "{}: {} has {} values; {} are needed", spec.file, default_name, values.size(), count);
    std::vector<T> result;
    for (const int64_t value : values) {
        if (value < int64_t{std::numeric_limits<T>::min()} || value > int64_t{std::numeric_limits<T>::max()})
            fail(NVFP4R_BAD_FILE, "{}: {} has the value {}, which is out of range", spec.file, default_name, value);
        result.push_back(static_cast<T>(value));
    }
    return result;
}
template std::vector<int32_t> load_integers(const std::string&, const std::string&, uint64_t);
template std::vector<uint8_t> load_integers(const std::string&, const std::string&, uint64_t);
template std::vector<int64_t> load_integers(const std::string&, const std::string&, uint64_t);

HiddenInput::HiddenInput(const std::string& text, nvfp4r_scale_layout scale_layout) : scale_layout_(scale_layout) {
    const TensorSpec spec = parse_spec(text);
    values_ = load_tensor(spec, "hidden", NVFP4R_BF16);
    type_ = values_.type == NVFP4R_U8 ? NVFP4R_E2M1 : values_.type;
    if (values_.shape.size() != 2)
        fail(NVFP4R_BAD_FILE, "{}: {} has the shape {}; tokens are [M, K]", spec.file, values_.name,
             shape_text(values_.shape));
    if (type_ != NVFP4R_E2M1 && type_ != NVFP4R_BF16 && type_ != NVFP4R_F16 && type_ != NVFP4R_F32)
        fail(NVFP4R_BAD_FILE, "{}: {} is {}; tokens are BF16, F16, F32, or U8 with NVFP4 codes", spec.file,
             values_.name, dtype_name(type_));
    const uint64_t columns = values_.shape[1] * (type_ == NVFP4R_E2M1 ? 2 : 1);
    if (values_.shape[0] > NVFP4R_MAX_TOKENS || columns > NVFP4R_MAX_HIDDEN)
        fail(NVFP4R_BAD_FILE, "{}: {} tokens of {} values; at most {} and {} are supported", spec.file,
             values_.shape[0], columns, NVFP4R_MAX_TOKENS, NVFP4R_MAX_HIDDEN);
    tokens_ = static_cast<int64_t>(values_.shape[0]);
    hidden_ = static_cast<uint32_t>(columns);
    if (type_ != NVFP4R_E2M1) return;

    scales_ = load_tensor({spec.file, values_.name + "_scale"}, "", NVFP4R_F8_E4M3);
    check_scales(scales_, values_.shape[0], hidden_, scale_layout, spec.file);
    globals_ = to_f32(load_tensor({spec.file, values_.name + "_scale_2"}, ""), spec.file);
    if (globals_.size() != 1 && globals_.size() != values_.shape[0])
        fail(NVFP4R_BAD_FILE, "{}: {}_scale_2 has {} values; one, or one for each of the {} tokens, is needed",
             spec.file, values_.name, globals_.size(), tokens_);
}

void HiddenInput::fill(nvfp4r_call& call) const {
    call.tokens = tokens_;
    call.hidden = values_.bytes.data();
    call.hidden_type = type_;
    if (type_ != NVFP4R_E2M1) return;
    call.hidden_scales = scales_.bytes.data();
    call.hidden_scale_layout = scale_layout_;
    if (globals_.size() == 1)
        call.hidden_global_scale = globals_.front();
    else
        call.hidden_global_scales = globals_.data();
}

}  // namespace nvfp4r::cli
