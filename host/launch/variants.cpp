#include "launch/variants.hpp"

#include <algorithm>
#include <exception>
#include <thread>

#include "jit/jit.hpp"
#include "jit/target.hpp"

namespace nvfp4r {

VariantSet::~VariantSet() {
    const DriverApi& api = context_->api();
    if (owned_.empty() || api.cuCtxPushCurrent(context_->handle()) != CUDA_SUCCESS) return;
    for (const auto& variant : owned_) api.cuModuleUnload(variant->module);
    CUcontext popped = nullptr;
    api.cuCtxPopCurrent(&popped);
}

std::atomic<const Variant*>& VariantSet::place(TokenForm form, TokenBand band) {
    return ready_[static_cast<uint32_t>(form) * kTokenBands + static_cast<uint32_t>(band)];
}

const Variant& VariantSet::get(TokenForm form, int64_t tokens) {
    const TokenBand band = token_band(tokens);
    if (const Variant* variant = place(form, band).load(std::memory_order_acquire)) return *variant;
    return publish(form, band, make(form, band));
}

const Variant& VariantSet::publish(TokenForm form, TokenBand band, std::unique_ptr<Variant> variant) {
    const std::lock_guard lock(mutex_);
    if (const Variant* first = place(form, band).load(std::memory_order_relaxed)) {
        const ContextScope scope(*context_);
        context_->api().cuModuleUnload(variant->module);
        return *first;
    }
    owned_.push_back(std::move(variant));
    place(form, band).store(owned_.back().get(), std::memory_order_release);
    return *owned_.back();
}

void VariantSet::prepare(int64_t max_tokens) {
    struct Item {
        TokenForm form;
        TokenBand band;
    };
    std::vector<Item> missing;
    const auto last = static_cast<uint32_t>(token_band(std::max<int64_t>(max_tokens, 1)));
    for (uint32_t form = 0; form < kForms; ++form)
        for (uint32_t band = 0; band <= last; ++band) {
            const Item item{static_cast<TokenForm>(form), static_cast<TokenBand>(band)};
            if (!place(item.form, item.band).load(std::memory_order_acquire)) missing.push_back(item);
        }
    std::atomic<size_t> next{0};
    std::exception_ptr failure;
    std::mutex failure_mutex;
    const auto work = [&] {
        for (size_t i = next++; i < missing.size(); i = next++) try {
                publish(missing[i].form, missing[i].band, make(missing[i].form, missing[i].band));
            } catch (...) {
                const std::lock_guard lock(failure_mutex);
                failure = std::current_exception();
            }
    };
    std::vector<std::jthread> threads;
    const size_t wanted = std::min<size_t>(missing.size(), std::max(1u, std::thread::hardware_concurrency()));
    for (size_t t = 1; t < wanted; ++t) threads.emplace_back(work);
    work();
    threads.clear();  // joins
    if (failure) std::rethrow_exception(failure);
}

std::unique_ptr<Variant> VariantSet::make(TokenForm form, TokenBand band) const {
    const DriverApi& api = context_->api();
    const DeviceLimits& limits = context_->limits();
    auto variant = std::make_unique<Variant>();
    variant->plan = make_plan(settings_, form, band, limits, wish_);
    const Plan& plan = variant->plan;
    const CompileRequest request = embedded_request(plan.source, target_for(limits.major, limits.minor).arch, {},
                                                    {{"kernel_plan.h", kernel_plan_header(plan.kernel)}});
    const CompiledKernel kernel = get_kernel(request);

    const ContextScope scope(*context_);
    const RelaxedCapture relaxed(api);
    check(api, api.cuModuleLoadData(&variant->module, kernel.cubin.data()), "cuModuleLoadData", "{} for {}",
          plan.source, request.arch);
    try {
        check(api, api.cuModuleGetFunction(&variant->function, variant->module, "nvfp4_router"), "cuModuleGetFunction");
        // Once for each loaded function, to all that it ever uses: nothing lowers it later.
        check(api,
              api.cuFuncSetAttribute(variant->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                     static_cast<int>(plan.shared_bytes)),
              "cuFuncSetAttribute", "{} bytes of dynamic shared memory", plan.shared_bytes);
    } catch (...) {
        api.cuModuleUnload(variant->module);
        throw;
    }
    return variant;
}

}  // namespace nvfp4r
