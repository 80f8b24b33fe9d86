#include "sim/check/checker.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "sim/check/clock.hpp"
#include "sim/program/instr.hpp"

using namespace nvfp4r::sim;

namespace {

struct Collect : Checker::Sink {
    std::vector<FindingKind> kinds;
    std::string last;
    void finding(FindingKind kind, const std::string& text) override {
        kinds.push_back(kind);
        last = text;
    }
    std::string describe(ActorId actor) override { return "thread " + std::to_string(actor); }
};

struct CheckerBench {
    Collect sink;
    Checker checker{sink};
    std::shared_ptr<Shadow> memory = checker.new_shadow("shared", 4096, false);
    ActorId t = checker.new_threads(64, {});

    void write(ActorId a, uint64_t offset, uint64_t bytes, Proxy proxy = Proxy::generic, Order order = Order::weak) {
        checker.access(a, *memory, offset, bytes, {Access::write, proxy, order, nullptr});
    }
    void read(ActorId a, uint64_t offset, uint64_t bytes, Proxy proxy = Proxy::generic, Order order = Order::weak) {
        checker.access(a, *memory, offset, bytes, {Access::read, proxy, order, nullptr});
    }
    void pass(ActorId from, ActorId to) {  // one release and one acquire
        SyncClock c;
        checker.release(from, c);
        checker.acquire(to, c);
    }
};

}  // namespace

TEST_CASE("a clock knows what it was raised to and what it joined", "[sim][check]") {
    std::mt19937_64 rng(7);
    std::vector<Clock> clocks(6);
    std::vector<std::map<uint32_t, uint32_t>> model(6);
    for (int i = 0; i < 20000; ++i) {
        const size_t a = rng() % 6, b = rng() % 6;
        switch (rng() % 3) {
            case 0: {
                const uint32_t actor = static_cast<uint32_t>(rng() % (rng() % 2 ? 300 : Clock::kActors));
                const uint32_t epoch = static_cast<uint32_t>(rng() % 100 + 1);
                clocks[a].raise(actor, epoch);
                model[a][actor] = std::max(model[a][actor], epoch);
                break;
            }
            case 1:
                clocks[a].join(clocks[b]);
                for (auto [actor, epoch] : model[b]) model[a][actor] = std::max(model[a][actor], epoch);
                break;
            default:
                if (rng() % 50 == 0) {
                    clocks[a] = clocks[b];
                    model[a] = model[b];
                }
        }
    }
    for (size_t i = 0; i < 6; ++i)
        for (auto [actor, epoch] : model[i]) REQUIRE(clocks[i].get(actor) == epoch);
}

