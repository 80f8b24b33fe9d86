#include "cpu/exact_multiply.hpp"

#include <algorithm>
#include <cstring>

namespace nvfp4r {
namespace {

constexpr uint32_t kDepth = 256;  // k values at a time: a panel's part (16 KiB) and four rows' stay in the first cache
constexpr uint32_t kRowTile = 4;  // rows x 2 vectors of accumulators fill the registers

// Four lanes whatever the processor has: lanes are experts, so no sum is ever split over them.
typedef double Lanes __attribute__((vector_size(32)));
constexpr uint32_t kLanes = 4;
static_assert(ExactMatrix::kPanel == 2 * kLanes, "the kernel holds a panel as two vectors");

template <uint32_t Rows>
[[gnu::always_inline]] inline void multiply_rows(const double* x, const double* w, uint32_t depth, double* sums,
                                                 uint64_t sums_stride) {
    Lanes sum[Rows][2];
    for (uint32_t r = 0; r < Rows; ++r) std::memcpy(sum[r], sums + r * sums_stride, sizeof(sum[r]));
    for (uint32_t k = 0; k < depth; ++k) {
        Lanes weight[2];
        std::memcpy(weight, w + uint64_t{k} * ExactMatrix::kPanel, sizeof(weight));
        for (uint32_t r = 0; r < Rows; ++r) {
            const double value = x[r * kDepth + k];
            sum[r][0] += weight[0] * value;
            sum[r][1] += weight[1] * value;
        }
    }
    for (uint32_t r = 0; r < Rows; ++r) std::memcpy(sums + r * sums_stride, sum[r], sizeof(sum[r]));
}

[[gnu::always_inline]] inline void multiply_panel(const double* x, uint32_t rows, const double* w, uint32_t depth,
                                                  double* sums, uint64_t sums_stride) {
    uint32_t row = 0;
    for (; row + kRowTile <= rows; row += kRowTile)
        multiply_rows<kRowTile>(x + row * kDepth, w, depth, sums + row * sums_stride, sums_stride);
    for (; row < rows; ++row) multiply_rows<1>(x + row * kDepth, w, depth, sums + row * sums_stride, sums_stride);
}

void multiply_panel_default(const double* x, uint32_t rows, const double* w, uint32_t depth, double* sums,
                            uint64_t sums_stride) {
    multiply_panel(x, rows, w, depth, sums, sums_stride);
}

#if defined(__x86_64__)
// The same operations in wider registers. Products are not fused with sums (-ffp-contract=off), so the bits are the
// same.
__attribute__((target("avx2"))) void multiply_panel_avx2(const double* x, uint32_t rows, const double* w,
                                                         uint32_t depth, double* sums, uint64_t sums_stride) {
    multiply_panel(x, rows, w, depth, sums, sums_stride);
}

auto pick_kernel() {
    return __builtin_cpu_supports("avx2") ? multiply_panel_avx2 : multiply_panel_default;
}
#else
auto pick_kernel() {
    return multiply_panel_default;
}
#endif

}  // namespace

ExactMatrix::ExactMatrix(const std::vector<float>& values, uint32_t experts, uint32_t hidden)
    : experts_(experts),
      hidden_(hidden),
      panels_((experts + kPanel - 1) / kPanel),
      values_(uint64_t{panels_} * hidden * kPanel) {
    for (uint32_t e = 0; e < experts; ++e) {
        float* to = values_.data() + uint64_t{e / kPanel} * hidden * kPanel + e % kPanel;
        for (uint32_t k = 0; k < hidden; ++k) to[uint64_t{k} * kPanel] = values[uint64_t{e} * hidden + k];
    }
}

ExactScratch::ExactScratch(uint32_t max_rows) : x(uint64_t{max_rows} * kDepth), w(kDepth * ExactMatrix::kPanel) {}

void multiply_exact(const float* x, uint32_t rows, const ExactMatrix& w, ExactScratch& scratch, double* sums) {
    static const auto kernel = pick_kernel();
    for (uint32_t k = 0; k < w.hidden(); k += kDepth) {
        const uint32_t depth = std::min(kDepth, w.hidden() - k);
        for (uint32_t r = 0; r < rows; ++r)
            std::copy_n(x + uint64_t{r} * w.hidden() + k, depth, scratch.x.data() + r * kDepth);
        for (uint32_t p = 0; p < w.panels(); ++p) {
            std::copy_n(w.panel(p, k), depth * ExactMatrix::kPanel, scratch.w.data());
            kernel(scratch.x.data(), rows, scratch.w.data(), depth, sums + p * ExactMatrix::kPanel, w.padded_experts());
        }
    }
}

}  // namespace nvfp4r
