#include "cli/launch_sheet.hpp"

#include <cuda.h>
#include <fmt/format.h>

#include "plan/kernel_request.hpp"
#include "router_params.h"

namespace nvfp4r::cli {
namespace {

constexpr uint32_t kTensorMapAlign = 64;  // of the kernel's parameter (CUDA driver API, cuTensorMapEncodeTiled)

Json parameters(const Plan& plan) {
    Json list = {{{"index", 0},
                  {"type", plan.kernel.plain ? "nvfp4r::CallParams" : "nvfp4r::RouterParams"},
                  {"header", "ptx/router_params.h"},
                  {"bytes", plan.kernel.plain ? sizeof(CallParams) : sizeof(RouterParams)},
                  {"align", alignof(RouterParams)}}};
    const auto add_map = [&](const char* of) {
        list.push_back({{"index", list.size()},
                        {"type", "CUtensorMap"},
                        {"bytes", sizeof(CUtensorMap)},
                        {"align", kTensorMapAlign},
                        {"passed", "by value"},
                        {"of", of}});
    };
    if (plan.kernel.tmem_columns != 0) {
        add_map("gate operands");
        add_map(
            "codes of NVFP4 tokens, where RouterParams.hidden_map is 1: tensor of M rows of hidden / 2 bytes, box of "
            "128 bytes by the tile's tokens, else as the gate's");
    }
    return list;
}

/// The gate of the Hopper kernels: registers of mma lanes (plan/pack_gate.hpp).
Json tiles(const KernelPlan& k) {
    const uint32_t tiles = ceil_div(k.experts, kExpertTile), chunks = ceil_div(k.hidden, kChunk);
    const bool scaled = k.gate_form == GateForm::Nvfp4;
    const uint32_t words = scaled ? 4 : 16;
    Json packing = {
        {"made_by", scaled ? "pack_nvfp4 (host/plan/pack_gate.hpp)" : "pack_bf16 (host/plan/pack_gate.hpp)"},
        {"planes", k.gate_planes},
        {"gate_codes",
         fmt::format("u32 [{}][{}][{}][{}]: 16-expert tile, 64-wide K chunk, lane, word", tiles, chunks, kWarp, words)},
        {"gate_codes_bytes", uint64_t{tiles} * chunks * kWarp * words * sizeof(uint32_t)}};
    if (scaled) {
        packing["gate_scales"] =
            fmt::format("u16 [{}][{}][{}]: tile, chunk, lane; e5m3 of rows g and g + 8", tiles, chunks, kWarp);
        packing["gate_scales_bytes"] = uint64_t{tiles} * chunks * kWarp * sizeof(uint16_t);
    }
    return packing;
}

/// The gate of the Blackwell kernel: rows for TMA (plan/pack_gate_sm100.hpp), and the map over them.
Json rows(const KernelPlan& k) {
    const bool scaled = k.gate_form == GateForm::Nvfp4;
    const uint32_t plane_rows = round_up(k.experts, kMmaExperts);
    const uint32_t pitch = round_up(scaled ? k.hidden / 2 : k.hidden * 2, kOperandRow);
    Json packing = {
        {"made_by",
         scaled ? "image_of_terms (host/plan/pack_gate_sm100.hpp)" : "image_of_bf16 (host/plan/pack_gate_sm100.hpp)"},
        {"planes", k.gate_planes},
        {"operands", fmt::format("{} planes of [{}, {}] bytes ({}), row-major, zero past E and K", k.gate_planes,
                                 plane_rows, pitch, scaled ? "e2m1 pairs, low half first" : "bf16")},
        {"operands_bytes", uint64_t{k.gate_planes} * plane_rows * pitch},
        {"tensor_map",
         {{"type", "CU_TENSOR_MAP_DATA_TYPE_UINT8"},
          {"sizes", {pitch, uint64_t{k.gate_planes} * plane_rows}},
          {"strides", {pitch}},
          {"box", {kOperandRow, kMmaExperts}},
          {"swizzle", "CU_TENSOR_MAP_SWIZZLE_128B"},
          {"l2_promotion", "CU_TENSOR_MAP_L2_PROMOTION_L2_128B"},
          {"out_of_bounds", "zero"}}}};
    if (scaled) {
        const uint32_t steps = ceil_div(k.hidden, step_k(k.gate_form));
        packing["gate_scales"] = fmt::format("e4m3, 128x4 layout: [{}][{}][{} bytes]: expert block, K step, atom",
                                             plane_rows / kMmaExperts, steps, kScaleAtom);
        packing["gate_scales_bytes"] = uint64_t{plane_rows / kMmaExperts} * steps * kScaleAtom;
    }
    return packing;
}

Json grid_of(const PlannedProblem& problem) {
    const Plan& plan = problem.plan;
    const int64_t per_launch = int64_t{plan.tiles_per_launch} * plan.tile_tokens;
    const Json launch = launch_json(problem);
    return {{"tokens_from", launch["tokens_from"]},
            {"tokens_to", launch["tokens_to"]},
            {"x", plan.own_selectors ? fmt::format("{} + (M < 4 ? 0 : min(M, {}))", plan.producers, plan.tile_tokens)
                                     : fmt::format("{}", plan.producers)},
            {"y", fmt::format("ceil(min(M - first_row, {}) / {})", per_launch, plan.tile_tokens)},
            {"z", "1"},
            {"launches", fmt::format("ceil(M / {}), first_row = 0, {}, ...", per_launch, per_launch)}};
}

Json constants(const KernelPlan& k) {
    return {{"experts", k.experts},
            {"hidden", k.hidden},
            {"top_k", k.top_k},
            {"score", static_cast<unsigned>(k.score)},
            {"weighting", static_cast<unsigned>(k.weighting)},
            {"groups", k.groups},
            {"groups_kept", k.groups_kept},
            {"group_score", static_cast<unsigned>(k.group_score)},
            {"renormalise", k.renormalise},
            {"plain", k.plain},
            {"gate_form", static_cast<unsigned>(k.gate_form)},
            {"gate_planes", k.gate_planes},
            {"token_form", static_cast<unsigned>(k.token_form)},
            {"token_planes", k.token_planes},
            {"quantise_tokens", k.quantise_tokens},
            {"product_order", k.product_order},
            {"token_tiles", k.token_tiles},
            {"expert_tiles", k.expert_tiles},
            {"warps", k.warps},
            {"warps_m", k.warps_m},
            {"warps_k", k.warps_k},
            {"slices", k.slices},
            {"chunks_per_warp", k.chunks_per_warp},
            {"ctas_per_sm", k.ctas_per_sm},
            {"stages", k.stages},
            {"tmem_columns", k.tmem_columns},
            {"cluster", k.cluster}};
}

}  // namespace

Json launch_sheet(const PlannedProblem& problem) {
    const Plan& plan = problem.plan;
    return {{"entry", kKernelEntry},
            {"arch", fmt::format("sm_{}", problem.gpu->arch)},
            {"source", fmt::format("ptx/{}", plan.source)},
            {"planned_for_multiprocessors", problem.gpu->limits.multiprocessors},
            {"parameters", parameters(plan)},
            {"grid", grid_of(problem)},
            {"block", {plan.threads, 1, 1}},
            {"cluster", {plan.kernel.cluster, 1, 1}},
            {"dynamic_shared_bytes", plan.shared_bytes},
            {"mailbox",
             {{"field", "mailbox"},
              {"bytes", plan.mailbox_words * sizeof(uint32_t)},
              {"initial", "every byte 0xff; each launch leaves it so"},
              {"shared_by", "no two launches that may run at the same time"}}},
            {"tickets",
             {{"field", "tickets"},
              {"bytes", plan.tiles_per_launch * sizeof(uint64_t)},
              {"initial", "0; each launch leaves it so"},
              {"shared_by", "no two launches that may run at the same time"}}},
            {"gate", plan.kernel.tmem_columns != 0 ? rows(plan.kernel) : tiles(plan.kernel)},
            {"settings", settings_json(problem.settings)},
            {"constants", constants(plan.kernel)}};
}

}  // namespace nvfp4r::cli
