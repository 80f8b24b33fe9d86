#include "cli/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "cli/terminal.hpp"

namespace nvfp4r::cli {
namespace {

constexpr double kSmallest = 1e-37;  // weights below it are subnormal in f32: they have no relative precision

struct Score {
    double act;  // after the score function
    double act_margin;
    double rank;  // fp32(act + bias), as the contract rounds it
    double rank_margin;
};

double softplus(double x) {
    return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
}

double score_of(nvfp4r_score score, double logit) {
    switch (score) {
        case NVFP4R_SCORE_SQRTSOFTPLUS: return std::sqrt(softplus(logit));
        case NVFP4R_SCORE_SIGMOID: return 1.0 / (1.0 + std::exp(-logit));
        default: return logit;
    }
}

/// 3: +Inf, 2: a number, 1: -Inf, 0: NaN. The order of the contract's section 3.
int rank_class(double x) {
    if (std::isnan(x)) return 0;
    if (std::isinf(x)) return x > 0 ? 3 : 1;
    return 2;
}

class Judge {
  public:
    Judge(const Gate& gate, const nvfp4r_settings& settings, const nvfp4r_call& call, Tolerance tolerance)
        : gate_(gate), settings_(settings), call_(call), tolerance_(tolerance), logits_(gate, settings, tolerance) {}

    /// What is wrong with a row; nothing when it is right. Adds to the report's figures.
    std::optional<std::string> row(int64_t m, CheckReport& report) const {
        const std::span ids(static_cast<const int32_t*>(call_.logical_ids) + m * settings_.top_k, settings_.top_k);
        const std::span weights(static_cast<const float*>(call_.weights) + m * width(), width());
        if (auto wrong = places(m, ids, weights)) return wrong;
        if (padding(m)) return padding_row(ids, weights);

        const Logits logits = logits_.row(call_, m);
        for (const double margin : logits.margin)
            if (std::isfinite(margin)) report.margin = std::max(report.margin, margin);
        const std::vector<Score> scores = scores_of(logits, m);
        const bool numbers =
            std::all_of(logits.value.begin(), logits.value.end(), [](double l) { return std::isfinite(l); });
        if (call_.forced_ids || !gate_.table.empty()) {
            if (auto wrong = given_ids(m, ids)) return wrong;
        } else if (numbers || settings_.score != NVFP4R_SCORE_SOFTMAX) {
            if (auto wrong = chosen_ids(ids, scores, report)) return wrong;
        }
        if (!numbers) {
            ++report.rows_form_only;
            return odd_weights(logits, weights);
        }
        return row_weights(ids, logits, scores, weights, report);
    }

  private:
    size_t width() const { return settings_.top_k + settings_.shared_slots; }

    bool padding(int64_t m) const {
        return (call_.num_valid && m >= *call_.num_valid) || (call_.mask && call_.mask[m] == 0);
    }

    /// Physical ids follow from the logical ones, and the shared experts' slots from nothing at all.
    std::optional<std::string> places(int64_t m, std::span<const int32_t> ids, std::span<const float> weights) const {
        const int32_t* physical = static_cast<const int32_t*>(call_.ids) + m * static_cast<int64_t>(width());
        for (size_t i = 0; i < ids.size(); ++i) {
            int32_t expected = ids[i];
            if (call_.logit_to_physical && expected >= 0) {
                const auto count = static_cast<uint64_t>(call_.replica_count[expected]);
                const uint64_t slot = settings_.batch_invariant ? 0 : (static_cast<uint64_t>(m) + i) % count;
                expected = call_.logit_to_physical[static_cast<uint64_t>(expected) * call_.replicas + slot];
            }
            if (physical[i] != expected) return fmt::format("rank {}: id {}, expected {}", i, physical[i], expected);
        }
        for (size_t s = 0; s < settings_.shared_slots; ++s) {
            const size_t i = ids.size() + s;
            const bool pad = padding(m);
            const auto id =
                pad ? -1
                    : static_cast<int32_t>((call_.experts_physical ? call_.experts_physical : settings_.experts) + s);
            const float weight = pad ? 0.0f : settings_.shared_weight;
            if (physical[i] != id || weights[i] != weight)
                return fmt::format("shared slot {}: id {} weight {}, expected {} and {}", s, physical[i], weights[i],
                                   id, weight);
        }
        return std::nullopt;
    }

    static std::optional<std::string> padding_row(std::span<const int32_t> ids, std::span<const float> weights) {
        for (size_t i = 0; i < ids.size(); ++i)
            if (ids[i] != -1 || weights[i] != 0.0f)
                return fmt::format("padding row has id {} weight {} at rank {}", ids[i], weights[i], i);
        return std::nullopt;
    }

