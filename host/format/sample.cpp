#include "format/sample.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "core/atomic_file.hpp"
#include "core/error.hpp"
#include "format/number.hpp"
#include "format/random.hpp"
#include "format/safetensors.hpp"

namespace nvfp4r {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

constexpr uint64_t kShardBytes = uint64_t{16} << 20;
constexpr const char* kHiddenFile = "hidden.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr const char* kSingleFile = "model.safetensors";

// Random streams, so that tokens do not depend on the number of layers nor a bias on the size of the gate.
enum Part : uint64_t { kChannels, kHiddenStates, kTokenIds, kLayers };
enum LayerPart : uint64_t { kWeight, kBias, kLinearBias, kImageBias, kTable, kLayerParts };

Random stream_of(uint64_t seed, uint32_t layer, LayerPart part) {
    return Random(seed, kLayers + uint64_t{layer} * kLayerParts + part);
}

std::string name_of(const char* pattern, uint32_t layer) {
    std::string name = pattern;
    return name.replace(name.find('%'), 1, std::to_string(layer));
}

Tensor store(std::string name, nvfp4r_dtype type, std::vector<uint64_t> shape, const std::vector<float>& values) {
    if (type == NVFP4R_F32) return make_tensor(std::move(name), type, std::move(shape), values);
    std::vector<uint16_t> bits(values.size());
    std::transform(values.begin(), values.end(), bits.begin(), f32_to_bf16);
    return make_tensor(std::move(name), NVFP4R_BF16, std::move(shape), std::move(bits));
}

/// How much larger than usual each channel of the hidden states is: about one in 128 stands out by 4 to 20 times.
std::vector<float> channel_scales(uint64_t seed, uint32_t hidden) {
    constexpr uint64_t kOneIn = 128;
    Random random(seed, kChannels);
    std::vector<float> scales(hidden, 1.0f);
    for (float& scale : scales) {
        const float factor = 4.0f + 16.0f * random.uniform();
        if (random.below(kOneIn) == 0) scale = factor;
    }
    return scales;
}

/// Gaussian rows whose norms differ by a factor of about two between experts. Columns of outlier channels are smaller,
/// as training makes them; logits come out with a standard deviation of about 2.
std::vector<float> gate_weight(const Preset& preset, Random random, const std::vector<float>& channels) {
    const uint32_t hidden = preset.settings.hidden;
    const float base = 2.0f / std::sqrt(static_cast<float>(hidden));
    std::vector<float> weight(uint64_t{preset.settings.experts} * hidden);
    for (uint32_t e = 0; e < preset.settings.experts; ++e) {
        const float norm = base * (0.7f + 0.7f * random.uniform());
        float* row = weight.data() + uint64_t{e} * hidden;
        for (uint32_t k = 0; k < hidden; ++k) row[k] = norm * random.gauss() / channels[k];
    }
    return weight;
}

std::vector<float> vector_around(float centre, float deviation, uint32_t size, Random random) {
    std::vector<float> values(size);
    for (float& value : values) value = centre + deviation * random.gauss();
    return values;
}

/// Distinct experts in every row, as the models' own tables have.
std::vector<int64_t> hash_table(const Preset& preset, Random random) {
    const uint32_t k = preset.settings.top_k;
    std::vector<int64_t> table(uint64_t{preset.vocabulary} * k);
    for (uint64_t row = 0; row < preset.vocabulary; ++row) {
        int64_t* ids = table.data() + row * k;
        for (uint32_t i = 0; i < k;) {
            ids[i] = static_cast<int64_t>(random.below(preset.settings.experts));
            if (std::find(ids, ids + i, ids[i]) == ids + i) ++i;
        }
    }
    return table;
}

std::vector<Tensor> layer_tensors(const Preset& preset, uint32_t layer, uint64_t seed,
                                  const std::vector<float>& channels) {
    constexpr float kBiasDeviation = 0.05f;
    const uint32_t experts = preset.settings.experts;
    std::vector<Tensor> tensors;
    tensors.push_back(store(name_of(preset.weight_name, layer), preset.weight_type, {experts, preset.settings.hidden},
                            gate_weight(preset, stream_of(seed, layer, kWeight), channels)));
    const auto add_vector = [&](const char* pattern, nvfp4r_dtype type, float centre, LayerPart part) {
        if (pattern == nullptr) return;
        tensors.push_back(store(name_of(pattern, layer), type, {experts},
                                vector_around(centre, kBiasDeviation, experts, stream_of(seed, layer, part))));
    };
    add_vector(preset.bias_name, NVFP4R_F32, preset.bias_centre, kBias);
    add_vector(preset.image_bias_name, NVFP4R_F32, preset.bias_centre, kImageBias);
    add_vector(preset.linear_bias_name, preset.weight_type, 0.0f, kLinearBias);
    if (layer < preset.hash_layers) {
        tensors.push_back(make_tensor(name_of(preset.table_name, layer), NVFP4R_I64,
                                      {preset.vocabulary, preset.settings.top_k},
                                      hash_table(preset, stream_of(seed, layer, kTable))));
    }
    return tensors;
}

uint64_t bytes_of(const std::vector<Tensor>& tensors) {
    uint64_t bytes = 0;
    for (const Tensor& tensor : tensors) bytes += tensor.bytes.size();
    return bytes;
}

std::string shard_name(size_t shard, size_t shards) {
    return shards == 1 ? kSingleFile : fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards);
}

