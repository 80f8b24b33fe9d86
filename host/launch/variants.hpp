// The compiled kernels of one router: one for each kind of token, each range of M, with and without
// the options of a call; made when first needed.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "launch/context.hpp"
#include "plan/plan.hpp"

namespace nvfp4r {

/// A plan with its loaded function.
struct Variant {
    Plan plan;
    CUmodule module = nullptr;
    CUfunction function = nullptr;
};

class VariantSet {
  public:
    VariantSet(std::shared_ptr<const GpuContext> context, const nvfp4r_settings& settings, const TileWish& wish)
        : context_(std::move(context)), settings_(settings), wish_(wish) {}
    ~VariantSet();
    VariantSet(const VariantSet&) = delete;
    VariantSet& operator=(const VariantSet&) = delete;

    /// The variant for a call; compiled and loaded on first use, afterwards one atomic load. Thread safe.
    const Variant& get(TokenForm form, int64_t tokens, bool plain);

    /// Makes every variant that calls of up to `max_tokens` need, several at a time; where there is no NVRTC, those that
    /// are built into the library, and fails when there is none.
    void prepare(int64_t max_tokens);

  private:
    struct Key {
        TokenForm form;
        TokenBand band;
        bool plain;
    };
    std::atomic<const Variant*>& place(const Key& key);
    std::unique_ptr<Variant> make(const Key& key) const;
    /// Keeps `variant` unless another thread was first; returns the one that stays.
    const Variant& publish(const Key& key, std::unique_ptr<Variant> variant);

    static constexpr uint32_t kForms = 4;
    std::shared_ptr<const GpuContext> context_;
    const nvfp4r_settings settings_;
    const TileWish wish_;
    std::mutex mutex_;
    std::array<std::atomic<const Variant*>, 2 * kForms * kTokenBands> ready_{};
    std::vector<std::unique_ptr<Variant>> owned_;
};

}  // namespace nvfp4r