    std::vector<Score> scores_of(const Logits& logits, int64_t m) const {
        const bool image = call_.image_mask && call_.image_mask[m] && !gate_.image_bias.empty();
        const std::vector<float>& bias = image ? gate_.image_bias : gate_.bias;
        const bool biased = settings_.use_bias && !bias.empty();
        double highest = -INFINITY, widest = 0, total = 0;
        if (settings_.score == NVFP4R_SCORE_SOFTMAX) {
            for (size_t e = 0; e < logits.value.size(); ++e) {
                if (std::isnan(logits.value[e])) continue;
                highest = std::max(highest, logits.value[e]);
                widest = std::max(widest, logits.margin[e]);
            }
            for (const double l : logits.value)
                if (!std::isnan(l)) total += std::exp(l - highest);
        }
        std::vector<Score> scores(logits.value.size());
        for (size_t e = 0; e < scores.size(); ++e) {
            Score& s = scores[e];
            const double l = logits.value[e], margin = logits.margin[e];
            if (settings_.score == NVFP4R_SCORE_SOFTMAX) {
                s.act = std::exp(l - highest) / total;
                s.act_margin = s.act * std::expm1(2 * widest);
            } else {
                s.act = score_of(settings_.score, l);
                s.act_margin = std::max(score_of(settings_.score, l + margin) - s.act,
                                        s.act - score_of(settings_.score, l - margin));
            }
            s.act_margin += tolerance_.score * std::fabs(s.act);
            s.rank = s.act;
            s.rank_margin = s.act_margin;
            if (biased) {
                s.rank = static_cast<double>(static_cast<float>(s.act) + bias[e]);
                s.rank_margin += 2 * kF32Step * std::fabs(s.rank);
            }
        }
        return scores;
    }

    /// Whether expert a must come before expert b, whatever the device's rounding did.
    static bool surely_before(const std::vector<Score>& scores, size_t a, size_t b) {
        const int class_a = rank_class(scores[a].rank), class_b = rank_class(scores[b].rank);
        if (class_a != class_b) return class_a > class_b;
        if (class_a != 2) return a < b;
        return scores[a].rank - scores[a].rank_margin > scores[b].rank + scores[b].rank_margin;
    }

    /// Whether a comes before b by the exact numbers.
    static bool before(const std::vector<Score>& scores, size_t a, size_t b) {
        const int class_a = rank_class(scores[a].rank), class_b = rank_class(scores[b].rank);
        if (class_a != class_b) return class_a > class_b;
        if (class_a != 2 || scores[a].rank == scores[b].rank) return a < b;
        return scores[a].rank > scores[b].rank;
    }

    struct GroupScore {
        double value, margin;
    };

    std::vector<GroupScore> group_scores(const std::vector<Score>& scores) const {
        const size_t size = scores.size() / settings_.groups;
        std::vector<GroupScore> groups;
        for (size_t g = 0; g < settings_.groups; ++g) {
            std::vector<size_t> members(size);
            for (size_t i = 0; i < size; ++i) members[i] = g * size + i;
            const size_t used = settings_.group_score == NVFP4R_GROUP_MAX ? 1 : std::min<size_t>(2, size);
            std::partial_sort(members.begin(), members.begin() + static_cast<std::ptrdiff_t>(used), members.end(),
                              [&](size_t a, size_t b) { return before(scores, a, b); });
            GroupScore group{0, 0};
            for (size_t i = 0; i < used; ++i) {
                group.value += scores[members[i]].rank;
                group.margin += scores[members[i]].rank_margin;
            }
            group.margin += 2 * kF32Step * std::fabs(group.value);
            groups.push_back(group);
        }
        return groups;
    }

    /// For each expert: 1 its group is surely kept, 0 surely not, -1 within the margin.
    std::vector<int> eligible(const std::vector<Score>& scores) const {
        if (settings_.groups <= 1) return std::vector<int>(scores.size(), 1);
        const std::vector<GroupScore> groups = group_scores(scores);
        const size_t size = scores.size() / settings_.groups;
        std::vector<int> result(scores.size());
        for (size_t g = 0; g < groups.size(); ++g) {
            size_t surely_better = 0, perhaps_better = 0;
            for (size_t h = 0; h < groups.size(); ++h) {
                if (h == g) continue;
                surely_better += groups[h].value - groups[h].margin > groups[g].value + groups[g].margin;
                perhaps_better += groups[h].value + groups[h].margin >= groups[g].value - groups[g].margin;
            }
            const int state = perhaps_better < settings_.groups_kept  ? 1
                              : surely_better < settings_.groups_kept ? -1
                                                                      : 0;
            std::fill_n(result.begin() + static_cast<std::ptrdiff_t>(g * size), size, state);
        }
        return result;
    }

