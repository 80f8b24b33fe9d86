#include "format/checkpoint.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.hpp"
#include "format/config.hpp"
#include "format/gate_names.hpp"
#include "format/packed_gate.hpp"
#include "format/shards.hpp"

namespace nvfp4r {
namespace {

/// The first of the names that the checkpoint has; "" when none. Two of them would be two biases for one gate.
std::string present(const Shards& shards, const std::string& prefix, const std::vector<const char*>& names) {
    std::string found;
    for (const char* name : names) {
        if (name == nullptr || !shards.find(prefix + name)) continue;
        if (!found.empty()) {
            fail(NVFP4R_BAD_FILE, "{}: \"{}\" and \"{}\" both claim to be the bias", shards.name(), found,
                 prefix + name);
        }
        found = prefix + name;
    }
    return found;
}

GateEntry describe(const Shards& shards, const std::string& tensor, const GateName& name) {
    shards.check(tensor);
    const TensorEntry& header = *shards.find(tensor)->entry;
    if (header.shape.size() != 2) {
        fail(NVFP4R_BAD_FILE, "{}: gate \"{}\" has shape {}; [experts, hidden] is needed", shards.name(), tensor,
             shape_text(header.shape));
    }
    GateEntry entry;
    entry.layer = name.layer;
    entry.tensor = tensor;
    const bool packed = header.dtype == "U8" || tensor.ends_with("_packed");
    entry.weight_type = packed ? NVFP4R_E2M1 : dtype_from_name(header.dtype);
    entry.terms = packed ? packed_terms(shards, tensor) : 0;
    const uint64_t hidden = packed ? header.shape[1] * 2 : header.shape[1];
    // Checked here so that no later sum of sizes can overflow; the reading of E and K is settled before any byte is.
    if (header.shape[0] < 1 || header.shape[0] > NVFP4R_MAX_EXPERTS || hidden < 1 || hidden > NVFP4R_MAX_HIDDEN) {
        fail(NVFP4R_UNSUPPORTED, "{}: gate \"{}\" has {} experts and hidden size {}; at most {} and {} are supported",
             shards.name(), tensor, header.shape[0], hidden, NVFP4R_MAX_EXPERTS, NVFP4R_MAX_HIDDEN);
    }
    entry.experts = static_cast<uint32_t>(header.shape[0]);
    entry.hidden = static_cast<uint32_t>(hidden);
    if (name.family != nullptr) {
        entry.bias = present(shards, name.prefix, name.family->bias);
        entry.linear_bias = present(shards, name.prefix, {name.family->linear_bias});
        entry.image_bias = present(shards, name.prefix, {name.family->image_bias});
        entry.table = present(shards, name.prefix, {name.family->table});
    }
    return entry;
}

std::vector<GateEntry> gates_of(const Shards& shards) {
    std::map<int32_t, std::pair<std::string, GateName>> by_layer;
    const auto add = [&](const std::string& tensor) {
        const std::optional<GateName> name = parse_gate_name(tensor);
        if (!name) return;
        const auto [slot, is_new] = by_layer.try_emplace(name->layer, tensor, *name);
        if (is_new || slot->second.first == tensor) return;
        const std::string& other = slot->second.first;
        fail(NVFP4R_BAD_FILE, "{}: layer {} has two gates, \"{}\" and \"{}\"; name the one to use", shards.name(),
             name->layer, std::min(other, tensor), std::max(other, tensor));
    };
    for (const auto& [tensor, where] : shards.tensors()) add(std::string(tensor));
    // A gate that only a stale index knows must not vanish without a word.
    for (const auto& [tensor, file] : shards.index()) add(tensor);
    std::vector<GateEntry> entries;
    for (const auto& [layer, gate] : by_layer) entries.push_back(describe(shards, gate.first, gate.second));
    return entries;
}

GateEntry entry_of_layer(const Shards& shards, int32_t layer) {
    const std::vector<GateEntry> entries = gates_of(shards);
    if (entries.empty()) {
        fail(NVFP4R_BAD_FILE, "{}: no router under any known name; give the gate's tensor name", shards.name());
    }
    for (const GateEntry& entry : entries) {
        if (entry.layer == layer) return entry;
    }
    fail(NVFP4R_BAD_FILE, "{}: layer {} has no router; first is {}, last is {}", shards.name(), layer,
         entries.front().layer, entries.back().layer);
}

GateEntry entry_of_tensor(const Shards& shards, const std::string& tensor, int32_t layer) {
    if (!shards.find(tensor)) fail(NVFP4R_BAD_FILE, "{}: no tensor \"{}\"", shards.name(), tensor);
    const std::optional<GateName> name = parse_gate_name(tensor);
    if (name) return describe(shards, tensor, *name);
    if (gate_base(tensor).empty()) {
        fail(NVFP4R_INVALID_ARGUMENT, "{}: \"{}\" does not end in .weight or .weight_packed", shards.name(), tensor);
    }
    return describe(shards, tensor, GateName{layer, "", nullptr});
}

void check_against_config(const Shards& shards, const GateEntry& entry) {
    const std::optional<ConfigShape> config = config_shape(shards.folder());
    if (!config || (config->experts == entry.experts && config->hidden == entry.hidden)) return;
    const bool transposed = config->experts == entry.hidden && config->hidden == entry.experts;
    fail(NVFP4R_BAD_FILE, "{}: gate \"{}\" is [{}, {}]; config.json says {} experts and hidden size {}{}",
         shards.name(), entry.tensor, entry.experts, entry.hidden, config->experts, config->hidden,
         transposed ? ": it is stored as [hidden, experts], transpose it" : "");
}

std::vector<float> load_weight(const Shards& shards, const GateEntry& entry) {
    if (entry.weight_type == NVFP4R_F8_E4M3) {
        fail(NVFP4R_UNSUPPORTED, "{}: gate \"{}\" is F8_E4M3 with scales of its own; convert it to BF16 or F32",
             shards.name(), entry.tensor);
    }
    if (entry.hidden % kBlock != 0) {
        fail(NVFP4R_UNSUPPORTED, "{}: gate \"{}\": hidden size {} is not a multiple of {}", shards.name(), entry.tensor,
             entry.hidden, kBlock);
    }
    std::vector<float> weight = to_f32(shards.tensor(entry.tensor), shards.name());
    for (size_t i = 0; i < weight.size(); ++i) {
        if (std::isfinite(weight[i])) continue;
        fail(NVFP4R_BAD_FILE, "{}: gate \"{}\" has {} at expert {}, column {}", shards.name(), entry.tensor, weight[i],
             i / entry.hidden, i % entry.hidden);
    }
    return weight;
}

/// [E], or [1, E] as some exporters keep it.
std::vector<float> load_vector(const Shards& shards, const std::string& name, uint32_t experts) {
    if (name.empty()) return {};
    const Tensor tensor = shards.tensor(name);
    const bool row = tensor.shape.size() == 1 || (tensor.shape.size() == 2 && tensor.shape[0] == 1);
    if (!row || tensor.shape.back() != experts) {
        fail(NVFP4R_BAD_FILE, "{}: tensor \"{}\" has shape {}; [{}] is needed", shards.name(), name,
             shape_text(tensor.shape), experts);
    }
    return to_f32(tensor, shards.name());
}

/// Selection biases decide near-ties, so they belong in f32: one stored in 16 bits has lost digits already.
std::vector<float> load_bias(const Shards& shards, const std::string& name, const nvfp4r_gate_options& options,
                             Gate& gate) {
    std::vector<float> bias = load_vector(shards, name, gate.experts);
    if (bias.empty()) return bias;
    const std::string& dtype = shards.find(name)->entry->dtype;
    if (dtype != "F32") {
        if (options.refuse_bf16_bias) {
            fail(NVFP4R_BAD_FILE, "{}: bias \"{}\" is {}; F32 is demanded (refuse_bf16_bias)", shards.name(), name,
                 dtype);
        }
        gate.notices.push_back(fmt::format("bias {} widened from {} to F32", name, dtype));
    }
    // Odd values keep their meaning in the contract (section 3), yet are rarely meant.
    for (size_t e = 0; e < bias.size(); ++e) {
        if (!std::isfinite(bias[e]))
            gate.notices.push_back(fmt::format("bias {} is {} at expert {}", name, bias[e], e));
    }
    return bias;
}

void load_table(const Shards& shards, const std::string& name, Gate& gate) {
    if (name.empty()) return;
    const Tensor tensor = shards.tensor(name);
    const bool is_integer = tensor.type == NVFP4R_I32 || tensor.type == NVFP4R_I64;
    if (!is_integer || tensor.shape.size() != 2 || tensor.shape[0] == 0 || tensor.shape[1] == 0 ||
        tensor.shape[1] > NVFP4R_MAX_TOP_K) {
        fail(NVFP4R_BAD_FILE, "{}: hash table \"{}\" is {} {}; I32 or I64 [vocabulary, 1..{}] is needed", shards.name(),
             name, dtype_name(tensor.type), shape_text(tensor.shape), NVFP4R_MAX_TOP_K);
    }
    gate.table = to_i64(tensor, shards.name());
    gate.vocabulary = tensor.shape[0];
    gate.table_k = static_cast<uint32_t>(tensor.shape[1]);
}

}  // namespace

std::vector<GateEntry> list_gates(const std::filesystem::path& path) {
    return gates_of(Shards(path));
}

Gate load_gate(const std::filesystem::path& path, int32_t layer, const nvfp4r_gate_options& options) {
    const Shards shards(path);
    const GateEntry entry =
        options.tensor ? entry_of_tensor(shards, options.tensor, layer) : entry_of_layer(shards, layer);
    check_against_config(shards, entry);
    Gate gate;
    gate.layer = entry.layer;
    gate.tensor = entry.tensor;
    gate.weight_type = entry.weight_type;
    gate.experts = entry.experts;
    gate.hidden = entry.hidden;
    if (entry.weight_type == NVFP4R_E2M1) {
        load_packed(shards, entry.tensor, options.repair_nan_scales != 0, gate);
    } else {
        gate.weight = load_weight(shards, entry);
    }
    gate.bias = load_bias(shards, entry.bias, options, gate);
    gate.image_bias = load_bias(shards, entry.image_bias, options, gate);
    gate.linear_bias = load_vector(shards, entry.linear_bias, gate.experts);
    load_table(shards, entry.table, gate);
    return gate;
}

}  // namespace nvfp4r
