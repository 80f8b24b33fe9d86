#include "cli/route_call.hpp"

#include <algorithm>

#include "cli/names.hpp"
#include "core/error.hpp"
#include "format/nvfp4.hpp"

namespace nvfp4r::cli {
namespace {

constexpr const char* kInputs = "Inputs of the call (files are .safetensors, .npy or .npz)";
const std::vector<std::string> kOptionalOutputs = {"logits",      "scores",     "logical_ids", "tokens_per_expert",
                                                   "permutation", "activations"};

bool wants(const CallOptions& options, const char* output) {
    return std::find(options.with.begin(), options.with.end(), output) != options.with.end();
}

template <class T>
Tensor view(const char* name, nvfp4r_dtype type, std::vector<uint64_t> shape, const std::vector<T>& values) {
    return {name,
            type,
            std::move(shape),
            {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)},
            nullptr};
}

}  // namespace

void CallOptions::add_to(const Arguments& app) {
    app.option("--hidden", hidden,
               "Tokens, FILE[:TENSOR]: bf16, f16 or f32 [M, K]; or NVFP4 codes with TENSOR_scale and "
               "TENSOR_scale_2 beside them. Default tensor: hidden")
        .required()
        .group(kInputs);
    app.option("--hidden-scale-layout", hidden_scale_layout, "Layout of NVFP4 tokens' scales")
        .one_of(names_of(kScaleLayouts))
        .show_default()
        .group(kInputs);
    app.option("--token-ids", token_ids,
               "FILE[:TENSOR] [M], for layers that route by a hash table. Default: the tensor "
               "token_ids of the --hidden file, where it has one")
        .group(kInputs);
    app.option("--forced-ids", forced_ids, "FILE[:TENSOR] [M, k]: use these experts, only weigh them").group(kInputs);
    app.option("--mask", mask, "FILE[:TENSOR] [M]: 0 marks a padding row").group(kInputs);
    app.option("--image-mask", image_mask, "FILE[:TENSOR] [M]: 1 takes the gate's image bias").group(kInputs);
    app.option("--tokens", tokens, "Route only the first so many rows").non_negative().group(kInputs);
    app.option("--num-valid", num_valid, "Rows at and past it are padding").non_negative().group(kInputs);
    app.option("--replicas", replicas, "FILE[:TENSOR] [E, R]: physical ids of each expert, -1 past its last")
        .group(kInputs);
    app.option("--with", with, "Further outputs, for --out: " + fmt::format("{}", fmt::join(kOptionalOutputs, ",")))
        .one_of(kOptionalOutputs)
        .comma_separated()
        .group(kInputs);
    app.option("--permutation-tile", permutation_tile,
               "Pad each expert's part of the permutation to a multiple of this")
        .show_default()
        .between(1, 4096)
        .group(kInputs);
}

RouteCall::RouteCall(const CallOptions& options, const Gate& gate, const nvfp4r_settings& settings)
    : width(settings.top_k + settings.shared_slots),
      hidden_(options.hidden, static_cast<nvfp4r_scale_layout>(value_of(kScaleLayouts, options.hidden_scale_layout))) {
    if (hidden_.hidden() != gate.hidden)
        fail(NVFP4R_BAD_FILE, "{}: tokens have {} values; the gate {} takes {}", options.hidden, hidden_.hidden(),
             gate.tensor, gate.hidden);
    read_inputs(options, gate, settings);
    make_outputs(options, settings);
}

void RouteCall::read_inputs(const CallOptions& options, const Gate& gate, const nvfp4r_settings& settings) {
    hidden_.fill(call);
    const auto rows = static_cast<uint64_t>(call.tokens);
    std::string token_ids = options.token_ids;
    if (token_ids.empty() && !gate.table.empty() && options.forced_ids.empty()) {
        const TensorSpec spec{parse_spec(options.hidden).file, "token_ids"};
        if (has_tensor(spec, spec.tensor)) token_ids = spec.file + ":" + spec.tensor;
    }
    if (!token_ids.empty()) {
        token_ids_ = load_integers<int64_t>(token_ids, "token_ids", rows);
        call.token_ids = token_ids_.data();
        call.token_id_type = NVFP4R_I64;
    }
    if (!options.forced_ids.empty()) {
        forced_ids_ = load_integers<int32_t>(options.forced_ids, "ids", rows * settings.top_k);
        call.forced_ids = forced_ids_.data();
    }
    if (!options.mask.empty()) {
        mask_ = load_integers<uint8_t>(options.mask, "mask", rows);
        call.mask = mask_.data();
    }
    if (!options.image_mask.empty()) {
        image_mask_ = load_integers<uint8_t>(options.image_mask, "image_mask", rows);
        call.image_mask = image_mask_.data();
    }
    // The files have all rows; the call takes the first of them.
    if (options.tokens >= 0) call.tokens = std::min(options.tokens, call.tokens);
    if (options.num_valid >= 0) {
        num_valid_ = static_cast<int32_t>(std::min(options.num_valid, call.tokens));
        call.num_valid = &num_valid_;
    }
    if (!options.replicas.empty()) read_replicas(options.replicas, settings.experts);
}

