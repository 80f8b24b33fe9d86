// Our half of tests/oracle/formats.py, which runs it: reads what the official libraries wrote into NVFP4R_ORACLE_DIR,
// writes it again in every format and quantises; the script then reads that back with the official libraries.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "format/npy.hpp"
#include "format/packed_gate.hpp"
#include "format/safetensors.hpp"

using namespace nvfp4r;

namespace {

std::vector<Tensor> all_tensors(const Safetensors& file) {
    std::vector<Tensor> tensors;
    for (const TensorEntry& entry : file.entries()) tensors.push_back(file.tensor(entry));
    return tensors;
}

}  // namespace

TEST_CASE("Files of the official libraries are read and written again for them to check", "[.oracle]") {
    const char* variable = std::getenv("NVFP4R_ORACLE_DIR");
    REQUIRE(variable != nullptr);
    const std::filesystem::path folder = variable;

    const std::vector<Tensor> tensors = all_tensors(Safetensors(folder / "official.safetensors"));
    REQUIRE(!tensors.empty());
    write_safetensors(folder / "ours.safetensors", tensors, {{"written by", "nvfp4r"}});
    write_npz(folder / "ours.npz", tensors);
    for (const Tensor& tensor : tensors) write_npy(folder / ("ours." + tensor.name + ".npy"), tensor);

    for (const char* name : {"stored", "deflated"}) {
        std::vector<Tensor> arrays = read_npz(folder / (std::string("official.") + name + ".npz"));
        write_safetensors(folder / (std::string("ours.from_") + name + ".safetensors"), arrays);
    }
    for (const char* version : {"1", "2", "3"}) {
        Tensor array = read_npy(folder / (std::string("official.v") + version + ".npy"));
        array.name = "x";
        write_safetensors(folder / (std::string("ours.from_v") + version + ".safetensors"), std::span(&array, 1));
    }
    Tensor raw = read_npy(folder / "official.bf16.npy", NVFP4R_BF16);
    raw.name = "x";
    write_safetensors(folder / "ours.from_bf16.safetensors", std::span(&raw, 1));

    const Tensor gate = Safetensors(folder / "gate.safetensors").tensor("w");
    const std::vector<float> w = to_f32(gate, "gate.safetensors");
    const auto rows = static_cast<uint32_t>(gate.shape[0]), cols = static_cast<uint32_t>(gate.shape[1]);
    const std::vector<std::pair<const char*, nvfp4r_block_rule>> rules = {
        {"amax", NVFP4R_BLOCK_AMAX},
        {"least_squares", NVFP4R_BLOCK_LEAST_SQUARES},
        {"four_over_six", NVFP4R_BLOCK_FOUR_OVER_SIX}};
    for (const auto& [name, rule] : rules) {
        const std::vector<Nvfp4Matrix> terms = quantise_terms(w.data(), rows, cols, cols, 3, rule, "w");
        std::vector<Tensor> packed = packed_tensors("gate", terms, 0.0f, PackedNames::kModelOpt);
        for (size_t t = 0; t < terms.size(); ++t) {
            std::vector<uint8_t> swizzled = scales_to_layout(terms[t].scales, rows, cols / kBlock, NVFP4R_SCALES_128X4);
            const uint64_t bytes = swizzled.size();
            packed.push_back(make_tensor("swizzled" + std::to_string(t + 1), NVFP4R_U8, {bytes}, std::move(swizzled)));
        }
        write_safetensors(folder / (std::string("ours.quantised_") + name + ".safetensors"), packed);
    }
}
