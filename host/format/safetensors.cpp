#include "format/safetensors.hpp"

#include <nlohmann/json.hpp>

#include "core/atomic_file.hpp"
#include "core/error.hpp"

namespace nvfp4r {
namespace {

constexpr size_t kHeaderAlignment = 8;  // the reference implementation pads the header with spaces to this

}  // namespace

nvfp4r_dtype dtype_from_name(std::string_view dtype) {
    for (const nvfp4r_dtype type :
         {NVFP4R_F32, NVFP4R_BF16, NVFP4R_F16, NVFP4R_F8_E4M3, NVFP4R_U8, NVFP4R_I16, NVFP4R_I32, NVFP4R_I64}) {
        if (dtype == dtype_name(type)) return type;
    }
    return dtype == "BOOL" ? NVFP4R_U8 : NVFP4R_DTYPE_UNSET;
}

Safetensors::Safetensors(const std::filesystem::path& path)
    : path_(path), file_(MappedFile::open(path)), header_(parse_safetensors(file_->bytes(), path.string())) {}

const TensorEntry* Safetensors::find(std::string_view name) const {
    for (const TensorEntry& entry : header_.tensors) {
        if (entry.name == name) return &entry;
    }
    return nullptr;
}

Tensor Safetensors::tensor(const TensorEntry& entry) const {
    const nvfp4r_dtype type = dtype_from_name(entry.dtype);
    if (type == NVFP4R_DTYPE_UNSET) {
        fail(NVFP4R_BAD_FILE,
             "{}: tensor \"{}\" has dtype {}; F32, BF16, F16, F8_E4M3, U8, BOOL, I16, I32 and I64 are supported",
             path_.string(), entry.name, entry.dtype);
    }
    return Tensor{entry.name, type, entry.shape, file_->bytes().subspan(entry.begin, entry.end - entry.begin), file_};
}

Tensor Safetensors::tensor(std::string_view name) const {
    if (const TensorEntry* entry = find(name)) return tensor(*entry);
    constexpr size_t kNamesShown = 8;
    std::string names;
    for (size_t i = 0; i < header_.tensors.size() && i < kNamesShown; ++i) {
        names += (i == 0 ? "" : ", ") + header_.tensors[i].name;
    }
    if (header_.tensors.size() > kNamesShown) names += ", ...";
    fail(NVFP4R_BAD_FILE, "{}: no tensor \"{}\"; it has {}", path_.string(), name, names.empty() ? "none" : names);
}

void write_safetensors(const std::filesystem::path& path, std::span<const Tensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    if (!metadata.empty()) header["__metadata__"] = metadata;
    uint64_t offset = 0;
    for (const Tensor& tensor : tensors) {
        const uint64_t bytes = element_count(tensor.shape, tensor.name) * element_size(tensor.type);
        if (element_size(tensor.type) == 0 || bytes != tensor.bytes.size()) {
            fail(NVFP4R_INVALID_ARGUMENT, "{}: tensor \"{}\", {} {}, has {} bytes", path.string(), tensor.name,
                 dtype_name(tensor.type), shape_text(tensor.shape), tensor.bytes.size());
        }
        if (header.contains(tensor.name) || tensor.name == "__metadata__") {
            fail(NVFP4R_INVALID_ARGUMENT, "{}: tensor name \"{}\" is taken", path.string(), tensor.name);
        }
        header[tensor.name] = {
            {"dtype", dtype_name(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + bytes}}};
        offset += bytes;
    }
    std::string text = header.dump();
    text.append((kHeaderAlignment - text.size() % kHeaderAlignment) % kHeaderAlignment, ' ');
    std::string length(8, '\0');
    for (size_t i = 0; i < length.size(); ++i) length[i] = static_cast<char>((text.size() >> (8 * i)) & 0xffu);
    AtomicFile file(path);
    file.write(length + text);
    for (const Tensor& tensor : tensors) file.write(tensor.bytes);
    file.commit();
}

}  // namespace nvfp4r