void RouteCall::read_replicas(const std::string& text, uint32_t experts) {
    const TensorSpec spec = parse_spec(text);
    const Tensor map = load_tensor(spec, "logit_to_physical");
    if (map.shape.size() != 2 || map.shape[0] != experts || map.shape[1] == 0)
        fail(NVFP4R_BAD_FILE, "{}: the replica map has the shape {}; [{}, R] is needed", spec.file,
             shape_text(map.shape), experts);
    replicas_ = load_integers<int32_t>(text, "logit_to_physical", element_count(map.shape, map.name));
    call.replicas = static_cast<uint32_t>(map.shape[1]);
    for (uint32_t e = 0; e < experts; ++e) {
        const auto row = replicas_.begin() + static_cast<std::ptrdiff_t>(size_t{e} * call.replicas);
        const auto end = std::find(row, row + call.replicas, -1);
        replica_count_.push_back(static_cast<int32_t>(end - row));
    }
    call.logit_to_physical = replicas_.data();
    call.replica_count = replica_count_.data();
    call.experts_physical =
        static_cast<uint32_t>(1 + std::max(0, *std::max_element(replicas_.begin(), replicas_.end())));
}

void RouteCall::make_outputs(const CallOptions& options, const nvfp4r_settings& settings) {
    const auto rows = static_cast<size_t>(call.tokens);
    weights.resize(rows * width);
    ids.resize(rows * width);
    logical_ids.resize(rows * settings.top_k);
    call.weights = weights.data();
    call.weights_type = NVFP4R_F32;
    call.weights_capacity = static_cast<int64_t>(weights.size());
    call.ids = ids.data();
    call.ids_type = NVFP4R_I32;
    call.ids_capacity = static_cast<int64_t>(ids.size());
    call.logical_ids = logical_ids.data();
    call.logical_ids_type = NVFP4R_I32;
    call.error_flag = &error_flag;
    const uint32_t physical = call.experts_physical ? call.experts_physical : settings.experts;
    if (wants(options, "logits")) {
        logits_.resize(rows * settings.experts);
        call.logits = logits_.data();
    }
    if (wants(options, "scores")) {
        scores_.resize(rows * settings.experts);
        call.scores = scores_.data();
    }
    if (wants(options, "tokens_per_expert")) {
        tokens_per_expert_.resize(physical);
        call.tokens_per_expert = tokens_per_expert_.data();
    }
    if (wants(options, "permutation")) {
        // Each expert's part ends at most one tile short of a multiple of the tile.
        permutation_.resize(rows * settings.top_k + size_t{physical} * (options.permutation_tile - 1), -1);
        expert_offsets_.resize(physical + 1);
        call.permutation = permutation_.data();
        call.permutation_capacity = static_cast<int64_t>(permutation_.size());
        call.permutation_tile = options.permutation_tile;
        call.expert_offsets = expert_offsets_.data();
    }
    if (wants(options, "activations")) {
        const uint32_t scale_cols = settings.hidden / kBlock;
        activation_codes_.resize(rows * settings.hidden / 2);
        activation_scales_.resize(scale_bytes(rows, scale_cols, NVFP4R_SCALES_LINEAR));
        activation_globals_.resize(rows);
        call.hidden_codes_out = activation_codes_.data();
        call.hidden_scales_out = activation_scales_.data();
        call.hidden_global_scales_out = activation_globals_.data();
    }
}

std::vector<Tensor> RouteCall::tensors() const {
    const auto rows = static_cast<uint64_t>(call.tokens);
    const auto per_row = [rows](size_t count) { return rows == 0 ? uint64_t{0} : count / rows; };
    std::vector<Tensor> list = {view("weights", NVFP4R_F32, {rows, width}, weights),
                                view("ids", NVFP4R_I32, {rows, width}, ids)};
    if (call.logits) list.push_back(view("logits", NVFP4R_F32, {rows, per_row(logits_.size())}, logits_));
    if (call.scores) list.push_back(view("scores", NVFP4R_F32, {rows, per_row(scores_.size())}, scores_));
    if (call.logit_to_physical)
        list.push_back(view("logical_ids", NVFP4R_I32, {rows, per_row(logical_ids.size())}, logical_ids));
    if (call.tokens_per_expert)
        list.push_back(view("tokens_per_expert", NVFP4R_I32, {tokens_per_expert_.size()}, tokens_per_expert_));
    if (call.permutation) {
        list.push_back(view("permutation", NVFP4R_I32, {permutation_.size()}, permutation_));
        list.push_back(view("expert_offsets", NVFP4R_I32, {expert_offsets_.size()}, expert_offsets_));
    }
    if (call.hidden_codes_out) {
        list.push_back(view("activations", NVFP4R_U8, {rows, per_row(activation_codes_.size())}, activation_codes_));
        list.push_back(
            view("activations_scale", NVFP4R_F8_E4M3, {rows, per_row(activation_scales_.size())}, activation_scales_));
        list.push_back(view("activations_scale_2", NVFP4R_F32, {rows}, activation_globals_));
    }
    return list;
}

}  // namespace nvfp4r::cli
