// tcgen05.commit (PTX ISA 9.7.16.12.1) and tcgen05.fence (9.7.16.11): how the tensor pipe meets the threads.
#include "sim/engine/tensor_pipe.hpp"
#include "sim/engine/tmem.hpp"
#include "sim/instr/decode_help.hpp"
#include "sim/instr/families.hpp"
#include "sim/instr/modifiers.hpp"

namespace nvfp4r::sim {
namespace {

constexpr uint32_t kCommitLatency = 52;  // cycles of commit and wait together, measured by others on a B200

struct CommitForm {
    uint32_t cta_group = 1;
    bool generic = false;  // the address is generic, not shared::cluster
    bool multicast = false;
};

// A generic address of shared memory as its shared::cluster address.
uint32_t shared_cluster_address(const Issuer& issuer, uint64_t address, bool generic) {
    if (!generic) return static_cast<uint32_t>(address);
    const uint64_t offset = address - kSharedWindow;
    if (offset >> 32 != 0)
        throw Fault(FindingKind::out_of_bounds,
                    fmt::format("tcgen05.commit: generic address {:#x} is not in shared memory", address));
    if (!in_cluster_launch(issuer.cta())) return static_cast<uint32_t>(offset) & kSharedOffsetMask;
    return static_cast<uint32_t>(offset);
}

std::vector<MbarrierRef> tcgen05_sync_targets_of(const Issuer& issuer, const CommitForm& form, uint32_t address,
                                                 uint32_t mask) {
    const MbarrierRef named = barrier_at(issuer.machine(), *issuer.warp, issuer.lane, address, true, issuer.instr);
    if (!form.multicast) return {named};
    std::vector<MbarrierRef> targets;
    const auto& ctas = issuer.cta().cluster->ctas;
    each_lane(mask, [&](uint32_t rank) {
        if (rank >= ctas.size())
            throw Fault(
                FindingKind::illegal_instruction,
                fmt::format("multicast mask {:#x} names CTA rank {} of a cluster of {}", mask, rank, ctas.size()));
        targets.push_back({ctas[rank].get(), named.offset});
    });
    return targets;
}

// The arrivals come when everything that the thread put into its pipe before has completed.
void issue_commit(const Issuer& issuer, std::vector<MbarrierRef> targets) {
    for (const MbarrierRef& target : targets)
        if (target.owner != &issuer.cta()) ++target.owner->in_flight;
    issue_to_pipe(issuer, "tcgen05.commit", kCommitLatency, 0, nullptr,
                  [targets = std::move(targets)](AsyncOp& self, TensorPipe& pipe) {
                      Machine& machine = self.cta->machine();
                      follow(machine, self.actor, pipe.everything);
                      // Implicit fence::before_thread_sync.
                      if (machine.checker()) machine.checker()->tcgen05_fence_before(self.actor);
                      for (const MbarrierRef& target : targets) {
                          if (target.owner != self.cta) check_shown(machine, target, self.instr);
                          arrive_one(machine, self.actor, target, self.instr);
                          if (target.owner != self.cta) --target.owner->in_flight;
                      }
                  });
}

Step exec_tcgen05_sync_commit(Warp& w, const Instr& i, LaneMask lanes) {
    const auto& form = i.extra_as<CommitForm>();
    require_cta_group(w, lanes, form.cta_group, &i);
    Lanes addresses, scratch;
    w.addresses(i.addr, addresses, lanes);
    const uint64_t* masks = form.multicast ? w.read(i.src[0], scratch, lanes) : nullptr;
    each_lane(lanes, [&](uint32_t lane) {
        const Issuer issuer{&w, lane, &i};
        const uint32_t address = shared_cluster_address(issuer, addresses[lane], form.generic);
        const uint32_t mask = masks ? static_cast<uint32_t>(masks[lane]) & 0xffffu : 0;
        issue_commit(issuer, tcgen05_sync_targets_of(issuer, form, address, mask));
    });
    return Step::next;
}

Step exec_tcgen05_sync_fence(Warp& w, const Instr& i, LaneMask lanes) {
    Checker* checker = w.machine().checker();
    if (!checker) return Step::next;
    each_lane(lanes, [&](uint32_t lane) {
        if (i.detail == 0)
            checker->tcgen05_fence_before(w.first_actor + lane);
        else
            checker->tcgen05_fence_after(w.first_actor + lane);
    });
    return Step::next;
}

Instr decode_commit(Decoder& d, Modifiers& m) {
    auto form = std::make_shared<CommitForm>();
    form->cta_group = m.need_any({"cta_group::1", "cta_group::2"}) == "cta_group::2" ? 2 : 1;
    m.need("mbarrier::arrive::one");
    form->generic = !m.take("shared::cluster");
    form->multicast = m.take("multicast::cluster");
    m.need("b64");
    m.done();
    need_operands(d, form->multicast ? 2 : 1);
    Instr i;
    i.exec = exec_tcgen05_sync_commit;
    i.addr = d.addr(0);
    if (form->multicast) i.src[0] = d.src(1, 16);
    i.extra = form;
    return i;
}

Instr decode_tcgen05_sync(Decoder& d) {
    if (!is_blackwell(d)) d.refuse("tcgen05 needs sm_100a, sm_103a or sm_110a");
    Modifiers m(d);
    const std::string_view what = m.need_any({"commit", "fence::before_thread_sync", "fence::after_thread_sync"});
    if (what == "commit") return decode_commit(d, m);
    m.done();
    need_operands(d, 0);
    Instr i;
    i.exec = exec_tcgen05_sync_fence;
    i.detail = what == "fence::before_thread_sync" ? 0 : 1;
    return i;
}

}  // namespace

const Family tcgen05_sync_family{
    "tcgen05.commit",
    {"tcgen05.commit", "tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync"},
    decode_tcgen05_sync};

}  // namespace nvfp4r::sim