    std::optional<std::string> chosen_ids(std::span<const int32_t> ids, const std::vector<Score>& scores,
                                          CheckReport& report) const {
        std::set<size_t> chosen;
        for (const int32_t id : ids) {
            if (id < 0 || static_cast<size_t>(id) >= scores.size()) return fmt::format("id {} is no expert", id);
            if (!chosen.insert(static_cast<size_t>(id)).second) return fmt::format("expert {} is chosen twice", id);
        }
        const std::vector<int> kept = eligible(scores);
        bool by_margin = false;
        for (size_t i = 0; i < ids.size(); ++i) {
            const auto e = static_cast<size_t>(ids[i]);
            if (kept[e] == 0) return fmt::format("expert {} is chosen, but its group is not among the best", e);
            by_margin = by_margin || kept[e] < 0;
            if (i == 0) continue;
            const auto previous = static_cast<size_t>(ids[i - 1]);
            if (surely_before(scores, e, previous))
                return fmt::format("experts {} and {} stand in the wrong order ({} and {})", previous, e,
                                   scores[previous].rank, scores[e].rank);
            by_margin = by_margin || before(scores, e, previous);
        }
        const auto last = static_cast<size_t>(ids.back());
        for (size_t e = 0; e < scores.size(); ++e) {
            if (chosen.contains(e) || kept[e] == 0) continue;
            if (kept[e] > 0 && surely_before(scores, e, last))
                return fmt::format("expert {} is chosen, but {} ranks higher ({} against {})", last, e,
                                   scores[last].rank, scores[e].rank);
            by_margin = by_margin || before(scores, e, last);
        }
        report.rows_by_margin += by_margin;
        return std::nullopt;
    }

    /// Replayed ids and hash tables: the id given, or -1 for one that is no expert.
    std::optional<std::string> given_ids(int64_t m, std::span<const int32_t> ids) const {
        for (size_t i = 0; i < ids.size(); ++i) {
            int64_t given = -1;
            if (call_.forced_ids) {
                const int64_t stride = call_.forced_stride ? call_.forced_stride : settings_.top_k;
                given = call_.forced_ids[m * stride + static_cast<int64_t>(i)];
            } else {
                const int64_t token = call_.token_id_type == NVFP4R_I64
                                          ? static_cast<const int64_t*>(call_.token_ids)[m]
                                          : static_cast<const int32_t*>(call_.token_ids)[m];
                if (token >= 0 && static_cast<uint64_t>(token) < gate_.vocabulary)
                    given = gate_.table[static_cast<size_t>(token) * gate_.table_k + i];
            }
            if (given < 0 || given >= settings_.experts) given = -1;
            if (ids[i] != given) return fmt::format("rank {}: id {}, the given one is {}", i, ids[i], given);
        }
        return std::nullopt;
    }

    /// A row with logits that are no numbers: its weights are never NaN, and zero when all logits are NaN.
    static std::optional<std::string> odd_weights(const Logits& logits, std::span<const float> weights) {
        const bool all_nan =
            std::all_of(logits.value.begin(), logits.value.end(), [](double l) { return std::isnan(l); });
        for (const float w : weights)
            if (std::isnan(w) || (all_nan && w != 0.0f)) return fmt::format("weight {} in a row of odd logits", w);
        return std::nullopt;
    }

    /// The exact weights of the experts that were chosen, and how far each may be off, relatively.
    struct Weights {
        std::vector<double> value, slack;
    };