TEST_CASE("unordered accesses of two threads race, ordered ones do not", "[sim][check]") {
    CheckerBench b;
    SECTION("write, write") {
        b.write(b.t, 0, 4);
        b.write(b.t + 1, 0, 4);
        REQUIRE(b.sink.kinds == std::vector{FindingKind::race});
        CHECK(b.sink.last.find("thread 33") != std::string::npos);
        CHECK(b.sink.last.find("thread 32") != std::string::npos);
    }
    SECTION("write, read") {
        b.write(b.t, 0, 4);
        b.read(b.t + 1, 2, 1);
        REQUIRE(b.sink.kinds == std::vector{FindingKind::race});
    }
    SECTION("read, write") {
        b.write(b.t, 0, 4);
        b.pass(b.t, b.t + 1);
        b.read(b.t + 1, 0, 4);
        b.write(b.t, 3, 1);
        REQUIRE(b.sink.kinds == std::vector{FindingKind::race});
    }
    SECTION("release and acquire order them") {
        b.write(b.t, 0, 16);
        b.pass(b.t, b.t + 1);
        b.read(b.t + 1, 0, 16);
        b.pass(b.t + 1, b.t);
        b.write(b.t, 0, 16);
        REQUIRE(b.sink.kinds.empty());
    }
    SECTION("what follows the release is not ordered by it") {
        b.write(b.t, 0, 4);
        SyncClock c;
        b.checker.release(b.t, c);
        b.write(b.t, 4, 4);
        b.checker.acquire(b.t + 1, c);
        b.read(b.t + 1, 0, 4);
        REQUIRE(b.sink.kinds.empty());
        b.read(b.t + 1, 4, 4);
        REQUIRE(b.sink.kinds == std::vector{FindingKind::race});
    }
    SECTION("neighbouring bytes are apart") {
        for (uint32_t i = 0; i < 16; ++i) b.write(b.t + i, i, 1);
        REQUIRE(b.sink.kinds.empty());
    }
    SECTION("relaxed accesses do not race with each other, but with weak ones") {
        b.write(b.t, 0, 4, Proxy::generic, Order::relaxed);
        b.write(b.t + 1, 0, 4, Proxy::generic, Order::relaxed);
        b.read(b.t + 2, 0, 4, Proxy::generic, Order::relaxed);
        REQUIRE(b.sink.kinds.empty());
        b.read(b.t + 3, 0, 4);
        REQUIRE(b.sink.kinds == std::vector{FindingKind::race});
    }
    SECTION("lanes of a warp are ordered by a warp synchronisation of both") {
        b.write(b.t, 0, 4);
        b.checker.warp_sync(b.t, 0x3);
        b.read(b.t + 1, 0, 4);
        REQUIRE(b.sink.kinds.empty());
        b.read(b.t + 2, 0, 4);
        REQUIRE(b.sink.kinds == std::vector{FindingKind::race});
    }
}

TEST_CASE("unwritten bytes are reported once per place", "[sim][check]") {
    CheckerBench b;
    b.write(b.t, 0, 7);
    b.read(b.t, 0, 7);
    CHECK(b.sink.kinds.empty());
    b.read(b.t, 4, 4);
    REQUIRE(b.sink.kinds == std::vector{FindingKind::uninitialised});
    CHECK(b.checker.written(*b.memory, 0, 7));
    CHECK_FALSE(b.checker.written(*b.memory, 0, 8));
    b.checker.host_write(*b.memory, 5, 100);
    CHECK(b.checker.written(*b.memory, 0, 105));
    b.checker.forget(*b.memory, 50, 1);
    CHECK_FALSE(b.checker.written(*b.memory, 50, 1));
    CHECK(b.checker.written(*b.memory, 51, 54));
}

TEST_CASE("C28 a generic write needs a proxy fence before an async access", "[sim][check]") {
    CheckerBench b;
    b.write(b.t, 0, 16);
    SECTION("without a fence") {
        b.pass(b.t, b.t + 1);
        const ActorId op = b.checker.begin_async(b.t + 1, false);
        b.read(op, 0, 16, Proxy::async);
        REQUIRE(b.sink.kinds == std::vector{FindingKind::proxy_race});
    }
    SECTION("fence by the writer") {
        b.checker.fence_proxy_async(b.t);
        b.pass(b.t, b.t + 1);
        const ActorId op = b.checker.begin_async(b.t + 1, false);
        b.read(op, 0, 16, Proxy::async);
        REQUIRE(b.sink.kinds.empty());
    }
    SECTION("a write after the fence is not behind it") {
        b.checker.fence_proxy_async(b.t);
        b.write(b.t, 8, 4);
        b.pass(b.t, b.t + 1);
        const ActorId op = b.checker.begin_async(b.t + 1, false);
        b.read(op, 0, 16, Proxy::async);
        REQUIRE(b.sink.kinds == std::vector{FindingKind::proxy_race});
    }
    SECTION("an async write is known through its completion, without a fence") {
        b.checker.fence_proxy_async(b.t);
        const ActorId op = b.checker.begin_async(b.t, false);
        b.write(op, 0, 16, Proxy::async);
        SyncClock phase;
        b.checker.release(op, phase);
        b.checker.end_async(op);
        b.checker.acquire(b.t + 5, phase);
        b.read(b.t + 5, 0, 16);
        REQUIRE(b.sink.kinds.empty());
        b.read(b.t + 6, 0, 16);
        REQUIRE(b.sink.kinds == std::vector{FindingKind::race});
    }
    SECTION("what the issuer does after the issue races with the operation") {
        b.checker.fence_proxy_async(b.t);
        const ActorId op = b.checker.begin_async(b.t, false);
        b.write(b.t, 0, 4);
        b.read(op, 0, 16, Proxy::async);
        REQUIRE(b.sink.kinds == std::vector{FindingKind::race});
    }
}

