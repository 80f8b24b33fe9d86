#include "api/check.hpp"
#include "api/validate.hpp"

namespace nvfp4r {
namespace {

// Shared experts are few (1 or 2 in every known model); the bound keeps a row's width small.
constexpr uint32_t kMaxSharedSlots = 32;
constexpr uint32_t kMaxThreads = 1024;

void check_shape(const nvfp4r_settings& s) {
    if (s.experts < 1 || s.experts > NVFP4R_MAX_EXPERTS)
        fail(NVFP4R_INVALID_ARGUMENT, "settings.experts {}: must be 1 to {}", s.experts, NVFP4R_MAX_EXPERTS);
    if (s.hidden < 16 || s.hidden > NVFP4R_MAX_HIDDEN || s.hidden % 16 != 0)
        fail(NVFP4R_INVALID_ARGUMENT, "settings.hidden {}: must be a multiple of 16 from 16 to {}", s.hidden,
             NVFP4R_MAX_HIDDEN);
    if (s.top_k < 1 || s.top_k > NVFP4R_MAX_TOP_K)
        fail(NVFP4R_INVALID_ARGUMENT, "settings.top_k {}: must be 1 to {}", s.top_k, NVFP4R_MAX_TOP_K);
    if (s.top_k > s.experts)
        fail(NVFP4R_INVALID_ARGUMENT, "settings.top_k {}: there are only {} experts", s.top_k, s.experts);
    if (s.shared_slots > kMaxSharedSlots)
        fail(NVFP4R_INVALID_ARGUMENT, "settings.shared_slots {}: at most {}", s.shared_slots, kMaxSharedSlots);
}

void check_groups(const nvfp4r_settings& s) {
    check_enum("settings.group_score", s.group_score, {NVFP4R_GROUP_TOP2_SUM, NVFP4R_GROUP_MAX},
               "NVFP4R_GROUP_TOP2_SUM (0) or NVFP4R_GROUP_MAX (1)");
    if (s.groups <= 1) return;
    if (s.groups > s.experts || s.experts % s.groups != 0)
        fail(NVFP4R_INVALID_ARGUMENT, "settings.groups {}: must divide the {} experts", s.groups, s.experts);
    if (s.groups_kept < 1 || s.groups_kept > s.groups)
        fail(NVFP4R_INVALID_ARGUMENT, "settings.groups_kept {}: must be 1 to {} (groups)", s.groups_kept, s.groups);
    const uint32_t eligible = s.experts / s.groups * s.groups_kept;
    if (eligible < s.top_k)
        fail(NVFP4R_INVALID_ARGUMENT, "settings.groups_kept {}: leaves {} experts for top_k {}", s.groups_kept,
             eligible, s.top_k);
}

void check_enumerators(const nvfp4r_settings& s) {
    check_enum("settings.score", s.score,
               {NVFP4R_SCORE_SQRTSOFTPLUS, NVFP4R_SCORE_SIGMOID, NVFP4R_SCORE_SOFTMAX, NVFP4R_SCORE_IDENTITY},
               "sqrtsoftplus (1), sigmoid (2), softmax (3) or identity (4); it has no default");
    check_enum("settings.weighting", s.weighting,
               {NVFP4R_WEIGHT_SCORE, NVFP4R_WEIGHT_SOFTMAX_AFTER, NVFP4R_WEIGHT_SIGMOID_AFTER},
               "score (0), softmax-after (1) or sigmoid-after (2)");
    check_enum("settings.precision", s.precision,
               {NVFP4R_PRECISION_UNSET, NVFP4R_PRECISION_NVFP4, NVFP4R_PRECISION_NVFP4X2, NVFP4R_PRECISION_NVFP4X3,
                NVFP4R_PRECISION_NVFP4_W, NVFP4R_PRECISION_NVFP4X2_W, NVFP4R_PRECISION_RESCORE, NVFP4R_PRECISION_BF16},
               "nvfp4 (1), nvfp4x2 (2), nvfp4x3 (3), nvfp4-w (4), nvfp4x2-w (5), rescore (6), bf16 (7) or 0 for the "
               "gate's own");
    check_enum("settings.block_rule", s.block_rule,
               {NVFP4R_BLOCK_AMAX, NVFP4R_BLOCK_LEAST_SQUARES, NVFP4R_BLOCK_FOUR_OVER_SIX},
               "amax (0), least squares (1) or four over six (2)");
    check_flag("settings.renormalise", s.renormalise);
    check_flag("settings.use_bias", s.use_bias);
    check_flag("settings.batch_invariant", s.batch_invariant);
}

// Weight terms that a precision multiplies; 0: it reads the unquantised gate.
uint32_t terms_needed(nvfp4r_precision precision) {
    switch (precision) {
        case NVFP4R_PRECISION_NVFP4:
        case NVFP4R_PRECISION_NVFP4_W: return 1;
        case NVFP4R_PRECISION_NVFP4X2:
        case NVFP4R_PRECISION_NVFP4X2_W: return 2;
        case NVFP4R_PRECISION_NVFP4X3: return 3;
        default: return 0;
    }
}

}  // namespace

nvfp4r_precision resolve_precision(const nvfp4r_settings& settings, const Gate& gate) {
    const auto terms = static_cast<uint32_t>(gate.terms.size());
    if (settings.precision == NVFP4R_PRECISION_UNSET) {
        if (terms == 0) return NVFP4R_PRECISION_BF16;
        return terms == 1 ? NVFP4R_PRECISION_NVFP4 : terms == 2 ? NVFP4R_PRECISION_NVFP4X2 : NVFP4R_PRECISION_NVFP4X3;
    }
    const uint32_t needed = terms_needed(settings.precision);
    if (needed == 0 && terms > 0)
        fail(NVFP4R_INVALID_ARGUMENT, "settings.precision {}: needs an unquantised gate, this one is packed NVFP4",
             raw(settings.precision));
    if (terms > 0 && needed > terms)
        fail(NVFP4R_INVALID_ARGUMENT, "settings.precision {}: needs {} NVFP4 terms, the packed gate has {}",
             raw(settings.precision), needed, terms);
    return settings.precision;
}

void validate_settings(const nvfp4r_settings& s, const Gate& gate) {
    check_enumerators(s);
    check_shape(s);
    check_groups(s);
    check_not_negative("settings.renormalise_eps", s.renormalise_eps);
    check_finite("settings.routed_scaling", s.routed_scaling);
    check_not_negative("settings.logit_soft_cap", s.logit_soft_cap);
    check_finite("settings.shared_weight", s.shared_weight);
    check_not_negative("settings.activation_scale", s.activation_scale);
    if (s.experts != gate.experts)
        fail(NVFP4R_INVALID_ARGUMENT, "settings.experts {}: the gate has {}", s.experts, gate.experts);
    if (s.hidden != gate.hidden)
        fail(NVFP4R_INVALID_ARGUMENT, "settings.hidden {}: the gate has {}", s.hidden, gate.hidden);
    // A hash layer selects by its table and has no bias.
    if (s.use_bias && gate.bias.empty() && gate.table.empty())
        fail(NVFP4R_INVALID_ARGUMENT, "settings.use_bias 1: the gate has no selection bias; set 0 or give one");
    if (!gate.table.empty() && gate.table_k != s.top_k)
        fail(NVFP4R_INVALID_ARGUMENT, "settings.top_k {}: the gate's hash table has {} ids a token", s.top_k,
             gate.table_k);
    resolve_precision(s, gate);
}

void validate_options(const nvfp4r_router_options& o) {
    check_enum("options.device", o.device,
               {NVFP4R_DEVICE_AUTO, NVFP4R_DEVICE_CPU, NVFP4R_DEVICE_CUDA, NVFP4R_DEVICE_SIM},
               "auto (0), cpu (1), cuda (2) or sim (3)");
    check_enum("options.cpu_arithmetic", o.cpu_arithmetic, {NVFP4R_CPU_EXACT, NVFP4R_CPU_HARDWARE},
               "exact (0) or hardware (1)");
    if (o.ordinal < 0) fail(NVFP4R_INVALID_ARGUMENT, "options.ordinal {}: devices are counted from 0", o.ordinal);
    if (o.threads > kMaxThreads)
        fail(NVFP4R_INVALID_ARGUMENT, "options.threads {}: at most {}; 0 is one per core", o.threads, kMaxThreads);
    check_flag("options.programmatic_launch", o.programmatic_launch);
    check_flag("options.synchronise", o.synchronise);
}

}  // namespace nvfp4r