    Weights expected_weights(std::span<const int32_t> ids, const Logits& logits,
                             const std::vector<Score>& scores) const {
        Weights w{std::vector<double>(ids.size()), std::vector<double>(ids.size())};
        double highest = -INFINITY, widest = 0;
        for (const int32_t id : ids) {
            if (id < 0) continue;
            highest = std::max(highest, logits.value[static_cast<size_t>(id)]);
            widest = std::max(widest, logits.margin[static_cast<size_t>(id)]);
        }
        double sum = 0, sum_slack = 0;
        for (size_t i = 0; i < ids.size(); ++i) {
            if (ids[i] < 0) continue;
            const auto e = static_cast<size_t>(ids[i]);
            switch (settings_.weighting) {
                case NVFP4R_WEIGHT_SCORE:
                    w.value[i] = scores[e].act;
                    w.slack[i] = scores[e].act == 0 ? 0 : scores[e].act_margin / std::fabs(scores[e].act);
                    break;
                case NVFP4R_WEIGHT_SOFTMAX_AFTER:
                    w.value[i] = std::exp(logits.value[e] - highest);
                    w.slack[i] = std::expm1(2 * widest) + tolerance_.score;
                    break;
                case NVFP4R_WEIGHT_SIGMOID_AFTER:
                    w.value[i] = score_of(NVFP4R_SCORE_SIGMOID, logits.value[e]);
                    w.slack[i] = std::expm1(2 * widest) + tolerance_.score;
                    break;
            }
            sum += w.value[i];
            sum_slack = std::max(sum_slack, w.slack[i]);
        }
        double factor = 1;
        if (settings_.weighting == NVFP4R_WEIGHT_SOFTMAX_AFTER)
            factor = 1 / sum;
        else if (settings_.renormalise)
            factor = sum == 0 ? 0 : 1 / (sum + static_cast<double>(settings_.renormalise_eps));
        else
            sum_slack = 0;
        for (size_t i = 0; i < ids.size(); ++i) {
            if (ids[i] < 0) continue;
            w.value[i] *= factor * static_cast<double>(settings_.routed_scaling);
            if (!gate_.expert_factor.empty())
                w.value[i] *= static_cast<double>(gate_.expert_factor[static_cast<size_t>(ids[i])]);
            w.slack[i] += sum_slack + (8 + static_cast<double>(ids.size())) * kF32Step;
        }
        return w;
    }

    std::optional<std::string> row_weights(std::span<const int32_t> ids, const Logits& logits,
                                           const std::vector<Score>& scores, std::span<const float> weights,
                                           CheckReport& report) const {
        const Weights expected = expected_weights(ids, logits, scores);
        for (size_t i = 0; i < ids.size(); ++i) {
            const double got = static_cast<double>(weights[i]), difference = std::fabs(got - expected.value[i]);
            const double size = std::fabs(expected.value[i]);
            if (!(difference <= expected.slack[i] * size + kSmallest))
                return fmt::format("expert {}: weight {:.9g}, expected {:.9g}", ids[i], got, expected.value[i]);
            if (size > kSmallest) report.worst_weight = std::max(report.worst_weight, difference / size);
        }
        return std::nullopt;
    }

    const Gate& gate_;
    const nvfp4r_settings& settings_;
    const nvfp4r_call& call_;
    Tolerance tolerance_;
    LogitCheck logits_;
};

void add(CheckReport& total, const CheckReport& part) {
    total.rows_by_margin += part.rows_by_margin;
    total.rows_form_only += part.rows_form_only;
    total.worst_weight = std::max(total.worst_weight, part.worst_weight);
    total.margin = std::max(total.margin, part.margin);
}

}  // namespace

CheckReport check_routing(const Gate& gate, const nvfp4r_settings& settings, const nvfp4r_call& call, bool exact_sums,
                          uint32_t threads) {
    const Judge judge(gate, settings, call, tolerance_of(gate.hidden, exact_sums));
    CheckReport total;
    total.rows = call.tokens;
    Progress progress("checking row", call.tokens);
    std::mutex mutex;
    std::atomic<int64_t> next{0};
    int64_t first_wrong_row = call.tokens;
    const auto work = [&] {
        for (int64_t m = next++; m < call.tokens; m = next++) {
            CheckReport part;
            const std::optional<std::string> wrong = judge.row(m, part);
            const std::lock_guard lock(mutex);
            progress.at(m);
            add(total, part);
            if (!wrong) continue;
            ++total.rows_wrong;
            if (m >= first_wrong_row) continue;
            first_wrong_row = m;
            total.first_wrong = fmt::format("row {}: {}", m, *wrong);
        }
    };
    std::vector<std::jthread> workers;
    const uint32_t count = threads ? threads : std::max(1u, std::thread::hardware_concurrency());
    for (uint32_t t = 1; t < count; ++t) workers.emplace_back(work);
    work();
    workers.clear();
    return total;
}

Json CheckReport::json() const {
    Json report = {{"rows", rows},
                   {"rows_wrong", rows_wrong},
                   {"rows_by_margin", rows_by_margin},
                   {"rows_form_only", rows_form_only},
                   {"logit_margin", margin},
                   {"worst_weight_error", worst_weight}};
    if (!first_wrong.empty()) report["first_wrong"] = first_wrong;
    return report;
}

}  // namespace nvfp4r::cli