TEST_CASE("C05 tensor memory is ordered by commit, wait and tcgen05 fences only", "[sim][check]") {
    CheckerBench b;
    auto tmem = b.checker.new_shadow("tensor memory", 128 * 512 * 4, false);
    const AccessInfo write{Access::write, Proxy::async, Order::weak, nullptr};
    const AccessInfo read{Access::read, Proxy::async, Order::weak, nullptr};
    const ActorId mma = b.checker.begin_async(b.t, true);
    b.checker.tmem_access(mma, *tmem, 3, 8, 16, write);
    const ActorId commit = b.checker.begin_async(b.t, true);
    b.checker.order(mma, commit);
    SyncClock phase;
    b.checker.release(commit, phase);

    SECTION("no wait") {
        const ActorId ld = b.checker.begin_async(b.t + 32, true);
        b.checker.tmem_access(ld, *tmem, 3, 8, 16, read);
        REQUIRE(b.sink.kinds == std::vector{FindingKind::race});
    }
    SECTION("wait without fence::after_thread_sync") {
        b.checker.acquire(b.t + 32, phase);
        const ActorId ld = b.checker.begin_async(b.t + 32, true);
        b.checker.tmem_access(ld, *tmem, 3, 8, 16, read);
        REQUIRE(b.sink.kinds == std::vector{FindingKind::tcgen05_order});
    }
    SECTION("the whole round: ld, wait::ld, fence, arrive, fence, next mma") {
        b.checker.acquire(b.t + 32, phase);
        b.checker.tcgen05_fence_after(b.t + 32);
        const ActorId ld = b.checker.begin_async(b.t + 32, true);
        b.checker.tmem_access(ld, *tmem, 3, 8, 16, read);
        b.checker.end_async(ld);
        const bool waited = GENERATE(true, false);
        const bool fenced = GENERATE(true, false);
        if (waited) b.checker.tcgen05_wait(b.t + 32, ld);
        if (fenced) b.checker.tcgen05_fence_before(b.t + 32);
        b.pass(b.t + 32, b.t);
        b.checker.tcgen05_fence_after(b.t);
        const ActorId next = b.checker.begin_async(b.t, true);
        b.checker.order(commit, next);
        b.checker.tmem_access(next, *tmem, 3, 8, 16, write);
        CHECK(b.sink.kinds.empty() == (waited && fenced));
    }
    SECTION("an unwritten column") {
        const ActorId next = b.checker.begin_async(b.t, true);
        b.checker.order(mma, next);
        b.checker.tmem_access(next, *tmem, 3, 20, 8, read);
        REQUIRE(b.sink.kinds == std::vector{FindingKind::uninitialised});
    }
}

TEST_CASE("a new run lies after everything before it", "[sim][check]") {
    CheckerBench b;
    b.write(b.t, 0, 4);
    b.checker.new_run();
    const ActorId t = b.checker.new_threads(32, {});
    b.read(t + 3, 0, 4);
    b.write(t + 3, 0, 4);
    CHECK(b.sink.kinds.empty());
    b.read(t + 3, 8, 4);
    CHECK(b.sink.kinds == std::vector{FindingKind::uninitialised});
}

