// st.async and red.async (PTX ISA 9.7.9.12, 9.7.13.7): stores to a CTA of the cluster that its mbarrier counts.
#include <cstring>

#include "sim/engine/tma.hpp"
#include "sim/instr/decode_help.hpp"
#include "sim/instr/families.hpp"
#include "sim/instr/modifiers.hpp"

namespace nvfp4r::sim {
namespace {

constexpr uint32_t kMaxStore = 16;       // bytes of one thread
constexpr uint32_t kStoreLatency = 200;  // cycles through the cluster network, an estimate

// addr = destination.
struct AsyncStore {
    Addr barrier;
    std::vector<Src> values;
    uint32_t value_bytes = 4;
    bool reduce = false;
    ReduceOp op = ReduceOp::add;
    ReduceType type = ReduceType::u32;

    uint32_t bytes() const { return value_bytes * static_cast<uint32_t>(values.size()); }
};

std::array<uint8_t, kMaxStore> value_bytes(Warp& w, const AsyncStore& form, uint32_t lane) {
    std::array<uint8_t, kMaxStore> bytes{};
    for (size_t v = 0; v < form.values.size(); ++v) {
        Lanes scratch;
        const uint64_t value = w.read(form.values[v], scratch, LaneMask{1} << lane)[lane];
        std::memcpy(bytes.data() + v * form.value_bytes, &value, form.value_bytes);
    }
    return bytes;
}

void issue_store(const Issuer& issuer, const AsyncStore& form, const LoadTarget& target,
                 const std::array<uint8_t, kMaxStore>& value) {
    AsyncOp op = new_operation(issuer, form.reduce ? "red.async" : "st.async", form.bytes());
    op.latency = kStoreLatency;
    hold_targets(op, {target});
    op.run = [&form, target, value](AsyncOp& self) {
        Machine& m = self.cta->machine();
        const uint32_t bytes = form.bytes();
        const Machine::Place to = shared_place(*target.cta, target.offset, bytes, bytes, self.instr);
        AccessInfo info = writes(Proxy::generic, self.instr);
        if (form.reduce) info.order = Order::relaxed;
        touch(m, self.actor, to, bytes, info);
        if (form.reduce)
            reduce_elements(form.op, form.type, to.bytes, value.data(), bytes);
        else
            std::memcpy(to.bytes, value.data(), bytes);
        complete_tx(m, self.actor, target.barrier, bytes, self.instr);
        release_targets(self, {target});
        end_async(m, self.actor);
        return true;
    };
    issuer.machine().issue_free(issuer.cta(), std::move(op));
}

Step exec_st_async_store(Warp& w, const Instr& i, LaneMask lanes) {
    const auto& form = i.extra_as<AsyncStore>();
    if (!in_cluster_launch(*w.cta))  // measured on an H200
        throw Fault(FindingKind::illegal_instruction,
                    fmt::format("{}.async in a kernel launched without a cluster", form.reduce ? "red" : "st"));
    Lanes destinations, barriers;
    w.addresses(i.addr, destinations, lanes);
    w.addresses(form.barrier, barriers, lanes);
    each_lane(lanes, [&](uint32_t lane) {
        const Issuer issuer{&w, lane, &i};
        LoadTarget target;
        target.cta =
            &w.machine().shared_owner(*w.cta, static_cast<uint32_t>(destinations[lane]), true, target.offset, &i);
        const MbarrierRef named = barrier_at(w.machine(), w, lane, static_cast<uint32_t>(barriers[lane]), true, &i);
        if (named.owner != target.cta)
            issuer.report(FindingKind::mbarrier_misuse,
                          fmt::format("store into CTA rank {} with an mbarrier of rank {}: they must be in one CTA",
                                      target.cta->rank, named.owner->rank));
        target.barrier = {target.cta, named.offset};
        issue_store(issuer, form, target, value_bytes(w, form, lane));
    });
    return Step::next;
}

void decode_st_async_store(Decoder& d, Modifiers& m, AsyncStore& form) {
    m.need("async");
    m.take("weak");
    m.take("shared::cluster");
    m.need("mbarrier::complete_tx::bytes");
    const std::string_view vector = m.take_any({"v2", "v4"});
    const std::string_view type = m.need_any({"b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"});
    form.value_bytes = type.ends_with("64") ? 8 : 4;
    const size_t count = vector == "v4" ? 4 : vector == "v2" ? 2 : 1;
    if (form.value_bytes * count > kMaxStore) d.refuse("a store of more than 16 bytes");
    form.values = source_list(d, d.statement().operands[1], count, form.value_bytes * 8);
}

void decode_st_async_reduce(Decoder& d, Modifiers& m, AsyncStore& form) {
    m.need("async");
    m.need("relaxed");
    m.need("cluster");
    m.take("shared::cluster");
    m.need("mbarrier::complete_tx::bytes");
    const std::optional<ReduceOp> op = reduce_op(m.next("the reduction"));
    const std::optional<ReduceType> type = reduce_type(m.next("the type"));
    if (!op || !type || !reduces_shared(*op, *type))
        d.refuse("red.async has integer reductions only, 64-bit ones for add");
    form.reduce = true;
    form.op = *op;
    form.type = *type;
    form.value_bytes = reduce_bytes(*type);
    form.values = source_list(d, d.statement().operands[1], 1, form.value_bytes * 8);
}

Instr decode_st_async(Decoder& d) {
    if (d.sm() < 90) d.refuse("asynchronous stores need sm_90 or later");
    need_operands(d, 3);
    Modifiers m(d);
    auto form = std::make_shared<AsyncStore>();
    if (d.statement().opcode == "st")
        decode_st_async_store(d, m, *form);
    else
        decode_st_async_reduce(d, m, *form);
    m.done();
    Instr i;
    i.exec = exec_st_async_store;
    i.addr = d.addr(0);
    form->barrier = d.addr(2);
    i.extra = form;
    return i;
}

}  // namespace

const Family st_async_family{"st.async", {"st.async", "red.async"}, decode_st_async};

}  // namespace nvfp4r::sim
