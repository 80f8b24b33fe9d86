// fence, membar, fence.proxy, fence.mbarrier_init (PTX ISA 9.7.13.5).
#include <bit>

#include "sim/instr/families.hpp"
#include "sim/instr/memory_order.hpp"

namespace nvfp4r::sim {
namespace {

struct Fence {
    Semantics semantics = Semantics::acq_rel;
    Scope scope = Scope::gpu;
};

Step exec_fence_fence(Warp& warp, const Instr& instr, LaneMask lanes) {
    const Fence& fence = instr.extra_as<Fence>();
    if (warp.machine().checker()) note_fence(warp, lanes, fence.semantics, fence.scope);
    return Step::next;
}

/// Both proxy.async and mbarrier_init show a thread's mbarrier.init to the async proxy and to the cluster.
void show_mbarriers(Warp& warp, LaneMask lanes) {
    for (auto& entry : warp.cta->mbarriers) {
        Mbarrier& barrier = entry.second;
        if (barrier.init_warp == warp.index && lanes >> barrier.init_lane & 1) barrier.shown = true;
    }
}

Step exec_proxy(Warp& warp, const Instr&, LaneMask lanes) {
    show_mbarriers(warp, lanes);
    if (Checker* checker = warp.machine().checker())
        for (LaneMask left = lanes; left; left &= left - 1)
            checker->fence_proxy_async(warp.first_actor + static_cast<uint32_t>(std::countr_zero(left)));
    return Step::next;
}

/// It releases to the cluster, so that a relaxed arrive on the cluster barrier may follow it (PTX ISA 9.7.13.5).
Step exec_mbarrier_init(Warp& warp, const Instr&, LaneMask lanes) {
    show_mbarriers(warp, lanes);
    if (warp.machine().checker()) note_fence(warp, lanes, Semantics::release, Scope::cluster);
    return Step::next;
}

/// Fences between proxies that the simulator does not keep apart.
Step exec_fence_nothing(Warp&, const Instr&, LaneMask) {
    return Step::next;
}

void decode_proxy(Decoder& decoder, Modifiers& modifiers, Instr& instr) {
    if (modifiers.take("async")) {
        modifiers.take_any({"global", "shared::cta", "shared::cluster"});
        instr.exec = exec_proxy;
    } else if (modifiers.take("async::generic")) {
        modifiers.need_any({"acquire", "release"});
        modifiers.need_any({"sync_restrict::shared::cluster", "sync_restrict::shared::cta"});
        modifiers.need("cluster");
        instr.exec = exec_proxy;
    } else if (modifiers.take("alias")) {
        instr.exec = exec_fence_nothing;
    } else if (modifiers.take("tensormap::generic")) {
        // Tensor maps are read when the copy is issued, so they are never stale here.
        modifiers.need_any({"acquire", "release"});
        need_scope(decoder, modifiers);
        instr.exec = exec_fence_nothing;
    } else {
        decoder.refuse("this kind of proxy fence is not modelled");
    }
}

Instr decode_fence(Decoder& decoder) {
    const Statement& statement = decoder.statement();
    Modifiers modifiers(decoder);
    Instr instr;
    Fence fence;
    if (statement.opcode == "membar") {
        if (modifiers.take("proxy")) {
            decode_proxy(decoder, modifiers, instr);
        } else {
            // membar.cta / .gl / .sys are fence.sc with scopes cta, gpu and sys.
            fence.scope = modifiers.take_one<Scope>({{"cta", Scope::cta}, {"gl", Scope::gpu}}, Scope::sys);
            if (fence.scope == Scope::sys) modifiers.need("sys");
            instr.exec = exec_fence_fence;
        }
    } else if (modifiers.take("proxy")) {
        decode_proxy(decoder, modifiers, instr);
    } else if (modifiers.take("mbarrier_init")) {
        modifiers.need("release");
        modifiers.need("cluster");
        instr.exec = exec_mbarrier_init;
    } else {
        fence.semantics = modifiers.take_one<Semantics>({{"sc", Semantics::acq_rel},
                                                         {"acq_rel", Semantics::acq_rel},
                                                         {"acquire", Semantics::acquire},
                                                         {"release", Semantics::release}},
                                                        Semantics::acq_rel);
        modifiers.take_any({"sync_restrict::shared::cluster", "sync_restrict::shared::cta"});
        fence.scope = need_scope(decoder, modifiers);
        instr.exec = exec_fence_fence;
    }
    modifiers.done();
    instr.extra = std::make_shared<Fence>(fence);
    return instr;
}

}  // namespace

const Family fence_family = {"fence", {"fence", "membar"}, decode_fence};

}  // namespace nvfp4r::sim