// A plain model, byte by byte and with full maps, decides the same programs.
TEST_CASE("random programs are judged as by a plain vector-clock model", "[sim][check]") {
    constexpr uint32_t kThreads = 40, kBytes = 48;
    struct Model {
        using Vc = std::map<uint32_t, uint32_t>;
        std::vector<Vc> generic, async;
        std::vector<uint32_t> epoch;
        struct Write {
            int actor = -1;
            uint32_t epoch = 0;
            bool is_async = false;
        };
        std::vector<Write> write;
        std::vector<std::map<uint32_t, uint32_t>> reads;
        static bool knows(const Vc& v, uint32_t actor, uint32_t e) {
            const auto it = v.find(actor);
            return it != v.end() && it->second >= e;
        }
        static void join(Vc& into, const Vc& from) {
            for (auto [a, e] : from) into[a] = std::max(into[a], e);
        }
    };
    uint64_t findings = 0;
    for (uint64_t seed = 0; seed < 300; ++seed) {
        std::mt19937_64 rng(seed);
        Collect sink;
        Checker checker(sink);
        auto memory = checker.new_shadow("m", kBytes, true);
        const ActorId t = checker.new_threads(kThreads, {});
        Model m;
        m.generic.resize(kThreads);
        m.async.resize(kThreads);
        m.epoch.assign(kThreads, 1);
        m.write.resize(kBytes);
        m.reads.resize(kBytes);
        std::vector<SyncClock> objects(3);
        std::vector<std::pair<Model::Vc, Model::Vc>> model_objects(3);
        for (int step = 0; step < 60; ++step) {
            const uint32_t a = static_cast<uint32_t>(rng() % 6) * 7 % kThreads;
            const size_t o = rng() % 3;
            switch (rng() % 6) {
                case 0:
                    checker.release(t + a, objects[o]);
                    Model::join(model_objects[o].first, m.generic[a]);
                    model_objects[o].first[a] = m.epoch[a];
                    Model::join(model_objects[o].second, m.async[a]);
                    ++m.epoch[a];
                    break;
                case 1:
                    checker.acquire(t + a, objects[o]);
                    Model::join(m.generic[a], model_objects[o].first);
                    Model::join(m.async[a], model_objects[o].second);
                    break;
                case 2:
                    if (rng() % 2) {
                        checker.fence_proxy_async(t + a);
                        Model::join(m.async[a], m.generic[a]);
                        m.async[a][a] = m.epoch[a];
                        ++m.epoch[a];
                    }
                    break;
                default: {
                    const bool is_write = rng() % 2, is_async = rng() % 3 == 0;
                    const uint64_t bytes = uint64_t{1} << (rng() % 5), at = rng() % (kBytes / bytes) * bytes;
                    bool expected = false;
                    for (uint64_t i = at; i < at + bytes; ++i) {
                        auto& w = m.write[i];
                        if (w.actor >= 0 && w.actor != static_cast<int>(a)) {
                            const uint32_t p = static_cast<uint32_t>(w.actor);
                            expected |= !Model::knows(m.generic[a], p, w.epoch) ||
                                        (is_async && !w.is_async && !Model::knows(m.async[a], p, w.epoch));
                        }
                        if (is_write) {
                            for (auto [r, e] : m.reads[i]) expected |= r != a && !Model::knows(m.generic[a], r, e);
                            m.reads[i].clear();
                            w = {static_cast<int>(a), m.epoch[a], is_async};
                        } else {
                            m.reads[i][a] = m.epoch[a];
                        }
                    }
                    // A finding is told once for each pair of instructions: give every access its own.
                    static std::vector<std::unique_ptr<Instr>> instrs;
                    instrs.push_back(std::make_unique<Instr>());
                    const size_t before = sink.kinds.size();
                    checker.access(t + a, *memory, at, bytes,
                                   {is_write ? Access::write : Access::read, is_async ? Proxy::async : Proxy::generic,
                                    Order::weak, instrs.back().get()});
                    INFO("seed " << seed << " step " << step);
                    REQUIRE((sink.kinds.size() > before) == expected);
                    findings += expected;
                }
            }
        }
    }
    CHECK(findings > 1000);  // the programs do contain races
}
