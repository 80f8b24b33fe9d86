#include "launch/variants.hpp"

#include <algorithm>
#include <exception>
#include <thread>

#include "jit/jit.hpp"
#include "jit/target.hpp"
#include "plan/kernel_request.hpp"

namespace nvfp4r {

VariantSet::~VariantSet() {
    const DriverApi& api = context_->api();
    if (owned_.empty() || api.cuCtxPushCurrent(context_->handle()) != CUDA_SUCCESS) return;
    for (const auto& variant : owned_) api.cuModuleUnload(variant->module);
    CUcontext popped = nullptr;
    api.cuCtxPopCurrent(&popped);
}

std::atomic<const Variant*>& VariantSet::place(const Key& key) {
    const uint32_t index = static_cast<uint32_t>(key.form) * kTokenBands + static_cast<uint32_t>(key.band);
    return ready_[2 * index + (key.plain ? 1 : 0)];
}

const Variant& VariantSet::get(TokenForm form, int64_t tokens, bool plain) {
    const Key key{form, token_band(tokens), plain};
    if (const Variant* variant = place(key).load(std::memory_order_acquire)) return *variant;
    return publish(key, make(key));
}

const Variant& VariantSet::publish(const Key& key, std::unique_ptr<Variant> variant) {
    const std::lock_guard lock(mutex_);
    if (const Variant* first = place(key).load(std::memory_order_relaxed)) {
        const ContextScope scope(*context_);
        context_->api().cuModuleUnload(variant->module);
        return *first;
    }
    owned_.push_back(std::move(variant));
    place(key).store(owned_.back().get(), std::memory_order_release);
    return *owned_.back();
}

void VariantSet::prepare(int64_t max_tokens) {
    std::vector<Key> missing;
    const auto last = static_cast<uint32_t>(token_band(std::max<int64_t>(max_tokens, 1)));
    for (uint32_t form = 0; form < kForms; ++form)
        for (uint32_t band = 0; band <= last; ++band)
            for (const bool plain : {true, false}) {
                const Key key{static_cast<TokenForm>(form), static_cast<TokenBand>(band), plain};
                if (!place(key).load(std::memory_order_acquire)) missing.push_back(key);
            }
    std::atomic<size_t> next{0}, made{0};
    std::exception_ptr failure, no_compiler;
    std::mutex failure_mutex;
    const auto work = [&] {
        for (size_t i = next++; i < missing.size(); i = next++) try {
                publish(missing[i], make(missing[i]));
                ++made;
            } catch (const Error& error) {
                // Without NVRTC there are the kernels built into the library; a call that needs another is refused.
                const std::lock_guard lock(failure_mutex);
                (error.status() == NVFP4R_NO_DEVICE ? no_compiler : failure) = std::current_exception();
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
    if (no_compiler && made == 0) std::rethrow_exception(no_compiler);
}

std::unique_ptr<Variant> VariantSet::make(const Key& key) const {
    const DriverApi& api = context_->api();
    const DeviceLimits& limits = context_->limits();
    auto variant = std::make_unique<Variant>();
    variant->plan = make_plan(settings_, key.form, key.band, limits, wish_, key.plain);
    const Plan& plan = variant->plan;
    const CompileRequest request = kernel_request(plan, target_for(limits.major, limits.minor).arch);
    const CompiledKernel kernel = get_kernel(request);

    const ContextScope scope(*context_);
    const RelaxedCapture relaxed(api);
    check(api, api.cuModuleLoadData(&variant->module, api.simulated ? kernel.ptx.data() : kernel.cubin.data()),
          "cuModuleLoadData", "{} for {}", plan.source, request.arch);
    try {
        check(api, api.cuModuleGetFunction(&variant->function, variant->module, kKernelEntry), "cuModuleGetFunction");
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