/// A float as its shortest decimal: 2.827, not 2.8269999027252197.
OrderedJson decimal(float value) {
    return OrderedJson::parse(fmt::format("{}", value));
}

const char* experts_key(const Preset& preset) {
    const std::string_view type = preset.model_type;
    for (const std::string_view local : {"mixtral", "gpt_oss", "llama4", "minimax_m2", "minimax_m3"}) {
        if (type == local) return "num_local_experts";
    }
    for (const std::string_view plain : {"qwen3_moe", "qwen3_next", "qwen3_5_moe", "olmoe", "hy_v3", "bailing_moe"}) {
        if (type == plain) return "num_experts";
    }
    return type == "step3p5" ? "moe_num_experts" : "n_routed_experts";
}

OrderedJson model_config(const Preset& preset) {
    const nvfp4r_settings& settings = preset.settings;
    const std::string_view type = preset.model_type;
    OrderedJson config;
    config["hidden_size"] = settings.hidden;
    config["num_hidden_layers"] = preset.layers;
    config["vocab_size"] = preset.vocabulary;
    config[experts_key(preset)] = settings.experts - preset.zero_experts;
    if (preset.zero_experts > 0) config["zero_expert_num"] = preset.zero_experts;
    const char* top_k_key = type == "longcat_flash" ? "moe_topk" : type == "step3p5" ? "moe_top_k" : nullptr;
    config[top_k_key ? top_k_key : "num_experts_per_tok"] = settings.top_k;
    if (settings.score == NVFP4R_SCORE_SIGMOID) config["scoring_func"] = "sigmoid";
    if (settings.score == NVFP4R_SCORE_SQRTSOFTPLUS) config["scoring_func"] = "sqrtsoftplus";
    if (settings.score != NVFP4R_SCORE_IDENTITY) config["norm_topk_prob"] = settings.renormalise != 0;
    if (settings.use_bias) {
        config["routed_scaling_factor"] = decimal(settings.routed_scaling);
        config["n_group"] = settings.groups > 1 ? OrderedJson(settings.groups) : OrderedJson(nullptr);
        config["topk_group"] = settings.groups > 1 ? OrderedJson(settings.groups_kept) : OrderedJson(nullptr);
    }
    if (preset.first_moe_layer > 0) config["first_k_dense_replace"] = preset.first_moe_layer;
    if (preset.hash_layers > 0) config["num_hash_layers"] = preset.hash_layers;
    return config;
}

std::string config_text(const Preset& preset) {
    OrderedJson config;
    config["architectures"] = {preset.architecture};
    config["model_type"] = preset.model_type;
    config["torch_dtype"] = "bfloat16";
    const OrderedJson model = model_config(preset);
    if (std::string_view(preset.weight_name).find("language_model.") != std::string_view::npos) {
        config["text_config"] = model;  // models that see images keep the language model's part apart
    } else {
        config.update(model);
    }
    return config.dump(2) + "\n";
}

