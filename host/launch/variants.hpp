// The compiled kernels of one router: one for each kind of token and each range of M, made when first needed.
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
    const Variant& get(TokenForm form, int64_t tokens);

    /// Makes every variant that calls of up to `max_tokens` need, several at a time.
    void prepare(int64_t max_tokens);

  private:
    std::atomic<const Variant*>& place(TokenForm form, TokenBand band);
    std::unique_ptr<Variant> make(TokenForm form, TokenBand band) const;
    /// Keeps `variant` unless another thread was first; returns the one that stays.
    const Variant& publish(TokenForm form, TokenBand band, std::unique_ptr<Variant> variant);

    static constexpr uint32_t kForms = 4;
    std::shared_ptr<const GpuContext> context_;
    const nvfp4r_settings settings_;
    const TileWish wish_;
    std::mutex mutex_;
    std::array<std::atomic<const Variant*>, kForms * kTokenBands> ready_{};
    std::vector<std::unique_ptr<Variant>> owned_;
};

}  // namespace nvfp4r
