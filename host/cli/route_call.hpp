// The call of `route`: its inputs from files, and the memory of its outputs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/arguments.hpp"
#include "cli/tensor_input.hpp"
#include "format/gate.hpp"
#include "nvfp4router.h"

namespace nvfp4r::cli {

/// The files of a call's optional inputs, "" where not given.
struct CallOptions {
    std::string hidden, token_ids, forced_ids, mask, image_mask, replicas;
    std::string hidden_scale_layout = "linear";
    int64_t num_valid = -1;         // -1: all rows
    int64_t tokens = -1;            // rows routed, the first ones; -1: all
    std::vector<std::string> with;  // optional outputs by name
    uint32_t permutation_tile = 1;

    void add_to(const Arguments& app);
};

/// Everything that the call points to. Not copied or moved: the call would point into the old one.
class RouteCall {
  public:
    RouteCall(const CallOptions& options, const Gate& gate, const nvfp4r_settings& settings);
    RouteCall(const RouteCall&) = delete;
    RouteCall& operator=(const RouteCall&) = delete;

    nvfp4r_call call = NVFP4R_CALL_INIT;
    uint32_t width;  // of a row of ids and weights: k + shared slots
    std::vector<float> weights;
    std::vector<int32_t> ids, logical_ids;
    uint32_t error_flag = 0;

    /// Every output as a named tensor, weights and ids first.
    std::vector<Tensor> tensors() const;

  private:
    void read_inputs(const CallOptions& options, const Gate& gate, const nvfp4r_settings& settings);
    void read_replicas(const std::string& file, uint32_t experts);
    void make_outputs(const CallOptions& options, const nvfp4r_settings& settings);

    HiddenInput hidden_;
    int32_t num_valid_ = 0;
    std::vector<int64_t> token_ids_;
    std::vector<int32_t> forced_ids_, replicas_, replica_count_;
    std::vector<uint8_t> mask_, image_mask_;
    std::vector<float> logits_, scores_, activation_globals_;
    std::vector<int32_t> tokens_per_expert_, permutation_, expert_offsets_;
    std::vector<uint8_t> activation_codes_, activation_scales_;
};

}  // namespace nvfp4r::cli