void write_hidden(const Preset& preset, const SampleOptions& options, const std::vector<float>& channels,
                  const fs::path& path) {
    const uint32_t hidden = preset.settings.hidden;
    Random random(options.seed, kHiddenStates);
    std::vector<uint16_t> bits(uint64_t{options.tokens} * hidden);
    for (size_t i = 0; i < bits.size(); ++i) bits[i] = f32_to_bf16(random.gauss() * channels[i % hidden]);
    std::vector<Tensor> tensors = {make_tensor("hidden", NVFP4R_BF16, {options.tokens, hidden}, std::move(bits))};
    if (preset.hash_layers > 0) {
        Random ids(options.seed, kTokenIds);
        std::vector<int64_t> token_ids(options.tokens);
        for (int64_t& id : token_ids) id = static_cast<int64_t>(ids.below(preset.vocabulary));
        tensors.push_back(make_tensor("token_ids", NVFP4R_I64, {options.tokens}, std::move(token_ids)));
    }
    write_safetensors(path, tensors);
}

std::vector<uint32_t> layers_with_router(const Preset& preset, uint32_t wanted) {
    std::vector<uint32_t> layers;
    for (uint32_t l = preset.first_moe_layer; l < preset.layers; l += preset.layer_step) layers.push_back(l);
    if (wanted < 1 || wanted > layers.size()) {
        fail(NVFP4R_INVALID_ARGUMENT, "sample: {} layers; {} has 1 to {} with a router", wanted, preset.name,
             layers.size());
    }
    layers.resize(wanted);
    return layers;
}

/// Which layers go into which shard: as many as fit, at least one. Sizes are the same for equal layers, so they are
/// known before anything is made.
std::vector<std::vector<uint32_t>> plan_shards(const Preset& preset, const std::vector<uint32_t>& layers) {
    const nvfp4r_settings& settings = preset.settings;
    const uint64_t weight = uint64_t{settings.experts} * settings.hidden * element_size(preset.weight_type);
    const uint64_t table = uint64_t{preset.vocabulary} * settings.top_k * element_size(NVFP4R_I64);
    std::vector<std::vector<uint32_t>> shards(1);
    uint64_t held = 0;
    for (const uint32_t layer : layers) {
        const uint64_t bytes = weight + (layer < preset.hash_layers ? table : 0);
        if (held > 0 && held + bytes > kShardBytes) {
            shards.emplace_back();
            held = 0;
        }
        shards.back().push_back(layer);
        held += bytes;
    }
    return shards;
}

void check_folder(const fs::path& folder, const std::set<std::string>& written) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) fail(NVFP4R_IO_ERROR, "cannot make the folder {}: {}", folder.string(), error.message());
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
        const std::string name = entry.path().filename().string();
        const bool is_read = name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
        if (!is_read || written.contains(name)) continue;
        fail(NVFP4R_INVALID_ARGUMENT, "{} already holds {}, which is not part of this sample; choose an empty folder",
             folder.string(), name);
    }
}

}  // namespace

void write_sample(const Preset& preset, const SampleOptions& options, const fs::path& folder) {
    if (options.tokens > NVFP4R_MAX_TOKENS) {
        fail(NVFP4R_INVALID_ARGUMENT, "sample: {} tokens; at most {} are supported", options.tokens, NVFP4R_MAX_TOKENS);
    }
    const std::vector<std::vector<uint32_t>> shards = plan_shards(preset, layers_with_router(preset, options.layers));
    std::set<std::string> written = {kHiddenFile};
    for (size_t s = 0; s < shards.size(); ++s) written.insert(shard_name(s, shards.size()));
    if (shards.size() > 1) written.insert(kIndexFile);
    check_folder(folder, written);

    const std::vector<float> channels = channel_scales(options.seed, preset.settings.hidden);
    OrderedJson weight_map = OrderedJson::object();
    uint64_t total = 0;
    for (size_t s = 0; s < shards.size(); ++s) {
        std::vector<Tensor> tensors;
        for (const uint32_t layer : shards[s]) {
            for (Tensor& tensor : layer_tensors(preset, layer, options.seed, channels)) {
                weight_map[tensor.name] = shard_name(s, shards.size());
                tensors.push_back(std::move(tensor));
            }
        }
        total += bytes_of(tensors);
        write_safetensors(folder / shard_name(s, shards.size()), tensors, {{"format", "pt"}});
    }
    if (shards.size() > 1) {
        const OrderedJson index = {{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}};
        write_file(folder / kIndexFile, index.dump(2) + "\n");
    }
    write_hidden(preset, options, channels, folder / kHiddenFile);
    write_file(folder / "config.json", config_text(preset));
}

}  // namespace nvfp4r
