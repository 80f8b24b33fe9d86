#include "format/packed_gate.hpp"

#include <cmath>
#include <cstring>

#include "core/error.hpp"
#include "format/gate_names.hpp"

namespace nvfp4r {
namespace {

constexpr uint8_t kScaleSign = 0x80;
constexpr uint8_t kScaleMagnitude = 0x7f;  // all ones: NaN

bool is_compressed_tensors(const std::string& tensor) {
    return tensor.ends_with("_packed");
}

/// "<gate>.weight" -> "<gate>.term2.weight"
std::string term_name(const std::string& tensor, uint32_t term) {
    if (term == 1) return tensor;
    const std::string base = gate_base(tensor);
    return base + ".term" + std::to_string(term) + tensor.substr(base.size());
}

Tensor typed(const Shards& shards, const std::string& name, nvfp4r_dtype type, uint64_t rows, uint64_t cols) {
    Tensor tensor = shards.tensor(name);
    const std::vector<uint64_t> shape = {rows, cols};
    if (tensor.type == type && tensor.shape == shape) return tensor;
    fail(NVFP4R_BAD_FILE, "{}: tensor \"{}\" is {} {}; {} {} is needed", shards.name(), name, dtype_name(tensor.type),
         shape_text(tensor.shape), dtype_name(type), shape_text(shape));
}

/// A global scale as a multiplier.
float read_global_scale(const Shards& shards, const std::string& name, bool divides) {
    const Tensor tensor = shards.tensor(name);
    if (tensor.type != NVFP4R_F32 || tensor.bytes.size() != sizeof(float)) {
        fail(NVFP4R_BAD_FILE, "{}: tensor \"{}\" is {} {}; one F32 value is needed", shards.name(), name,
             dtype_name(tensor.type), shape_text(tensor.shape));
    }
    float stored;
    std::memcpy(&stored, tensor.bytes.data(), sizeof(stored));
    const float multiplier = divides ? 1.0f / stored : stored;
    if (std::isfinite(stored) && stored > 0.0f && std::isfinite(multiplier) && multiplier > 0.0f) return multiplier;
    fail(NVFP4R_BAD_FILE, "{}: tensor \"{}\": global scale {}; it must be positive and finite", shards.name(), name,
         stored);
}

/// Returns how many NaN scales were repaired.
uint64_t check_scales(std::vector<uint8_t>& scales, uint64_t cols, bool repair_nan_scales, const std::string& what) {
    uint64_t repaired = 0;
    for (size_t i = 0; i < scales.size(); ++i) {
        const bool is_nan = (scales[i] & kScaleMagnitude) == kScaleMagnitude;
        if (is_nan && repair_nan_scales) {
            scales[i] = 0;
            ++repaired;
        } else if (is_nan || (scales[i] & kScaleSign) != 0) {
            fail(NVFP4R_BAD_FILE, "{}: {} block scale (byte {:#04x}) at expert {}, block {}{}", what,
                 is_nan ? "NaN" : "negative", scales[i], i / cols, i % cols,
                 is_nan ? "; repair_nan_scales makes it 0" : "");
        }
    }
    return repaired;
}

}  // namespace

uint32_t packed_terms(const Shards& shards, const std::string& tensor) {
    uint32_t terms = 1;
    while (terms < NVFP4R_MAX_TERMS && shards.find(term_name(tensor, terms + 1))) ++terms;
    return terms;
}

void load_packed(const Shards& shards, const std::string& tensor, bool repair_nan_scales, Gate& gate) {
    const bool divides = is_compressed_tensors(tensor);
    const std::string base = gate_base(tensor);
    const Tensor first = shards.tensor(tensor);
    if (first.type != NVFP4R_U8 || first.shape.size() != 2) {
        fail(NVFP4R_BAD_FILE, "{}: tensor \"{}\" is {} {}; packed codes are U8 [experts, hidden / 2]", shards.name(),
             tensor, dtype_name(first.type), shape_text(first.shape));
    }
    const uint64_t rows = first.shape[0];
    const uint64_t cols = first.shape[1] * 2;
    if (cols % kBlock != 0) {
        fail(NVFP4R_BAD_FILE, "{}: tensor \"{}\" {}: hidden {} is not a multiple of {}", shards.name(), tensor,
             shape_text(first.shape), cols, kBlock);
    }
    const float global_scale =
        read_global_scale(shards, base + (divides ? ".weight_global_scale" : ".weight_scale_2"), divides);
    const uint32_t terms = packed_terms(shards, tensor);
    for (uint32_t t = 1; t <= terms; ++t) {
        const std::string codes_name = term_name(tensor, t);
        const std::string scales_name = gate_base(codes_name) + ".weight_scale";
        const Tensor codes = typed(shards, codes_name, NVFP4R_U8, rows, cols / 2);
        const Tensor scales = typed(shards, scales_name, NVFP4R_F8_E4M3, rows, cols / kBlock);
        Nvfp4Matrix term{static_cast<uint32_t>(rows),
                         static_cast<uint32_t>(cols),
                         {codes.bytes.begin(), codes.bytes.end()},
                         {scales.bytes.begin(), scales.bytes.end()},
                         global_scale};
        const uint64_t repaired = check_scales(term.scales, cols / kBlock, repair_nan_scales,
                                               fmt::format("{}: tensor \"{}\"", shards.name(), scales_name));
        if (repaired > 0) {
            gate.notices.push_back(fmt::format("{}: {} NaN block scales became 0", scales_name, repaired));
        }
        gate.terms.push_back(std::move(term));
    }
    gate.experts = static_cast<uint32_t>(rows);
    gate.hidden = static_cast<uint32_t>(cols);
    // Absent means absent: the tokens are then quantised by their own maximum, never by a scale of 1.
    const std::string input_name = base + (divides ? ".input_global_scale" : ".input_scale");
    if (shards.find(input_name)) {
        gate.input_scale = read_global_scale(shards, input_name, divides);
    } else {
        gate.notices.push_back(fmt::format("{} is absent: tokens are quantised by their own maximum", input_name));
    }
}

std::vector<Tensor> packed_tensors(const std::string& base, const std::vector<Nvfp4Matrix>& terms, float input_scale,
                                   PackedNames names) {
    const bool divides = names == PackedNames::kCompressedTensors;
    const std::string tensor = base + (divides ? ".weight_packed" : ".weight");
    const auto scalar = [&](const char* name, float multiplier) {
        return make_tensor<float>(base + name, NVFP4R_F32, divides ? std::vector<uint64_t>{1} : std::vector<uint64_t>{},
                                  {divides ? 1.0f / multiplier : multiplier});
    };
    std::vector<Tensor> tensors;
    for (uint32_t t = 1; t <= terms.size(); ++t) {
        const Nvfp4Matrix& term = terms[t - 1];
        const std::string codes_name = term_name(tensor, t);
        tensors.push_back(make_tensor(codes_name, NVFP4R_U8, {term.rows, term.cols / 2}, term.codes));
        tensors.push_back(make_tensor(gate_base(codes_name) + ".weight_scale", NVFP4R_F8_E4M3,
                                      {term.rows, term.cols / kBlock}, term.scales));
    }
    tensors.push_back(scalar(divides ? ".weight_global_scale" : ".weight_scale_2", terms.front().global_scale));
    if (input_scale > 0.0f) tensors.push_back(scalar(divides ? ".input_global_scale" : ".input_scale", input_scale));
    return tensors;
}

}  // namespace nvfp4r
